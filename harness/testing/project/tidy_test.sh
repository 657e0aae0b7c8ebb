#!/usr/bin/env bash
# Runs clang-tidy 19, with the checks of .clang-tidy, on everything but tests. In a unity build a
# few sources are read at once, so that the headers that they share are read once. It takes the
# slice of such units that slice.sh chooses; ATTEST_WHOLE=1 takes all of them.
# usage: tidy_test.sh SOURCE_DIR CMAKE     exit code 77 (skipped): no clang-tidy-19, no omp.h for it
set -euo pipefail
source=$(realpath "$1") cmake=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v clang-tidy-19 >/dev/null || { echo "NOT TESTED: no clang-tidy-19"; exit 77; }
[[ -e /usr/lib/llvm-19/lib/clang/19/include/omp.h ]] ||
  { echo "NOT TESTED: no libomp-19-dev"; exit 77; }
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

"$cmake" -G Ninja -S "$source" -B "$build" -DATTEST_TESTS=OFF -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 >"$build/log" ||
  { cat "$build/log"; exit 1; }
"$cmake" --build "$build" --target attest_commit >/dev/null
# Each unit with the sources that it includes, their headers and .clang-tidy; one that includes none
# is a source itself.
grep -o '"file": "[^"]*"' "$build/compile_commands.json" | cut -d '"' -f 4 |
  while read -r unit; do
    echo "$unit" "$({ sed -n 's/^#include "\(.*\.cp*\)"$/\1/p' "$unit"; echo "$unit"; } |
      sed -n "s:^$source/::p" | sed 's:\(.*\)\.cpp$:& \1.hpp:' | paste -sd ' ')" .clang-tidy
  done | bash "$here/slice.sh" tidy "$source" 17 >"$build/slice"
# The command that compiles each of these.
sed -n 's/^ *"command": "\(.*\)",$/\1/p' "$build/compile_commands.json" |
  sed 's/\\"/"/g; s/\\\\/\\/g; s/^[^ ]*//; s/ -o [^ ]* -c / /' |
  awk 'NR == FNR { wanted[$1]; next } $NF in wanted' "$build/slice" - >"$build/commands"
[[ $(wc -l <"$build/commands") == $(wc -l <"$build/slice") ]] ||
  { echo "units of the slice are lost"; exit 1; }
# tidy OPTION ... UNIT: clang-tidy takes the options from the build folder.
tidy() {
  clang-tidy-19 -p "$build" --quiet --config-file="$source/.clang-tidy" \
    --extra-arg=-Wno-everything "${@: -1}"
}
# The same, for ccache to remember. clang says what the unit includes.
tidy_for_ccache() { clang-19 -w -E "$@" -o /dev/null && tidy "$@"; }
export -f tidy tidy_for_ccache
export build source CHECK=tidy_for_ccache
run=tidy
if cache=$(command -v ccache) && command -v clang-19 >/dev/null; then
  run="$cache $here/checking_compiler.sh -MD -MF \$\$.d -o \$\$.o -c"
  export CCACHE_DEPEND=1 CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$build CCACHE_COMPILERTYPE=gcc
  export CCACHE_EXTRAFILES=$source/.clang-tidy
  export CCACHE_COMPILERCHECK="string:tidy $(clang-tidy-19 --version)"
fi
# A finding in a header is found from several sources; it is printed once.
status=0
(cd "$build" && sed "s:^:$run :" commands | xargs -r -d '\n' -n 1 -P 2 bash -c) \
  >"$build/found" 2>"$build/errors" || status=$?
grep -E ': (error|warning): ' "$build/found" "$build/errors" -h | sort -u || true
exit $status
