#!/usr/bin/env bash
# Plants findings in a source and in a header of a small project. Expects sources_alone.sh or
# tidy_test.sh to fail and to name them, and to pass without them.
# usage: unit_checks_test.sh sources_alone|tidy SOURCE_DIR CMAKE
# Exit code 77 (skipped): the check is skipped.
set -euo pipefail
check=$1 source=$2 cmake=$3
here=$source/harness/testing/project
script=$here/$check.sh
[[ -e $script ]] || script=$here/${check}_test.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
export ATTEST_WHOLE=1

reset() {
  cp "$source/.clang-tidy" "$tree"
  cat >"$tree/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(planted LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_custom_target(attest_commit)
add_library(planted a.cpp b.cpp)
CMAKE
  printf '#include <string>\nunsigned long length(const std::string& text);\n' >"$tree/a.hpp"
  printf '#include "a.hpp"\nunsigned long length(const std::string& text) { %s; }\n' \
    'return text.size()' >"$tree/a.cpp"
  printf '#include <string>\nbool is_short(const std::string& text) { return text.size() < 9; }\n' \
    >"$tree/b.cpp"
}
expect() {  # expect STATUS WHAT [PATTERN]
  local status=0
  bash "$script" "$tree" "$cmake" >"$tree/said" 2>&1 || status=$?
  if [[ $status == 77 ]]; then cat "$tree/said"; exit 77; fi
  # xargs ends with 123 if what it runs fails.
  if (((status != 0) != $1)) || ! grep -q "${3:-}" "$tree/said"; then
    echo "$check on $2: exit code $status, expected $1 and '${3:-}'"
    cat "$tree/said"
    exit 1
  fi
}

reset
expect 0 "sources without a finding" "$check: slice: all"
case $check in
  sources_alone)
    sed -i 1d "$tree/b.cpp"
    expect 1 "a source without its include" 'b\.cpp:1:.*error'
    reset
    sed -i 1d "$tree/a.hpp"
    expect 1 "a header without its include" 'a\.hpp:1:.*error'
    ;;
  tidy)
    echo 'const char* none() { return 0; }' >>"$tree/b.cpp"
    expect 1 "a null pointer written as 0" 'b\.cpp:3:.*modernize-use-nullptr'
    reset
    echo 'inline const char* none() { return 0; }' >>"$tree/a.hpp"
    expect 1 "the same in a header" 'a\.hpp:3:.*modernize-use-nullptr'
    ;;
esac
