#!/usr/bin/env bash
# Stands in for a compiler that ccache calls, so that ccache remembers which sources passed a check.
# It runs the check in place of the compilation, and leaves an object of no use.
# usage: CHECK=FUNCTION ccache checking_compiler.sh [OPTION ...] -MD -MF FILE -o OBJECT -c SOURCE
#   FUNCTION: exported; gets the options without those of the object, and has to write FILE
set -euo pipefail
options=()
while (($#)); do
  case $1 in
    -c) ;;
    -o) object=$2; shift ;;
    *) options+=("$1") ;;
  esac
  shift
done
"$CHECK" "${options[@]}"
echo checked >"$object"  # ccache keeps no empty object
