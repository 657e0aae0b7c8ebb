# What the tests of 64-bit Arm share. Each sources this file with its arguments:
#   BUILD_DIR SOURCE_DIR CMAKE
# It goes to SOURCE_DIR, and ends the test with 77 (skipped) if scripts/aarch64.sh has not set up
# the cross build, or if attest for this machine has not been built.
build=$1 source=$2 cmake=$3
arm=$source/build/aarch64 run=$source/build/arm64/run
[[ -x $build/bin/attest ]] || { echo "NOT TESTED: bin/attest has not been built"; exit 77; }
[[ $(uname -m) == x86_64 && -e ${run%/*}/fetched ]] && command -v qemu-aarch64 >/dev/null ||
  { echo "NOT TESTED: nothing is set up for 64-bit Arm (scripts/aarch64.sh)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { cat "$work/said" >&2; echo "FAILED: $*" >&2; exit 1; }
step() { echo "$SECONDS s: $*"; }
cd "$source"

# arm_attest ARGUMENT...: attest for 64-bit Arm. Whichever attest runs, its workers are emulated: a
# script starts them, since a program cannot start another one of its kind without qemu.
arm_attest() { "$run" "$arm/bin/attest" "$@"; }
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$run" "$arm/bin/attest-worker" >"$work/attest-worker"
chmod +x "$work/attest-worker"
export ATTEST_WORKER=$work/attest-worker OMP_WAIT_POLICY=passive

# cases PATTERN...: the patterns, joined by commas, as --case takes them.
cases() { local IFS=,; echo "$*"; }

# results ATTEST ARGUMENT...: of ATTEST run ARGUMENT...: lines "IMPLEMENTATION CODE", sorted.
results() {
  "$1" run "${@:2}" --judge-only --threads 1 -o "$work/results.jsonl" --overwrite \
    >"$work/said" 2>&1 || [[ $? == 1 ]] || die "attest run ends with $?"
  python3 - "$work/results.jsonl" <<'PYTHON' | sort
import json, sys
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record["type"] == "result":
        print(record["impl"], record.get("code") or record["verdict"])
PYTHON
}

# trespassers_are_noticed ATTEST ARGUMENT...: wrong outputs and faults of an emulated worker reach
# the judge of ATTEST.
trespassers_are_noticed() {
  results "$1" 'softmax batch=2 seq_len_q=16 head_dim=64 o.strides=[1072,0,67,1] '\
'q.strides=[1040,0,65,1]' --plugin "$arm/tests/plugins/trespassers.so" \
    --impl 'trespasser_*' "${@:2}" >"$work/codes"
  cut -d' ' -f2 "$work/codes" | sort | uniq -c | awk '{ print $2 "=" $1 }' |
    paste -sd' ' >"$work/said"
  local noticed='crash:canary=6 crash:input-written=1 crash:signal=1 fail:nan=5 fail:unwritten=1'
  grep -qx "$noticed pass=1" "$work/said" || die "trespassers are not noticed"
  grep -q '^trespasser_none pass$' "$work/codes" || die "trespasser_none does not pass"
}
