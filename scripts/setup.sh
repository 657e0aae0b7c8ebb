#!/usr/bin/env bash
# Installs what the build needs and this machine lacks, with one call of apt-get. Does nothing if
# nothing is missing. oneDNN comes from PyPI where the distribution's is too old
# (scripts/onednn.sh); without it, two implementations are left out.
#   scripts/setup.sh            what a build needs
#   scripts/setup.sh --tests    what the tests need, too
#   scripts/setup.sh --aarch64  what a cross build for 64-bit Arm needs, too (for aarch64.sh)
#   scripts/setup.sh --all      all of these, and what checks of sources and of a report's page need
# Exit codes: 0 if everything is there; 4 if something is missing and could not be installed (the
# message says what to do).
set -euo pipefail

# need: `build` and `tests` must be there (`tests` with --tests or --all only). `option`, `extra`
# (with --tests or --all), `arm` (with --aarch64 or --all) and `all` (with --all) are installed if
# apt knows them.
# probe: a command, a header below an include folder, any file beside one (../), or a module of
# Python (import:).
# package           probe                      need   why
packages() { sed 's/#.*//' <<'TABLE'
g++                 g++                        build  compiles everything: C++20 as g++ 11 has it
cmake               cmake                      build  describes the build (3.22 or newer)
ninja-build         ninja                      build  runs it
pkg-config          pkg-config                 build  finds Highway and xxHash
git                 git                        build  names the commit in every result
nlohmann-json3-dev  nlohmann/json.hpp          build  suites and results are JSON
libcli11-dev        CLI/CLI.hpp                build  the command line
libfmt-dev          fmt/core.h                 build  text formatting
libeigen3-dev       eigen3/Eigen/Core          build  the naive implementation, half types
libhwy-dev          hwy/highway.h              build  Highway: SIMD chosen at run time
liblzf-dev          lzf.h|liblzf/lzf.h         build  compressed LiDAR sweeps (PCD)
libstb-dev          stb/stb_image.h            build  png and jpg images as tokens
libxxhash-dev       xxhash.h                   build  hashes of inputs and outputs
zlib1g-dev          zlib.h                     build  packed NumPy archives (.npz)
libsqlite3-dev      sqlite3.h                  build  the index of a history
libprotobuf-dev     google/protobuf/message.h  option ONNX test vectors (.onnx, .pb)
libonnx-dev         onnx/onnx_pb.h             option their schema
libdnnl-dev         oneapi/dnnl/dnnl_graph.hpp option oneDNN, to compare with (from 3.2 on)
python3-venv        import:ensurepip           option fetches oneDNN and what draws charts from PyPI
libgtest-dev        gtest/gtest.h              tests  GoogleTest
libgmock-dev        gmock/gmock.h              tests  its matchers
libbenchmark-dev    benchmark/benchmark.h      extra  tests the adapter of Google Benchmark
libvalijson-dev     valijson/validator.hpp     extra  validates results (not in Ubuntu 22.04)
libbenchmark-tools  ../share/benchmark/compare.py  extra  reads reports of Google Benchmark's form
python3-scipy       ../lib/python3/dist-packages/scipy/version.py  extra  statistics for it
ccache              ccache                     extra  compiles the same thing once
duktape             duk                        extra  tests the rule of the page
g++-aarch64-linux-gnu aarch64-linux-gnu-g++    arm    compiles for 64-bit Arm
g++-11-aarch64-linux-gnu aarch64-linux-gnu-g++-11 arm  the same for bundle.sh, as JetPack 6 has it
qemu-user           qemu-aarch64               arm    runs what was compiled for it
chromium            chromium                   all    opens the page of a report
chromium-driver     chromedriver               all    drives it
python3-yaml        ../lib/python3/dist-packages/yaml/__init__.py  all  reads CI recipes
python3-selenium    ../lib/python3/dist-packages/selenium/__init__.py  all  drives the driver
clang-19            clang++-19                 all    compiles the build with ASan, in less time
libclang-rt-19-dev  ../lib/llvm-19/lib/clang/19/include/sanitizer/asan_interface.h  all  its ASan
clang-format-19     clang-format-19            all    checks the form of the sources
clang-tidy-19       clang-tidy-19              all    finds mistakes in them
groff-base          groff                      all    checks the manual pages
zsh                 zsh                        all    runs the completion of zsh
fish                fish                       all    runs that of fish
libomp-19-dev       ../lib/llvm-19/lib/clang/19/include/omp.h  all  OpenMP's header for clang-tidy
TABLE
}

