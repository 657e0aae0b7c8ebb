#!/usr/bin/env bash
# Checks the form of the sources: clang-format 19 would change none of them, and no line of code,
# script or page is longer than 100 columns. In pages, tables and blocks of code may be wider; pages
# that programs write are left out.
# usage: format_test.sh SOURCE_DIR        exit code 77 (skipped): no clang-format-19
set -euo pipefail
cd "$1"
command -v clang-format-19 >/dev/null || { echo "NOT TESTED: no clang-format-19"; exit 77; }

sources() {  # sources EXTENSION...: every file of the project that ends so
  local extension
  for extension; do
    find .ci CMakeLists.txt harness impls reports scripts -name "*.$extension" -print0
  done | sort -z
}
sources h hpp c cpp cu cuh | xargs -0 clang-format-19 --dry-run -Werror
pages() {
  find ./*.md harness impls reports suites -name '*.md' ! -path 'reports/published/*' -print0 |
    sort -z
}
long=$(
  sources h hpp c cpp cu cuh in txt cmake sh py |
    xargs -0 awk 'length > 100 { print FILENAME ":" FNR }'
  pages | xargs -0 awk '
    FNR == 1 { code = 0 }
    /^ *```/ { code = !code }
    length > 100 && !code && !/^ *\|/ { print FILENAME ":" FNR }'
)
[[ -z $long ]] || { echo "longer than 100 columns:"; echo "$long"; exit 1; }
