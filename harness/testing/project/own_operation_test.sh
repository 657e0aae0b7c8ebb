#!/usr/bin/env bash
# Writes an operation with `attest new`, builds it into attest with ATTEST_OPERATIONS, and judges
# its implementation.
# usage: own_operation_test.sh BUILD_DIR SOURCE_DIR CMAKE
# Exit code 77 (skipped): the program has not been built.
set -euo pipefail
build=$1 source=$2 cmake=$3
[[ -x $build/bin/attest ]] || { echo "bin/attest has not been built"; exit 77; }
# Beside the other build folders, the compiler cache finds what is compiled as there.
work=$(mktemp -d "$build/../own_operation.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
work=$PWD

"$build/bin/attest" new mine --operation >said
grep -qF "DATTEST_OPERATIONS=$work/mine" said
(cd "$source" && "$cmake" --preset test -B "$work" -DATTEST_TESTS=OFF \
  -DATTEST_OPERATIONS="$work/mine") >log 2>&1 || { cat log; exit 1; }
"$cmake" --build . --target attest attest_worker mine_cpu >log 2>&1 || { cat log; exit 1; }
bin/attest run mine/mine.json --impl mine_cpu --budget 10ms | tee judged
grep -q '^1 pass' judged
