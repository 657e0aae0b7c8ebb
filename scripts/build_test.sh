#!/usr/bin/env bash
# Tests build.sh on builds that are played: what it shows in a log and on a terminal, what it keeps,
# and what it says if a build fails.
set -euo pipefail
build=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/build.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0

# expect WHAT STATUS PATTERN...: of the last call. A pattern after ! must not be there.
expect() {
  local pattern
  [[ $status == "$2" ]] || { echo "FAILED $1: exit code $status, expected $2"; failures=1; }
  for pattern in "${@:3}"; do
    if [[ $pattern == !* ]]; then
      ! grep -qE -- "${pattern:1}" said || { echo "FAILED $1: says '${pattern:1}'"; failures=1; }
    else
      grep -qE -- "$pattern" said || { echo "FAILED $1: no '$pattern'"; cat said; failures=1; }
    fi
  done
}
call() { status=0; "$@" >said 2>&1 || status=$?; }

cat >good <<'BUILD'
echo "-- Configuring done"
for i in $(seq 200); do echo "[$i/200] Building object $i"; done
BUILD
call bash "$build" logs/good.log bash good
expect "a good build" 0 '^build: 25 % \(50/200 steps' '^build: 100 %' \
  'build: done in .*; its log is logs/good.log' \
  "!Building" "!Configuring"
(($(wc -l <said) == 5)) || { echo "FAILED: $(wc -l <said) lines in a log"; failures=1; }
(($(wc -l <logs/good.log) == 201)) || { echo "FAILED: the log lacks lines"; failures=1; }

cat >bad <<'BUILD'
for i in $(seq 100); do echo "[$i/200] Building object $i"; done
echo "FAILED: x.o"
echo "x.cpp:1: error: no such thing"
for i in $(seq 90); do echo "note $i"; done
echo "ninja: build stopped"
exit 3
BUILD
call bash "$build" bad.log bash bad
expect "a bad build" 3 'failed; from its log, bad.log' '^FAILED: x.o' 'error: no such thing' \
  '!object 99' '!build stopped'
call bash "$build" none.log bash -c 'echo "no such generator"; exit 1'
expect "a build that does not begin" 1 '^no such generator'
call bash "$build" missing.log ./missing
expect "a command that is not there" 127 'missing'

if script -qec true /dev/null >/dev/null 2>&1; then
  call script -qec "bash $build good.log bash good" /dev/null
  tr '\r' '\n' <said >lines && mv lines said
  expect "on a terminal" 0 'build \[#{15} {15}\] 50 % \(100/200\) Building' 'build: done in'
else
  echo "NOT TESTED: script, which plays a terminal, does not work here"
fi
exit $failures
