#!/usr/bin/env bash
# A project that knows nothing but an installed attest times its own implementation with Google
# Benchmark. compare.py compares two such runs.
# usage: gbench_consumer_test.sh BUILD_DIR CMAKE CXX
# Exit code 77 (skipped): the program is not built, or Google Benchmark is not there.
set -euo pipefail
build=$1 cmake=$2 cxx=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
skip() { echo "NOT TESTED: $*"; exit 77; }
die() { echo "$*"; exit 1; }
[[ -x $build/bin/attest ]] || skip "bin/attest has not been built"
[[ -x $build/tests/attest_gbench_example ]] || skip "no Google Benchmark (package libbenchmark-dev)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null
cp -r "$here/consumer_gbench" "$work/project"
cd "$work/project"
"$work/prefix/bin/attest" new mine >/dev/null
"$cmake" -G Ninja -S . -B build -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >log 2>&1 &&
  "$cmake" --build build >log 2>&1 || { cat log; exit 1; }
# Found without GoogleTest, which this project does not use.
if grep -q '^GTest_DIR' build/CMakeCache.txt; then die "COMPONENTS gbench looks for GoogleTest"; fi

for when in before after; do
  env -i HOME="$PWD" OMP_WAIT_POLICY=passive build/mine_benchmark \
    --benchmark_filter='smoke/softmax/dense/f32/mine/' \
    --benchmark_repetitions=2 --benchmark_out="$when.json" >log 2>&1 || { cat log; exit 1; }
done
grep -q '"FLOP/s"' before.json || { cat before.json; die "the report has no counter FLOP/s"; }

python=/usr/bin/python3  # the one that the packages are for
compare=/usr/share/benchmark/compare.py
[[ -e $compare ]] || skip "no $compare (package libbenchmark-tools)"
"$python" -c 'import scipy' 2>/dev/null || skip "no scipy (package python3-scipy)"
# Twice the times afterwards, and an implementation that fails: it must not look faster.
"$python" - <<'PYTHON'
import json
with open("before.json") as file:
    report = json.load(file)
for entry in report["benchmarks"]:
    entry["real_time"] *= 2
with open("after.json", "w") as file:
    json.dump(report, file)
PYTHON
"$python" "$compare" --no-color benchmarks before.json after.json | tee out
name='smoke/softmax/dense/f32/mine/iterations:1/manual_time'
grep -qE "^$name +\+1\.0000 +\+0\.0000 " out || die "compare.py does not find twice the time"
EXAMPLE_SUITE=smoke "$build/tests/attest_gbench_example" --benchmark_out=wrong.json \
  --benchmark_filter='smoke/softmax/dense/f32/mutant_(none|dropped_key)/' >log 2>&1 &&
  die "a wrong implementation exits with 0"
EXAMPLE_SUITE=smoke "$build/tests/attest_gbench_example" --benchmark_out=right.json \
  --benchmark_filter='smoke/softmax/dense/f32/mutant_none/' >log 2>&1 || { cat log; exit 1; }
sed -i 's/mutant_none/mutant_dropped_key/' right.json  # as if it had been right before
"$python" "$compare" --no-color benchmarks right.json wrong.json | tee out
if grep -q -- '-1\.0000' out; then die "a failure compares as infinitely fast"; fi
