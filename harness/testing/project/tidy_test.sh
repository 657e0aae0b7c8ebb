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
# A finding in a header is found from several sources; it is printed once.
status=0
xargs -r -a "$build/slice" -n 1 -P 2 clang-tidy-19 -p "$build" --quiet \
  --config-file="$source/.clang-tidy" --extra-arg=-Wno-everything \
  >"$build/found" 2>"$build/errors" || status=$?
grep -E ': (error|warning): ' "$build/found" "$build/errors" -h | sort -u || true
exit $status
