#!/usr/bin/env bash
# Tests scripts/bench_cpu.sh with an attest that writes records of known times: rates are of the
# best round, ratios are medians of those to the best peer in each round, bf16 products have columns
# of their own, a shape that fails is named and makes the exit code 1.
# usage: bench_cpu_test.sh     exit code 77 (skipped): no python3
set -euo pipefail
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
export PYTHONDONTWRITEBYTECODE=1
trap 'rm -rf "$work"' EXIT
die() { cat "$work/said"; echo "$*"; exit 1; }
bench() { ATTEST_PEERS_PYTHON=python3 "$scripts/bench_cpu.sh" --build "$work" -o "$work/out" "$@"; }

# attest bench OPERATION ... -o FILE: for each dtype 1.2 GFLOP in 10 ms, in the second round in 8;
# with bf16 products in 4. Peers need 12 and 24 ms, in the third round half and all of a second, and
# one that fails 1 ms; the peak is 200
# GFLOP/s. There is no linear attention.
mkdir -p "$work/bin" "$work/plugins"
touch "$work/plugins/onednn_graph.so"
cat >"$work/bin/attest" <<'END'
#!/usr/bin/env bash
echo "attest $*" >>"${0%/*}/calls"
[[ $2 != linear ]] || exit 1
file=${*: -1} ms=10 peer_ms=12
[[ $file != *.2.jsonl ]] || ms=8
[[ $file != *.3.jsonl ]] || peer_ms=500
[[ $* =~ --dtype\ ([^ ]+) ]]
result() {
  echo '{"type": "result", "impl": "'"$1"'", "verdict": "'"$2"'", "flops": 1.2e9,' \
    '"dtype": "'"$dtype"'", "notes": ["slow", '"$4"'], "time": {"min_ns": '"$3"'e6}}'
}
{
  echo '{"type": "header", "environment": {"cpu": {"model": "Some CPU"},' \
    '"limits": {"fma_gflops": "100", "all_fma_gflops": "200"}}}'
  for dtype in ${BASH_REMATCH[1]//,/ }; do
    result flash_cpu pass $ms '""'
    result flash_cpu_bf16 pass 4 '""'
    result window_cpu unsupported 0 '""'
    result onednn_primitives pass $peer_ms '""'
    result onednn_graph pass $((2 * peer_ms)) '"it makes 3 partitions"'
    result other_cpu fail 1 '""'
  done
} >"$file"
END
chmod +x "$work/bin/attest"

bench --only vit_b_batch_8 --rounds 3 >"$work/said" || die "it fails"
grep -q 'GFLOP/s on Some CPU' "$work/said" || die "it does not name the processor"
head='| shape | dtype | threads | ours | of peak | onednn_graph | onednn_primitives | ratio |'
head+=' bf16 | / ours | / peer |'
grep -qxF "$head" "$work/said" || die "the table lacks: $head"
line='| vit_b_batch_8 | f32 | 1 | flash_cpu 150.0 | 75% | 50.0 | 100.0 | 1.50 |'
line+=' 300.0 | 2.50 | 3.00 |'
grep -qxF "$line" "$work/said" || die "the table lacks: $line"
grep -qxF 'onednn_graph: it makes 3 partitions' "$work/said" || die "it hides what oneDNN fuses"
! grep -q slow "$work/said" || die "it shows other notes"
[[ $(wc -l <"$work/bin/calls") == 3 ]] || die "not three rounds"
grep -q 'bench softmax batch=8 num_heads=12 .*--dtype f32 --threads 1 ' "$work/bin/calls" ||
  die "it asks for something else: $(cat "$work/bin/calls")"
grep -qF -- "--impl *_cpu,*_cpu_bf16,onednn_graph " "$work/bin/calls" || die "other implementations"

bench --only loftr --dtypes f32,bf16 --threads 1,2 >"$work/said" 2>&1 && die "it hides a failure"
[[ $(wc -l <"$work/bin/calls") == 7 ]] || die "not two rounds, each with one and two threads"
grep -q 'loftr_linear: attest bench exits with 1' "$work/said" || die "no word of what failed"
grep -q 'bench linear batch=2' "$work/bin/calls" || die "linear is not asked for as linear"
bench --only vit_b_batch --dtypes f32,bf16 --threads 1,2 --rounds 1 >"$work/said" || die "it fails"
for row in '| f32 | 1 |' '| f32 | 2 |' '| bf16 | 1 |' '| bf16 | 2 |'; do
  [[ $(grep -cF "| vit_b_batch_8 $row flash_cpu 120.0 |" "$work/said") == 1 ]] ||
    die "not one line for each dtype of --dtypes and number of --threads: $row"
done

rm "$work/bin/calls"
bench --quick --threads 1 --only lidar >"$work/said" 2>&1 || die "it fails"
! grep -v ' --dtype f32,f16,bf16 --threads 1 .*\.1\.jsonl$' "$work/bin/calls" ||
  die "--quick is not one round of all dtypes"
grep -q '^| lidar_32k_part | bf16 | 1 | flash_cpu 120.0 ' "$work/said" || die "no part of lidar_32k"
! grep -q ' seq_len_q=32768 ' "$work/bin/calls" || die "--quick takes all of lidar_32k"

for wrong in --what "--only" "--only nothing" "--rounds 0" "--build $work/nowhere"; do
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
             "head_dim": 16, "window_right": 0, "causal": True, "bias": None}, p
biased = cpu_peers.problem_of("seq_len_q=5 head_dim=16 bias=[1,1,5,5]")
assert biased["bias"] == [1, 1, 5, 5], biased
assert not cpu_peers.problem_of("seq_len_q=5 head_dim=16")["causal"]
for other in ("seq_len_q=5 head_dim=16 rel_bias", "seq_len_q=5 head_dim=16 window_right=2",
              "seq_len_q=5 head_dim=16 cu_seqlens_q"):
    assert cpu_peers.problem_of(other) is None, other
times = cpu_peers.nanoseconds(lambda: None, 0)
assert len(times) >= cpu_peers.MIN_RUNS and min(times) >= 0
END
echo "bench_cpu.sh: all as it should be"
