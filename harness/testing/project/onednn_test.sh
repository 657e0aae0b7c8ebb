#!/usr/bin/env bash
# Configures a project of nothing but harness/cmake/onednn.cmake, with and without a oneDNN: it is
# left out, and says why, unless it is of use.
# usage: onednn_test.sh SOURCE_DIR CMAKE
set -euo pipefail
source=$1 cmake=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
cat >"$work/CMakeLists.txt" <<PROJECT
cmake_minimum_required(VERSION 3.22)
project(alone LANGUAGES NONE)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)  # not this machine's own
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
include($source/harness/cmake/onednn.cmake)
message(STATUS "result: \${ATTEST_ONEDNN}")
PROJECT

# found VERSION RUNTIME: what a package of oneDNN says of itself, where scripts/onednn.sh puts it.
found() {
  local package=$work/build/onednn/lib/cmake/dnnl
  mkdir -p "$package"
  echo "set(DNNL_CPU_THREADING_RUNTIME $2)" >"$package/dnnl-config.cmake"
  cat >"$package/dnnl-config-version.cmake" <<VERSION
set(PACKAGE_VERSION $1)
if(NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
VERSION
}
# expect RESULT PATTERN [ARGUMENT...]: of a configuration in the same build folder.
expect() {
  "$cmake" -G Ninja -S "$work" -B "$work/alone" "${@:3}" >"$work/said" 2>&1 ||
    { cat "$work/said"; echo "FAILED: it does not configure"; exit 1; }
  if ! grep -q -- "^-- result: $1$" "$work/said" ||
    [[ $(grep -cE -- "^-- oneDNN: $2" "$work/said") != 1 ]]; then
    cat "$work/said"
    echo "FAILED: expected $1, and once: $2"
    failures=1
  fi
}

expect OFF '3.2 or newer not found, .* left out'
found 3.2.0 OMP
expect ON "3\.2\.0, $work"
expect OFF 'switched off by ATTEST_WITH_ONEDNN, .* left out' -DATTEST_WITH_ONEDNN=OFF
found 3.2.0 TBB
expect OFF '.* threads of TBB, .*' -DATTEST_WITH_ONEDNN=ON
found 3.1.1 OMP
expect OFF '3.2 or newer not found'
rm -r "$work/build"
expect OFF '3.2 or newer not found'
found 3.6.2 OMP
expect ON '3\.6\.2'
exit $failures
