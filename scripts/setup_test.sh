#!/usr/bin/env bash
# Tests setup.sh, and onednn.sh which it calls, on machines that lack something. Stand-ins for
# apt-get, apt-cache, id, sudo, uname and python3 play the machine and write down each call.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
machine=$(mktemp -d)
trap 'rm -rf "$machine"' EXIT
failures=0

stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$machine/bin/$1"; chmod +x "$machine/bin/$1"; }
# A machine with user id $1 that has everything. Its apt knows every package, except: none before an
# update if there is a file no_lists, and not libvalijson-dev if there is a file jammy. Its python3
# makes environments and installs packages, unless there is a file offline.
new_machine() {
  rm -rf "${machine:?}"/*
  mkdir -p "$machine"/{bin,include,tree/scripts}
  cp "$scripts"/{setup,onednn}.sh "$machine/tree/scripts"
  for tool in bash sed cat mktemp rm tail env true dirname paste sort head ln; do
    ln -s "$(type -P $tool)" "$machine/bin/$tool"
  done
  for tool in g++ cmake ninja pkg-config git ccache clang++-19 clang-format-19 clang-tidy-19 groff \
    zsh fish chromium chromedriver duk aarch64-linux-gnu-g++{,-11} qemu-aarch64; do
    stand_in $tool :
  done
  for header in benchmark/benchmark.h nlohmann/json.hpp CLI/CLI.hpp fmt/core.h eigen3/Eigen/Core \
    hwy/highway.h lzf.h stb/stb_image.h xxhash.h zlib.h sqlite3.h google/protobuf/message.h \
    onnx/onnx_pb.h oneapi/dnnl/dnnl_graph.hpp gtest/gtest.h gmock/gmock.h valijson/validator.hpp \
    ../share/benchmark/compare.py ../lib/python3/dist-packages/scipy/version.py \
    ../lib/python3/dist-packages/selenium/__init__.py \
    ../lib/python3/dist-packages/yaml/__init__.py \
    ../lib/llvm-19/lib/clang/19/include/{omp,sanitizer/asan_interface}.h; do
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
    echo "Package: ${@: -1}"
    echo "Version: $(cat "$MACHINE/version" 2>/dev/null || echo 9)"'
  stand_in uname 'echo x86_64'
  stand_in python3 'echo "python3 $*" >>"$MACHINE/calls"
    case "$*" in
      "-m venv "*) /bin/mkdir -p "$3/bin" "$3/lib"; ln -s "$0" "$3/bin/python3" ;;
      "-m pip install "*) if [[ -e $MACHINE/offline ]]; then echo "no route to PyPI"; exit 1; fi ;;
    esac'
  onednn_version 3 2
}
onednn_version() {  # onednn_version MAJOR MINOR: of the machine's own headers
  printf '#define DNNL_VERSION_%s %s\n' MAJOR "$1" MINOR "$2" PATCH 0 \
    >"$machine/include/oneapi/dnnl/dnnl_version.h"
}
lose() { local thing; for thing in "$@"; do rm -r "${machine:?}/$thing"; done; }
have() { local thing; for thing in "$@"; do : >"$machine/$thing"; done; }

# expect WHAT STATUS CALLS OUTPUT_PATTERN [ARGUMENT...]: CALLS are those of apt-get, in their order.
expect() {
  local status=0 calls
  : >"$machine/calls"
  MACHINE=$machine PATH=$machine/bin ATTEST_INCLUDE_PATH=$machine/include \
    bash "$machine/tree/scripts/setup.sh" "${@:5}" >"$machine/out" 2>&1 || status=$?
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

new_machine 0; lose bin/qemu-aarch64
expect "emulation is not for --tests" 0 "" '^$' --tests
expect "emulation is for 64-bit Arm" 0 "apt-get install" 'recommends qemu-user$' --aarch64
expect "emulation is for --all" 0 "apt-get install" 'recommends qemu-user$' --all

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

# oneDNN: the machine's own if it is new enough, otherwise PyPI's, once.
pypi='^python3 -m pip install .* onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0$'
new_machine 0
expect "oneDNN is there" 0 "" '^$'
if grep -q 'pip install' "$machine/calls"; then echo "FAILED: fetches what is there"; failures=1; fi
onednn_version 3 1
expect "oneDNN is too old" 0 "" "$pypi"
[[ -L $machine/tree/build/onednn/lib/libdnnl.so ]] || { echo "FAILED: no library"; failures=1; }
expect "oneDNN was fetched" 0 "" '^$'
if grep -q 'pip install' "$machine/calls"; then echo "FAILED: fetches oneDNN twice"; failures=1; fi
new_machine 0; lose include/oneapi; have offline
expect "apt has oneDNN" 0 "apt-get install" 'recommends libdnnl-dev$'
echo 2.6.3-1 >"$machine/version"
expect "oneDNN of apt is too old, and PyPI does not answer" 0 "" \
  'no route to PyPI; the build leaves out what needs oneDNN$'
echo 3.10.2 >"$machine/version"
expect "versions are numbers" 0 "apt-get install" 'recommends libdnnl-dev$'
lose bin/python3; echo 3.1.1 >"$machine/version"
expect "no python3" 0 "apt-get install" 'there is no python3; the build leaves'
exit $failures
