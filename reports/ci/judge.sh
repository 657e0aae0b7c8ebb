#!/usr/bin/env bash
# Judges and times implementations in a CI job, writes what the CI shows, and compares with an
# earlier run on the same kind of machine.
# usage: judge.sh OUT [ARGUMENTS OF attest run]
#   OUT: folder for results.jsonl, report.xml (JUnit), report.html and report.md
# Environment:
#   ATTEST       the program (default: attest)
#   BASELINE     a results file to compare with; skipped if the file does not exist
#   RELATIVE_TO  implementation whose times the others' are divided by (default: naive)
#   FLOOR        change in percent that two runs of one build may show (default: 10)
#   RULES        limits and waivers: `attest gate` judges by them, in place of `attest compare`
# Exit codes: those of `attest run`; if that is 0, those of `attest compare`. With RULES and a
# baseline: those of `attest gate`, also if a case failed, for it may be waived.
set -euo pipefail
(($# >= 1)) || { sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 64; }
out=$1
shift
attest=${ATTEST:-attest}
mkdir -p "$out"

status=0
"$attest" run "$@" -o "$out/results.jsonl" --overwrite || status=$?
[[ -s $out/results.jsonl ]] || exit "$status"

"$attest" report "$out/results.jsonl" -f junit,html,markdown -o "$out/report"
if [[ -n ${GITHUB_ACTIONS:-} ]]; then
  "$attest" report "$out/results.jsonl" -f github
  [[ -z ${GITHUB_STEP_SUMMARY:-} ]] || cat "$out/report.md" >>"$GITHUB_STEP_SUMMARY"
fi

if [[ -n ${RULES:-} && -e ${BASELINE:-} ]]; then
  ((status <= 1)) || exit "$status"
  exec "$attest" gate "$out/results.jsonl" --baseline "$BASELINE" --rules "$RULES" \
    --relative-to "${RELATIVE_TO:-naive}"
fi
((status == 0)) || exit "$status"
if [[ -e ${BASELINE:-} ]]; then
  "$attest" compare --relative-to "${RELATIVE_TO:-naive}" --floor "${FLOOR:-10}" --changed \
    "$BASELINE" "$out/results.jsonl"
else
  echo "no baseline: nothing to compare with"
fi
