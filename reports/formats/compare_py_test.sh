#!/usr/bin/env bash
# Lets compare.py of Google Benchmark compare two reports of the format `gbench`: in the second
# all times are doubled.
# usage: compare_py_test.sh BUILD_DIR SOURCE_DIR
# Exit code 77 (skipped): compare.py (package libbenchmark-tools) or python3-scipy is not there.
set -euo pipefail
build=$1 source=$2
python=/usr/bin/python3  # the one that the packages are for
compare=/usr/share/benchmark/compare.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "NOT TESTED: $*"; exit 77; }
die() { echo "$*"; exit 1; }
[[ -x $build/bin/attest ]] || skip "bin/attest has not been built"
[[ -e $compare ]] || skip "no $compare (package libbenchmark-tools)"
"$python" -c 'import scipy' 2>/dev/null || skip "no scipy (package python3-scipy)"

"$build/bin/attest" report "$source/reports/golden/results.jsonl" -f gbench \
  -o "$work/before.json" 2>/dev/null
"$python" - "$work" <<'PYTHON'
import json, sys
with open(sys.argv[1] + "/before.json") as file:
    report = json.load(file)
for entry in report["benchmarks"]:
    entry["real_time"] *= 2
with open(sys.argv[1] + "/after.json", "w") as file:
    json.dump(report, file)
PYTHON
"$python" "$compare" --no-color benchmarks "$work/before.json" "$work/after.json" | tee "$work/out"
for impl in flash_cpu naive; do
  grep -qE "^vit/vit_b_16_224/self/f16/$impl +\+1\.0000 +\+0\.0000 " "$work/out" ||
    die "compare.py does not find that $impl takes twice as long"
done
