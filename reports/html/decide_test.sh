#!/usr/bin/env bash
# Runs decide_test.js with decide.js and choose_command.js in a JavaScript engine (package duktape).
# usage: decide_test.sh SOURCE_DIR        exit code 77 (skipped): there is no engine
set -euo pipefail
page=$1/reports/html
command -v duk >/dev/null || { echo "NOT TESTED: no duk (package duktape)"; exit 77; }
script=$(mktemp --suffix=.js)
trap 'rm -f "$script"' EXIT
cat "$page/decide.js" "$page/choose_command.js" "$page/decide_test.js" >"$script"
duk "$script"
