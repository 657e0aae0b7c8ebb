#!/usr/bin/env bash
# Compares two builds of a plugin on the machine of this job. The builds take turns, so that what
# changes on the machine meets both alike.
# usage: compare_builds.sh OUT BEFORE.so AFTER.so [ARGUMENTS OF attest run]
#   OUT: folder for the results, and for comparison.json
# Environment:
#   ATTEST  the program (default: attest)
#   ROUNDS  each is two launches of either build (default: 4; fewer are a weak comparison)
# Exit codes: those of `attest compare`; 4 if a launch wrote no results.
set -euo pipefail
(($# >= 3)) || { sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 64; }
out=$1 before=$2 after=$3
shift 3
attest=${ATTEST:-attest}
mkdir -p "$out"
rm -f "$out"/{before,after}.*.jsonl

launches=0
launch() {  # launch SIDE PLUGIN ARGUMENTS...
  local side=$1 plugin=$2
  shift 2
  launches=$((launches + 1))
  # Launches sort by their number, which pairs neighbours. A failure shows in the comparison.
  local results
  results=$out/$side.$(printf '%03d' "$launches").jsonl
  "$attest" run "$@" --plugin "$plugin" -o "$results" >"$out/log" 2>&1 || true
  [[ -s $results ]] || { cat "$out/log" >&2; exit 4; }
}
for ((round = 0; round < ${ROUNDS:-4}; ++round)); do
  launch before "$before" "$@"
  launch after "$after" "$@"
  launch after "$after" "$@"
  launch before "$before" "$@"
done
"$attest" compare "$out"/before.*.jsonl --after "$out"/after.*.jsonl --json "$out/comparison.json"
