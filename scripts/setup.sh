#!/usr/bin/env bash
# Installs what the build needs and this machine lacks, with one apt-get call; does nothing when nothing is missing.
#   scripts/setup.sh          what a build needs
#   scripts/setup.sh --tests  and what its tests need
#   scripts/setup.sh --all    and what looks at the form of the sources
# Exit codes: 0 all there; 4 something is missing and could not be installed (the message says what to do).
set -euo pipefail

# need: build and tests cannot do without (tests: with --tests only); option, extra (with --tests) and
# all (with --all) are installed where apt knows them
# package              probe: a command, or a header below an include folder   need    why
packages() { sed 's/#.*//' <<'TABLE'
g++                    g++                                                     build   compiles everything: C++20 as g++ 11 has it
cmake                  cmake                                                   build   describes the build (3.22 or newer)
ninja-build            ninja                                                   build   runs it
pkg-config             pkg-config                                              build   finds Highway and xxHash
git                    git                                                     build   names the commit in every result
libbenchmark-dev       benchmark/benchmark.h                                   build   Google Benchmark: the timing loop
nlohmann-json3-dev     nlohmann/json.hpp                                       build   suites and results are JSON
libcli11-dev           CLI/CLI.hpp                                             build   the command line
libfmt-dev             fmt/core.h                                              build   text formatting
libeigen3-dev          eigen3/Eigen/Core                                       build   the naive implementation, half types
libhwy-dev             hwy/highway.h                                           build   Highway: SIMD chosen at run time
liblzf-dev             lzf.h|liblzf/lzf.h                                      build   compressed LiDAR sweeps (PCD)
libstb-dev             stb/stb_image.h                                         build   png and jpg images as tokens
libxxhash-dev          xxhash.h                                                build   hashes of inputs and outputs
zlib1g-dev             zlib.h                                                  build   packed NumPy archives (.npz)
libprotobuf-dev        google/protobuf/message.h                               option  ONNX test vectors (.onnx, .pb)
libonnx-dev            onnx/onnx_pb.h                                          option  their schema
libgtest-dev           gtest/gtest.h                                           tests   GoogleTest
libgmock-dev           gmock/gmock.h                                           tests   its matchers
libvalijson-dev        valijson/validator.hpp                                  extra   holds results against their JSON Schema (not in Ubuntu 22.04)
ccache                 ccache                                                  option  compiles again only what has changed
clang-format-19        clang-format-19                                         all     holds the form of the sources
TABLE
}

# Where headers may lie. ATTEST_INCLUDE_PATH replaces the list (the test of this script uses it).
include_path=${ATTEST_INCLUDE_PATH:-${CPATH:-}:${CMAKE_PREFIX_PATH:+${CMAKE_PREFIX_PATH//[:;]//include:}/include:}/usr/local/include:/usr/include}

found() {  # found PROBE
  local folder name names folders
  IFS='|' read -ra names <<<"$1"
  case $1 in
    *.h | *.hpp | *Core) ;;
    *) command -v "$1" >/dev/null; return ;;
  esac
  IFS=: read -ra folders <<<"$include_path"
  for folder in "${folders[@]}"; do
    for name in "${names[@]}"; do
      if [[ -n $folder && -e $folder/$name ]]; then return 0; fi
    done
  done
  return 1
}

missing=() reasons=() extra=()
find_missing() {  # find_missing TESTS(0|1) ALL(0|1)
  local package probe need why
  while read -r package probe need why; do
    if [[ -z $package || (($need == tests || $need == extra) && $1 == 0) || ($need == all && $2 == 0) ]] || found "$probe"; then continue; fi
    if [[ $need == extra || $need == option || $need == all ]]; then extra+=("$package"); else missing+=("$package"); fi
    reasons+=("$(printf '  %-20s %s' "$package" "$why")")
  done < <(packages)
}

known() { [[ -n $(apt-cache show --no-all-versions "$1" 2>/dev/null) ]]; }
all_known() { local package; for package in "$@"; do known "$package" || return 1; done; }

apt_get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@"; }
install_all() { apt_get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; }

# Stops with what a person has to do.
stop() { printf '%s\n' "setup: $1" "${@:2}" >&2; exit 4; }

main() {
  local tests=0 all=0 package
  if [[ ${1:-} == --tests || ${1:-} == --all ]]; then tests=1; fi
  if [[ ${1:-} == --all ]]; then all=1; fi
  find_missing "$tests" "$all"
  if ((${#missing[@]} + ${#extra[@]} == 0)); then return 0; fi

  if ! command -v apt-get >/dev/null; then
    if ((${#missing[@]} == 0)); then return 0; fi
    stop "this machine has no apt-get; please install these (names as in Debian) with its package manager:" "${reasons[@]}"
  fi
  as_root=()
  if [[ $(id -u) != 0 ]]; then as_root=(sudo -n); fi
  if ((${#as_root[@]})) && ! sudo -n true 2>/dev/null; then
    if ((${#missing[@]} == 0)); then return 0; fi
    stop "the build needs:" "${reasons[@]}" "and this user may not install packages. Please run, or ask for:" \
      "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
  fi

  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! all_known "${missing[@]}"; then
    echo "setup: apt-get update (this machine's package lists do not have what is missing)"
    apt_get update >"$log" 2>&1 || stop "apt-get update failed:" "$(tail -n 5 "$log")"
  fi
  for package in "${extra[@]}"; do
    if known "$package"; then missing+=("$package"); fi
  done
  if ((${#missing[@]} == 0)); then return 0; fi
  printf '%s\n' "setup: installing what the build needs and is missing:" "${reasons[@]}"
  if ! install_all; then  # lists older than the archive name files that are gone: once more with new ones
    apt_get update >"$log" 2>&1 && install_all || stop "apt-get install ${missing[*]} failed:" "$(tail -n 5 "$log")"
  fi
}

main "$@"