# The folders of headers. ATTEST_INCLUDE_PATH replaces the list (the test of this script sets it).
prefixes=${CMAKE_PREFIX_PATH:+${CMAKE_PREFIX_PATH//[:;]//include:}/include:}
include_path=${ATTEST_INCLUDE_PATH:-${CPATH:-}:${prefixes}/usr/local/include:/usr/include}

found() {  # found PROBE
  local folder name names folders
  IFS='|' read -ra names <<<"$1"
  case $1 in
    *.h | *.hpp | *Core | ../*) ;;
    import:*) python3 -c "import ${1#import:}" 2>/dev/null; return ;;
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
find_missing() {  # find_missing TESTS(0|1) ALL(0|1) ARM(0|1)
  local package probe need why
  while read -r package probe need why; do
    case $need in
      tests | extra) (($1)) || continue ;;
      all) (($2)) || continue ;;
      arm) (($3)) || continue ;;
    esac
    if [[ -z $package ]] || found "$probe"; then continue; fi
    case $need in
      extra | option | all | arm) extra+=("$package") ;;
      *) missing+=("$package") ;;
    esac
    reasons+=("$(printf '  %-22s %s' "$package" "$why")")
  done < <(packages)
}

# Whether apt has a package, and in a version that is of use.
known() {
  local version
  version=$(apt-cache show --no-all-versions "$1" 2>/dev/null | sed -n 's/^Version: //p')
  case $1:$version in
    *: | libdnnl-dev:[0-2].* | libdnnl-dev:3.[01].*) return 1 ;;
  esac
}
all_known() { local package; for package in "$@"; do known "$package" || return 1; done; }

apt_get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@"; }
install_all() { apt_get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; }

# Stops, and says what a person has to do.
stop() { printf '%s\n' "setup: $1" "${@:2}" >&2; exit 4; }

main() {
  local tests=0 all=0 arm=0 package
  case ${1:-} in
    --tests) tests=1 ;;
    --aarch64) arm=1 ;;
    --all) tests=1 all=1 arm=1 ;;
  esac
  find_missing "$tests" "$all" "$arm"
  if ((${#missing[@]} + ${#extra[@]} == 0)); then return 0; fi

  if ! command -v apt-get >/dev/null; then
    if ((${#missing[@]} == 0)); then return 0; fi
    stop "this machine has no apt-get; please install these (the names are Debian's) otherwise:" \
      "${reasons[@]}"
  fi
  as_root=()
  if [[ $(id -u) != 0 ]]; then as_root=(sudo -n); fi
  if ((${#as_root[@]})) && ! sudo -n true 2>/dev/null; then
    if ((${#missing[@]} == 0)); then return 0; fi
    stop "the build needs:" "${reasons[@]}" \
      "and this user may not install packages. Please run, or ask for:" \
      "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
  fi

  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! all_known "${missing[@]}"; then
    echo "setup: apt-get update (this machine's package lists lack what is missing)"
    apt_get update >"$log" 2>&1 || stop "apt-get update failed:" "$(tail -n 5 "$log")"
  fi
  for package in "${extra[@]}"; do
    if known "$package"; then missing+=("$package"); fi
  done
  if ((${#missing[@]} == 0)); then return 0; fi
  printf '%s\n' "setup: installing what the build needs and is missing:" "${reasons[@]}"
  if ! install_all; then
    # Old package lists name files that are no longer there: try once more with new lists.
    apt_get update >"$log" 2>&1 && install_all ||
      stop "apt-get install ${missing[*]} failed:" "$(tail -n 5 "$log")"
  fi
}

main "$@"
bash "$(dirname "${BASH_SOURCE[0]}")/onednn.sh" || true
