#!/usr/bin/env bash
# Holds the form of the sources: clang-format 19 would change none of them, and no line of code or
# script is beyond 100 columns.
# usage: format_test.sh SOURCE_DIR        exit code 77 (skipped) where clang-format-19 is absent
set -euo pipefail
cd "$1"
command -v clang-format-19 >/dev/null || { echo "NOT TESTED: no clang-format-19"; exit 77; }

sources() {  # sources EXTENSION...: every file of ours that ends so
  local extension
  for extension; do
    find harness impls reports scripts -name "*.$extension" -print0
  done | sort -z
}
sources h hpp c cpp cu cuh | xargs -0 clang-format-19 --dry-run -Werror
# Tests hold JSON in raw strings.
long=$(sources h hpp c cpp cu cuh sh py cmake txt | grep -zv '_test\.cpp$' |
  xargs -0 awk 'length > 100 { print FILENAME ":" FNR }')
[[ -z $long ]] || { echo "beyond 100 columns:"; echo "$long"; exit 1; }
