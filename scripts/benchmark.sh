#!/usr/bin/env bash
# Measures how fast the harness itself is: goldens, closed-form judging, isolation, list, the quick
# suites. Prints figures; asserts nothing.
#   scripts/benchmark.sh [BUILD]      BUILD: a build tree with bin/attest (default: build/release)
set -euo pipefail
cd "$(dirname "$0")/.."
attest=${1:-build/release}/bin/attest
[ -x "$attest" ] ||
  { echo "benchmark.sh: $attest is not there; scripts/run.sh builds it" >&2; exit 64; }

# seconds COMMAND...: the time that it takes.
seconds() {
  local start
  start=$(date +%s.%N)
  "$@" >/dev/null 2>&1 || true
  echo "$(date +%s.%N) $start" | awk '{printf "%.2f s", $1 - $2}'
}
# judging FILL SPEC: the time that golden and comparison take in one judged run.
judging() {
  "$attest" repro --impl flash_cpu --judge-only --timeout 600 --fill "$1" "$2" 2>&1 |
    grep -o "$1: .*judging [^;]*\|worst.*fail.*\|skipped.*" || echo "did not run"
}

grep -m1 'model name' /proc/cpuinfo || true
echo "threads: $(nproc)"
echo "golden, 120,000 keys x 4 heads x head_dim 64, 256 rows a head (goal 5 s on two cores):"
echo "  $(judging random 'softmax num_heads=4 seq_len_q=256 seq_len_kv=120000 head_dim=64')"
echo "closed form, all 262,144 rows, one head, head_dim 64, dense (goal 2 s):"
echo "  $(judging codebook 'softmax dtype=f16 seq_len_q=262144 head_dim=64')"
echo "isolation (goals: 30 ms a worker start, 1 ms a case):"
"$attest" doctor | grep isolation || echo "  did not run"
echo "attest list (goal 0.2 s): $(seconds "$attest" list)"
for suite in vit bev lidar; do
  echo "attest run $suite --quick: $(seconds "$attest" run $suite --quick)"
done
