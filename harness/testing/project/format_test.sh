#!/usr/bin/env bash
# Checks the form of the sources: clang-format 19 would change none of them, and no line of code or
# script is longer than 100 columns.
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
long=$(sources h hpp c cpp cu cuh in txt cmake sh py |
  xargs -0 awk 'length > 100 { print FILENAME ":" FNR }')
[[ -z $long ]] || { echo "longer than 100 columns:"; echo "$long"; exit 1; }
