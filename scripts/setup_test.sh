#!/usr/bin/env bash
# Tests setup.sh on machines that lack something. Stand-ins for apt-get, apt-cache, id and sudo play
# the machine and write down each call.
set -euo pipefail
setup=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/setup.sh
machine=$(mktemp -d)
trap 'rm -rf "$machine"' EXIT
failures=0

stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$machine/bin/$1"; chmod +x "$machine/bin/$1"; }
# A machine with user id $1 that has everything. Its apt knows every package, except: none before an
# update if there is a file no_lists, and not libvalijson-dev if there is a file jammy.
new_machine() {
  rm -rf "${machine:?}"/*
  mkdir -p "$machine/bin" "$machine/include"
  for tool in bash sed cat mktemp rm tail env true; do
    ln -s "$(type -P $tool)" "$machine/bin/$tool"
  done
  for tool in g++ cmake ninja pkg-config git ccache clang-format-19 clang-tidy-19 groff zsh fish \
    chromium chromedriver duk; do
    stand_in $tool :
  done
  for header in benchmark/benchmark.h nlohmann/json.hpp CLI/CLI.hpp fmt/core.h eigen3/Eigen/Core \
    hwy/highway.h lzf.h stb/stb_image.h xxhash.h zlib.h google/protobuf/message.h onnx/onnx_pb.h \
    gtest/gtest.h gmock/gmock.h valijson/validator.hpp \
    ../share/benchmark/compare.py ../lib/python3/dist-packages/scipy/version.py \
    ../lib/python3/dist-packages/selenium/__init__.py \
    ../lib/python3/dist-packages/yaml/__init__.py \
    ../lib/llvm-19/lib/clang/19/include/omp.h; do
    mkdir -p "$(dirname "$machine/include/$header")"
    : >"$machine/include/$header"
  done
  stand_in id "echo $1"
  stand_in sudo 'echo "sudo $*" >>"$MACHINE/calls"
    [[ -e $MACHINE/may_sudo ]] || exit 1
    shift; exec "$@"'
  stand_in apt-get 'echo "apt-get $*" >>"$MACHINE/calls"
    [[ $* == *update* ]] && { : >"$MACHINE/updated"; exit 0; }
    [[ $* == *install* && -e $MACHINE/stale && ! -e $MACHINE/updated ]] &&
      { echo "404 Not Found"; exit 100; }
    [[ -e $MACHINE/broken ]] && { echo "E: no space left"; exit 100; }; exit 0'
  stand_in apt-cache 'if [[ ${@: -1} == libvalijson-dev && -e $MACHINE/jammy ]]; then exit 0; fi
    if [[ -e $MACHINE/no_lists && ! -e $MACHINE/updated ]]; then exit 0; fi
    echo "Package: ${@: -1}"'
}
lose() { local thing; for thing in "$@"; do rm -r "${machine:?}/$thing"; done; }
have() { local thing; for thing in "$@"; do : >"$machine/$thing"; done; }

# expect WHAT STATUS CALLS OUTPUT_PATTERN [ARGUMENT...]: CALLS are those of apt-get, in their order.
expect() {
  local status=0 calls
  : >"$machine/calls"
  MACHINE=$machine PATH=$machine/bin ATTEST_INCLUDE_PATH=$machine/include \
    bash "$setup" "${@:5}" >"$machine/out" 2>&1 || status=$?
  calls=$(sed 's/ .*\(update\|install\).*/ \1/' "$machine/calls" | grep apt-get |
    paste -sd' ' || true)
  if [[ $status != "$2" || $calls != "$3" ]] ||
    ! grep -qE -- "$4" <(cat "$machine/out" "$machine/calls"; echo); then
    printf 'FAILED %s: exit code %s (expected %s), calls "%s" (expected "%s"), or no "%s" in:\n' \
      "$1" "$status" "$2" "$calls" "$3" "$4"
    cat "$machine/out" "$machine/calls"
    failures=1
  fi
}

new_machine 0
expect "nothing missing" 0 "" '^$' --tests
have jammy; lose include/valijson
expect "only what the distribution does not have is missing" 0 "" '^$' --tests
lose include/gtest/gtest.h
expect "test packages are not for the build" 0 "" '^$'
expect "one test package" 0 "apt-get install" 'recommends libgtest-dev$' --tests
lose bin/clang-format-19
expect "the check of sources is not for --tests" 0 "apt-get install" \
  'recommends libgtest-dev$' --tests
expect "the check of sources is for --all" 0 "apt-get install" \
  'recommends libgtest-dev clang-format-19$' --all

new_machine 0; lose bin/g++ bin/ninja include/lzf.h include/valijson
expect "root, some missing: one call with only these" 0 "apt-get install" \
  'recommends g\+\+ ninja-build liblzf-dev libvalijson-dev$' --tests
have no_lists
expect "no package lists yet" 0 "apt-get update apt-get install" \
  'recommends g\+\+ ninja-build liblzf-dev$'
new_machine 0; have stale; lose include/fmt
expect "lists that are out of date" 0 "apt-get install apt-get update apt-get install" \
  'libfmt-dev +text'
have broken
expect "an installation that fails says why" 4 "apt-get install apt-get update apt-get install" \
  'no space left'

new_machine 1000; lose bin/cmake include/hwy
expect "no right to install: the one command to ask for" 4 "" \
  'sudo apt-get install -y --no-install-recommends cmake libhwy-dev$'
have may_sudo
expect "through sudo" 0 "apt-get install" '^sudo -n env .*recommends cmake libhwy-dev$'
new_machine 0; lose include/onnx
expect "an option belongs to the build if apt knows it" 0 "apt-get install" \
  'recommends libonnx-dev$'
new_machine 1000; lose include/onnx
expect "an option is not worth a refusal" 0 "" '^sudo -n true$'
new_machine 1000; lose include/valijson
expect "an extra is not worth a refusal" 0 "" '^sudo -n true$' --tests
new_machine 0; lose bin/apt-get bin/cmake
expect "another distribution" 4 "" 'no apt-get'
exit $failures
