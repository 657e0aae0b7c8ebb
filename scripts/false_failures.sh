#!/usr/bin/env bash
# Counts how often an honest implementation fails, on 1,000 random problems and 20 of the largest
# size, with honest kernels of several orders and arithmetics. Prints a table in Markdown, the
# machine and the commit. reports/published/false_failures.md is such an output.
# Exit code 1: some failed.
#   scripts/false_failures.sh [--problems N] [--top N] [--seed N] [--impl PREFIX] ...
set -euo pipefail
cd "$(dirname "$0")/.."
program=build/test/tests/false_failures
[ -x $program ] ||
  {
    echo "false_failures.sh: $program is not there; scripts/test.sh --all builds it, and so does" \
      "cmake --build build/test --target false_failures" >&2
    exit 64
  }
status=0
$program "$@" || status=$?
echo
cpu=$(grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //' || true)
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
echo "$cpu, $(nproc) threads; commit $commit"
exit $status
