#!/usr/bin/env bash
# Compares two builds of a plugin on the machine of this job, which take turns: `attest ab`.
# usage: compare_builds.sh OUT BEFORE.so AFTER.so [ARGUMENTS OF attest ab]
#   OUT: folder for the results, and for comparison.json. What it had is overwritten
# Environment:
#   ATTEST  the program (default: attest)
#   ROUNDS  so many rounds, as `--rounds` does (default: as many as the times need)
# Exit codes: those of `attest ab`.
set -euo pipefail
(($# >= 3)) || { sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 64; }
exec "${ATTEST:-attest}" ab --before "$2" --after "$3" -o "$1" --overwrite \
  ${ROUNDS:+--rounds "$ROUNDS"} "${@:4}"
