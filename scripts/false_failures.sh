#!/usr/bin/env bash
# How often an honest implementation is failed: 1,000 random problems and 20 at the top size, on honest kernels of several orders and
# arithmetics. Prints a table in Markdown, the machine and the commit; reports/published/false_failures.md keeps one. Exit code 1: some were.
#   scripts/false_failures.sh [--problems N] [--top N] [--seed N] [--impl PREFIX] ...
set -euo pipefail
cd "$(dirname "$0")/.."
program=build/test/tests/false_failures
[ -x $program ] || { echo "false_failures.sh: $program is not there; scripts/test.sh builds it" >&2; exit 64; }
status=0
$program "$@" || status=$?
echo
echo "$(grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //' || true), $(nproc) threads; commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
exit $status
