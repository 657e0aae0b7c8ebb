#!/usr/bin/env bash
# Runs a build and keeps its lines in a log. On a terminal it shows one line that moves, elsewhere a
# line for each quarter. If the build fails, it shows the part of the log that says why.
#   scripts/build.sh LOG COMMAND [ARGUMENT ...]
# The lines of the command that begin with [12/205], as those of ninja do, say how far it is. The
# exit code is that of the command.
set -uo pipefail
log=$1
shift
width=30 shown=0
started=$SECONDS
mkdir -p "$(dirname "$log")"
if [[ -t 1 ]]; then columns=$(tput cols 2>/dev/null || echo 80); fi

show() {  # show DONE TOTAL TEXT
  local percent=$((100 * $1 / $2)) bar line
  if [[ -t 1 ]]; then
    printf -v bar '%*s' $((width * percent / 100)) ''
    printf -v bar '%-*s' "$width" "${bar// /#}"
    line="build [$bar] $percent % ($1/$2) $3"
    printf '\r\033[K%s' "${line:0:columns-1}"
  elif ((percent / 25 > shown)); then
    shown=$((percent / 25))
    echo "build: $percent % ($1/$2 steps, $((SECONDS - started)) s)"
  fi
}

"$@" 2>&1 | while IFS= read -r line || [[ -n $line ]]; do
  printf '%s\n' "$line" >&3
  if [[ $line =~ ^\[([0-9]+)/([1-9][0-9]*)\]\ (.*) ]]; then show "${BASH_REMATCH[@]:1}"; fi
done 3>"$log"
status=${PIPESTATUS[0]}
if [[ -t 1 ]]; then printf '\r\033[K'; fi

if [[ $status == 0 ]]; then
  echo "build: done in $((SECONDS - started)) s; its log is $log"
  exit 0
fi
echo "build: failed; from its log, $log:" >&2
if grep -q '^FAILED:' "$log"; then
  sed -n '/^FAILED:/,$p' "$log" | head -n 60 >&2
else
  tail -n 40 "$log" >&2
fi
exit "$status"
