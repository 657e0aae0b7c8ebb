#!/usr/bin/env bash
# Writes the page of the golden results and lets browser_test.py use it.
# usage: page_test.sh BUILD_DIR SOURCE_DIR        exit code 77 (skipped): what it needs is not there
set -euo pipefail
build=$1 source=$2
[[ -x $build/bin/attest ]] || { echo "NOT TESTED: bin/attest has not been built"; exit 77; }
mkdir -p "$build/tests/page"
"$build/bin/attest" report "$source/reports/golden/results.jsonl" -o "$build/tests/page/page.html"
/usr/bin/python3 "$source/reports/html/browser_test.py" "$build/tests/page/page.html" \
  "$build/tests/page"
