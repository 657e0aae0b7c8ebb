#!/usr/bin/env bash
# Tests scripts/bench_cpu.sh with an attest that writes records of known times: the best of two
# rounds counts, ratios are to the best peer and to the peak, bf16 products have columns of their
# own, a shape that fails is named.
# usage: bench_cpu_test.sh     exit code 77 (skipped): no python3
set -euo pipefail
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
export PYTHONDONTWRITEBYTECODE=1
trap 'rm -rf "$work"' EXIT
die() { cat "$work/said"; echo "$*"; exit 1; }
bench() { ATTEST_PEERS_PYTHON=python3 "$scripts/bench_cpu.sh" --build "$work" -o "$work/out" "$@"; }

# attest bench OPERATION ... -o FILE: 1.2 GFLOP in 10 ms, in the second round in 8; with bf16
# products in 4. A peer needs 12 ms and one that fails 1 ms; the peak is 200 GFLOP/s. It fails for
# the dtype bf16.
mkdir -p "$work/bin"
cat >"$work/bin/attest" <<'END'
#!/usr/bin/env bash
echo "attest $*" >>"${0%/*}/calls"
[[ " $* " != *" bf16 "* ]] || exit 1
file=${*: -1} ms=10
[[ $file != *.2.jsonl ]] || ms=8
result() {
  echo '{"type": "result", "impl": "'"$1"'", "verdict": "'"$2"'", "flops": 1.2e9,' \
    '"time": {"min_ns": '"$3"'e6}}'
}
{
  echo '{"type": "header", "environment": {"cpu": {"model": "Some CPU"},' \
    '"limits": {"fma_gflops": "100", "all_fma_gflops": "200"}}}'
  result flash_cpu pass $ms
  result flash_cpu_bf16 pass 4
  result window_cpu unsupported 0
  result onednn_primitives pass 12
  result other_cpu fail 1
} >"$file"
END
chmod +x "$work/bin/attest"

bench --only vit_b_batch_8 >"$work/said" || die "it fails"
grep -q 'GFLOP/s on Some CPU' "$work/said" || die "it does not name the processor"
line='| vit_b_batch_8 | f32 | 1 | flash_cpu 150.0 | 75% | onednn_primitives 100.0 | 1.50 |'
line+=' 300.0 | 2.00 | 3.00 |'
grep -qxF "$line" "$work/said" || die "the table lacks: $line"
[[ $(wc -l <"$work/bin/calls") == 2 ]] || die "not two rounds"
grep -q 'bench softmax batch=8 num_heads=12 .*--dtype f32 --threads 1 ' "$work/bin/calls" ||
  die "it asks for something else: $(cat "$work/bin/calls")"

bench --only loftr --dtypes f32,bf16 --threads 1,2 >"$work/said" 2>&1 || die "it fails"
grep -q 'loftr_linear bf16: attest bench exits with 1' "$work/said" || die "no word of what failed"
grep -q 'bench linear batch=2' "$work/bin/calls" || die "linear is not asked for as linear"
[[ $(grep -c '^| loftr_linear | f32' "$work/said") == 2 ]] || die "not one line for each --threads"

for wrong in --what "--only" "--only nothing" "--build $work/nowhere"; do
  # shellcheck disable=SC2086
  bench $wrong >"$work/said" 2>&1 && die "it takes $wrong"
  [[ $? == 64 ]] || die "another exit code for $wrong"
done

# It removes nothing that it did not write.
mkdir "$work/mine" && touch "$work/mine/results.jsonl"
bench -o "$work/mine" --only loftr >"$work/said" 2>&1 && die "it takes a folder with other files"
[[ -e $work/mine/results.jsonl ]] || die "it removes another's file"

# Problems that peers take, and what they are.
python3 - "$scripts" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import cpu_peers
p = cpu_peers.problem_of("num_heads=8 num_kv_heads=2 seq_len_q=5 head_dim=16 window_right=0")
assert p == {"batch": 1, "num_heads": 8, "num_kv_heads": 2, "seq_len_q": 5, "seq_len_kv": 5,
             "head_dim": 16, "window_right": 0, "causal": True}, p
assert not cpu_peers.problem_of("seq_len_q=5 head_dim=16")["causal"]
for other in ("seq_len_q=5 head_dim=16 rel_bias", "seq_len_q=5 head_dim=16 window_right=2",
              "seq_len_q=5 head_dim=16 bias=[1,1,5,5]"):
    assert cpu_peers.problem_of(other) is None, other
times = cpu_peers.nanoseconds(lambda: None)
assert len(times) >= cpu_peers.MIN_RUNS and min(times) >= 0
END
echo "bench_cpu.sh: all as it should be"
