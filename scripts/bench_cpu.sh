#!/usr/bin/env bash
# Times the CPU implementations of this tree at shapes of real models, beside oneDNN and, where
# python3 has them, PyTorch and ONNX Runtime. Prints a table of rates and ratios. flash_cpu_bf16,
# which multiplies bf16, has columns of its own.
#   scripts/bench_cpu.sh                    float32 on one thread
#   scripts/bench_cpu.sh --dtypes f32,bf16 --threads 1,2
#   scripts/bench_cpu.sh --only vit         shapes whose name has "vit" in it
#   scripts/bench_cpu.sh -o FOLDER          the records go there (default: build/bench_cpu)
#   scripts/bench_cpu.sh --build BUILD      a build tree with bin/attest (default: build/release)
# ATTEST_PEERS_PYTHON names the python3 whose PyTorch and ONNX Runtime are timed. For ONNX Runtime:
#   python3 -m venv peers && peers/bin/pip install onnxruntime onnx numpy    # 170 MB
# Each shape is judged, timed, and timed by the peers before the next one begins; all of it twice,
# and the best time counts. attest measures the peak rates of the processor each time. One dtype on
# one thread takes at most ten minutes.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release folder=$root/build/bench_cpu dtypes=f32 threads=1 only=
stop() { echo "bench_cpu.sh: $1" >&2; exit 64; }
while (($#)); do
  case $1 in
    -o | --build | --dtypes | --threads | --only) (($# > 1)) || stop "$1 lacks its value" ;;&
    -o) folder=$2 ;;
    --build) build=$2 ;;
    --dtypes) dtypes=$2 ;;
    --threads) threads=$2 ;;
    --only) only=$2 ;;
    *) stop "unknown argument '$1'; the head of the script says what it takes" ;;
  esac
  shift 2
done
attest=$build/bin/attest python=${ATTEST_PEERS_PYTHON:-python3}
[[ -x $attest ]] || stop "$attest is not there; scripts/run.sh builds it, --build names another"
command -v "$python" >/dev/null || stop "there is no $python"
impls=*_cpu,*_cpu_bf16
[[ ! -e $build/plugins/onednn_primitives.so ]] || impls+=,onednn_primitives

shapes=(
  "vit_b|num_heads=12 seq_len_q=197 head_dim=64"
  "vit_b_batch_8|batch=8 num_heads=12 seq_len_q=197 head_dim=64"
  "bev_4k|num_heads=8 seq_len_q=4096 head_dim=32"
  "bev_cross|num_heads=8 seq_len_q=2500 seq_len_kv=8700 head_dim=32"
  "matching_2k|num_heads=4 seq_len_q=2048 head_dim=64"
  "ptv3_as_a_batch|batch=118 num_heads=4 seq_len_q=1024 head_dim=64"
  "bev_16k|num_heads=8 seq_len_q=16384 head_dim=32"
  "lidar_32k|seq_len_q=32768 head_dim=64"
  "causal_4k|num_heads=4 seq_len_q=4096 head_dim=64 window_right=0"
  "decode_gqa|num_heads=32 num_kv_heads=8 seq_len_q=1 seq_len_kv=8192 head_dim=128"
  "planning_head|num_heads=8 seq_len_q=6 seq_len_kv=40000 head_dim=32"
  "sam_windows_bias|batch=25 num_heads=12 seq_len_q=196 head_dim=64 bias=[25,12,196,196]"
  "swin_shifted|num_heads=3 seq_len_q=3136 head_dim=32 grid_height=56 grid_width=56 \
window_height=7 window_width=7 shift_y=3 shift_x=3 shift_bias=-100 rel_bias"
  "loftr_linear|operation=linear batch=2 num_heads=8 seq_len_q=4800 head_dim=32"
)

mkdir -p "$folder"
[[ -z $(ls -A "$folder") || -e $folder/bench_cpu ]] ||
  stop "$folder has files that are not of this script; -o names another folder"
touch "$folder/bench_cpu"
rm -f "$folder"/*.jsonl "$folder/log"
# measure NAME SPEC DTYPE THREADS ROUND: what goes wrong is in the log.
measure() {
  local file=$folder/$1.$3.$4.$5 spec=$2 operation=softmax
  [[ $spec != operation=* ]] || { operation=linear; spec=${spec#* }; }
  # No word of a spec line has a blank in it.
  # shellcheck disable=SC2086
  "$attest" bench $operation $spec --dtype "$3" --threads "$4" --fill random --relations none \
    --budget 300ms --impl "$impls" -o "$file.jsonl" >>"$folder/log" 2>&1 ||
    echo "bench_cpu.sh: $1 $3: attest bench exits with $?; see $folder/log" >&2
  [[ $operation == linear ]] ||
    "$python" "$root/scripts/cpu_peers.py" time "$file.peers.jsonl" "$spec" "$3" "$4" \
      2>>"$folder/log" || echo "bench_cpu.sh: $1 $3: no peers; see $folder/log" >&2
}

count=0
for round in 1 2; do
  for shape in "${shapes[@]}"; do
    name=${shape%%|*}
    [[ $name == *"$only"* ]] || continue
    for dtype in ${dtypes//,/ }; do
      for n in ${threads//,/ }; do
        measure "$name" "${shape#*|}" "$dtype" "$n" "$round"
        count=$((count + 1))
      done
    done
  done
done
((count)) || stop "no shape has '$only' in its name"
"$python" "$root/scripts/cpu_peers.py" table "$folder"
