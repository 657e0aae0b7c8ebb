#!/usr/bin/env bash
# Times the CPU implementations of this tree at shapes of real models, beside oneDNN and, where a
# python3 has them, PyTorch and ONNX Runtime. Prints a table of rates and ratios. flash_cpu_bf16,
# which multiplies bf16, has columns of its own.
#   scripts/bench_cpu.sh                    float32 on one thread
#   scripts/bench_cpu.sh --quick            f32, f16 and bf16 on one and two threads in less than
#                                           ten minutes: one round, parts of the three large shapes
#   scripts/bench_cpu.sh --dtypes f32,bf16 --threads 1,2 --rounds 3
#   scripts/bench_cpu.sh --only vit         shapes whose name has "vit" in it
#   scripts/bench_cpu.sh -o FOLDER          the records go there (default: build/bench_cpu)
#   scripts/bench_cpu.sh --build BUILD      a build tree with bin/attest (default: build/release)
# ATTEST_PEERS_PYTHON names the python3 whose PyTorch and ONNX Runtime are timed. Without it, that
# is the one of build/peers, which scripts/peers.sh makes, or else the one at hand.
# Each shape is judged, timed, and timed by the peers before the next one begins; all of it in
# rounds. Rates are of the best round, ratios the median of the rounds. attest measures the peak
# rates of the processor each time. One dtype on one thread takes at most ten minutes.
# Exit codes: 0; 1 if an implementation fails or a shape is not timed (the table is printed all the
# same); 64 for wrong arguments.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release folder=$root/build/bench_cpu only=
dtypes=f32 threads=1 rounds=2 attest_budget=300ms peer_budget=0.5 quick=
stop() { echo "bench_cpu.sh: $1" >&2; exit 64; }
if [[ " $* " == *" --quick "* ]]; then
  dtypes=f32,f16,bf16 threads=1 rounds=1 attest_budget=100ms peer_budget=0.2 quick=yes
  (($(nproc) < 2)) || threads=1,2
fi
while (($#)); do
  case $1 in
    --quick) shift; continue ;;
    -o | --build | --dtypes | --threads | --rounds | --only)
      (($# > 1)) || stop "$1 lacks its value" ;;&
    -o) folder=$2 ;;
    --build) build=$2 ;;
    --dtypes) dtypes=$2 ;;
    --threads) threads=$2 ;;
    --rounds) rounds=$2 ;;
    --only) only=$2 ;;
    *) stop "unknown argument '$1'; the head of the script says what it takes" ;;
  esac
  shift 2
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || stop "--rounds takes a number, not '$rounds'"
attest=$build/bin/attest python=python3
[[ ! -x $root/build/peers/bin/python3 ]] || python=$root/build/peers/bin/python3
python=${ATTEST_PEERS_PYTHON:-$python}
[[ -x $attest ]] || stop "$attest is not there; scripts/run.sh builds it, --build names another"
command -v "$python" >/dev/null || stop "there is no $python"
impls="*_cpu,*_cpu_bf16"
for peer in onednn_primitives onednn_graph; do
  [[ ! -e $build/plugins/$peer.so ]] || impls+=,$peer
done

# NAME|SPEC or NAME|SPEC|what --quick takes instead, under the name NAME_part.
windows="shift_bias=-100 rel_bias"
shapes=(
  "vit_b|num_heads=12 seq_len_q=197 head_dim=64"
  "vit_b_batch_8|batch=8 num_heads=12 seq_len_q=197 head_dim=64"
  "bev_4k|num_heads=8 seq_len_q=4096 head_dim=32"
  "bev_cross|num_heads=8 seq_len_q=2500 seq_len_kv=8700 head_dim=32"
  "matching_2k|num_heads=4 seq_len_q=2048 head_dim=64"
  "ptv3_as_a_batch|batch=118 num_heads=4 seq_len_q=1024 head_dim=64|batch=12 num_heads=4 \
seq_len_q=1024 head_dim=64"
  "bev_16k|num_heads=8 seq_len_q=16384 head_dim=32|num_heads=2 seq_len_q=2048 seq_len_kv=16384 \
head_dim=32"
  "lidar_32k|seq_len_q=32768 head_dim=64|seq_len_q=2048 seq_len_kv=32768 head_dim=64"
  "causal_4k|num_heads=4 seq_len_q=4096 head_dim=64 window_right=0"
  "decode_gqa|num_heads=32 num_kv_heads=8 seq_len_q=1 seq_len_kv=8192 head_dim=128"
  "planning_head|num_heads=8 seq_len_q=6 seq_len_kv=40000 head_dim=32"
  "sam_windows_bias|batch=25 num_heads=12 seq_len_q=196 head_dim=64 bias=[25,12,196,196]"
  "swin_as_a_batch|batch=64 num_heads=3 seq_len_q=49 head_dim=32 bias=[1,3,49,49]"
  "swin_shifted|num_heads=3 seq_len_q=3136 head_dim=32 grid_height=56 grid_width=56 \
window_height=7 window_width=7 shift_y=3 shift_x=3 $windows"
  "bev_windows|num_heads=8 seq_len_q=40000 head_dim=32 grid_height=200 grid_width=200 \
window_height=8 window_width=8 shift_y=4 shift_x=4 $windows"
  "varlen_packed|batch=16 num_heads=12 seq_len_q=500 head_dim=64 cu_seqlens_q cu_seqlens_kv"
  "loftr_linear|operation=linear batch=2 num_heads=8 seq_len_q=4800 head_dim=32"
)

mkdir -p "$folder"
[[ -z $(ls -A "$folder") || -e $folder/bench_cpu ]] ||
  stop "$folder has files that are not of this script; -o names another folder"
touch "$folder/bench_cpu"
rm -f "$folder"/*.jsonl "$folder/log"
# measure NAME SPEC THREADS ROUND: what goes wrong is in the log.
measure() {
  local file=$folder/$1.$3.$4 spec=$2 operation=softmax
  [[ $spec != operation=* ]] || { operation=linear; spec=${spec#* }; }
  # No word of a spec line has a blank in it.
  # shellcheck disable=SC2086
  "$attest" bench $operation $spec --dtype "$dtypes" --threads "$3" --fill random \
    --relations none --budget $attest_budget --impl "$impls" -o "$file.jsonl" \
    >>"$folder/log" 2>&1 || {
    echo "bench_cpu.sh: $1: attest bench exits with $?; see $folder/log" >&2
    result=1
  }
  [[ $operation == linear ]] ||
    "$python" "$root/scripts/cpu_peers.py" time "$file.peers.jsonl" "$spec" "$dtypes" "$3" \
      $peer_budget 2>>"$folder/log" ||
    echo "bench_cpu.sh: $1: no peers; see $folder/log" >&2
}

count=0 result=0
for ((round = 1; round <= rounds; ++round)); do
  for shape in "${shapes[@]}"; do
    IFS='|' read -r name spec part <<<"$shape"
    [[ $name == *"$only"* ]] || continue
    [[ -z $quick || -z $part ]] || { name+=_part; spec=$part; }
    for n in ${threads//,/ }; do
      measure "$name" "$spec" "$n" "$round"
      count=$((count + 1))
    done
  done
done
((count)) || stop "no shape has '$only' in its name"
"$python" "$root/scripts/cpu_peers.py" table "$folder" "$dtypes"
exit $result
