#!/usr/bin/env bash
# Writes the page of the golden results, with charts and without, and lets browser_test.py use both.
# usage: page_test.sh BUILD_DIR SOURCE_DIR        exit code 77 (skipped): what it needs is not there
set -euo pipefail
build=$1 source=$2
[[ -x $build/bin/attest ]] || { echo "NOT TESTED: bin/attest has not been built"; exit 77; }
folder=$build/tests/page
mkdir -p "$folder"
results=$source/reports/golden/results.jsonl
"$build/bin/attest" report "$results" -o "$folder/page.html"
"$build/bin/attest" report "$results" --no-charts -o "$folder/tables.html"
/usr/bin/python3 "$source/reports/html/questions.py" write "$results" "$folder"
"$build/bin/attest" report "$folder/first.jsonl" "$folder/second.jsonl" --no-charts \
  -o "$folder/choices.html"
/usr/bin/python3 "$source/reports/html/history_runs.py" "$results" "$folder"
rm -f "$folder/history.sqlite"
"$build/bin/attest" history add "$folder"/history_??.jsonl --index "$folder/history.sqlite" \
  >"$folder/history.txt"
"$build/bin/attest" report "$folder/history_20.jsonl" --history "$folder/history.sqlite" \
  --project orin-agx64-maxn --no-charts -o "$folder/history.html"
"$build/bin/attest" report "$folder/scaling.jsonl" --no-charts -o "$folder/scaling.html"
"$build/bin/attest" report "$folder/energy.jsonl" -o "$folder/energy.html"
"$build/bin/attest" report "$folder/tokens.jsonl" --no-charts -o "$folder/tokens.html"
/usr/bin/python3 "$source/reports/html/layout_run.py" "$results" "$folder/layout.jsonl"
"$build/bin/attest" report "$folder/layout.jsonl" -o "$folder/layout.html"
vega=()
if ! grep -q '<script id="vega">' "$folder/page.html"; then
  echo "NOT TESTED: charts, because the build has no Vega (scripts/charts.sh)"
  vega=(--no-vega)
fi
/usr/bin/python3 "$source/reports/html/browser_test.py" "$folder/page.html" "$folder/tables.html" \
  "$folder" "$build/bin/attest" "$source/build/axe/axe.min.js" "${vega[@]}"
