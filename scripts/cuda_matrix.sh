#!/usr/bin/env bash
# Compiles every CUDA kernel for many architectures, without a device, and prints what ptxas says of each: registers, bytes spilled, bytes
# of static shared memory.
#   scripts/cuda_matrix.sh                       75 80 86 87 89 90a 100 120 121, those that this nvcc knows
#   scripts/cuda_matrix.sh --head-dim 64 80 87   these architectures, and of kernels in several shapes that head size alone
# Exit codes: 0; 1: a kernel spills more than 256 bytes; 4: nvcc fails; 64: nvcc is missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
head_dim=0
[[ ${1:-} != --head-dim ]] || { head_dim=$2; shift 2; }
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || { echo "cuda_matrix.sh: nvcc is not in PATH nor in /usr/local/cuda/bin" >&2; exit 64; }
known=" $("$nvcc" --help | grep -o 'sm_[0-9a-z]*' | tr '\n' ' ') "
architectures=("$@")
if (($# == 0)); then
  for architecture in 75 80 86 87 89 90a 100 120 121; do
    if [[ $known == *" sm_$architecture "* ]]; then architectures+=("$architecture"); else echo "nvcc does not know sm_$architecture: left out"; fi
  done
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

compile() {  # SOURCE ARCHITECTURE
  local log=$folder/$(basename "$1").$2
  "$nvcc" -std=c++17 -O3 -DNDEBUG --expt-relaxed-constexpr -Xcompiler -fPIC -I "$root/harness" -I "$root/harness/abi" -I "$root/impls" -DATTEST_ONLY_HEAD_DIM="$head_dim" \
    $([[ $2 != 90a ]] || echo -DATTEST_SM90A) -gencode "arch=compute_$2,code=sm_$2" -Xptxas -v --resource-usage -c "$1" -o "$log.o" 2>"$log" || { cat "$log" >&2; return 4; }
}
export -f compile
export folder nvcc root head_dim
printf '%s\n' "${architectures[@]}" | while read -r architecture; do
  for source in "$root"/impls/*.cu "$root"/harness/core/operations/softmax/row_kernels.cu; do printf '%s\0%s\0' "$source" "$architecture"; done
done | xargs -0 -n 2 -P "$(nproc)" bash -c 'compile "$0" "$1"' || exit 4

printf '%-10s %-6s %9s %8s %8s  %s\n' source sm registers spills shared kernel
status=0
for log in $(ls "$folder" | grep -v '\.o$' | sort -V); do
  c++filt <"$folder/$log" | awk -v source="${log%%.cu.*}" -v sm="${log##*.cu.}" '
    /Compiling entry function/ { kernel = $0; sub(/.*entry function .(void )?/, "", kernel); sub(/\(attest_problem.*/, "", kernel)
                                 gsub(/\(anonymous namespace\)::|attest::/, "", kernel) }
    /bytes spill stores/ { spills = $0; sub(/ bytes spill stores.*/, "", spills); sub(/.*, /, "", spills) }
    /Used [0-9]+ registers/ { registers = $0; sub(/.*Used /, "", registers); sub(/ registers.*/, "", registers)
      shared = 0; if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART, RLENGTH) + 0
      printf "%-10s %-6s %9d %8d %8d  %s\n", source, sm, registers, spills, shared, kernel
      if (spills + 0 > 256) bad = 1 }
    END { exit bad }' || status=1
done
exit $status
