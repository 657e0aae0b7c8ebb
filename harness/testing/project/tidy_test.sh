#!/usr/bin/env bash
# Runs clang-tidy 19, with the checks of .clang-tidy, on everything but tests. In a unity build a
# few sources are read at once, so that the headers that they share are read once.
# usage: tidy_test.sh SOURCE_DIR CMAKE     exit code 77 (skipped): no clang-tidy-19, no omp.h for it
set -euo pipefail
source=$1 cmake=$2
command -v clang-tidy-19 >/dev/null || { echo "NOT TESTED: no clang-tidy-19"; exit 77; }
[[ -e /usr/lib/llvm-19/lib/clang/19/include/omp.h ]] ||
  { echo "NOT TESTED: no libomp-19-dev"; exit 77; }
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

"$cmake" -G Ninja -S "$source" -B "$build" -DATTEST_TESTS=OFF -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 >"$build/log" ||
  { cat "$build/log"; exit 1; }
"$cmake" --build "$build" --target attest_commit >/dev/null
# A finding in a header is found from several sources; it is printed once.
status=0
grep -o '"file": "[^"]*"' "$build/compile_commands.json" | cut -d '"' -f 4 |
  xargs -n 1 -P 2 clang-tidy-19 -p "$build" --quiet --config-file="$source/.clang-tidy" \
    --extra-arg=-Wno-everything >"$build/found" 2>"$build/errors" || status=$?
grep -E ': (error|warning): ' "$build/found" "$build/errors" -h | sort -u || true
exit $status
