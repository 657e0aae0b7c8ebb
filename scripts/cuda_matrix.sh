#!/usr/bin/env bash
# Compiles every CUDA kernel for many architectures, without a device, and prints what ptxas reports
# of each kernel: threads that a block may have, registers, bytes spilled, bytes of static shared
# memory.
#   scripts/cuda_matrix.sh                       75 80 86 87 89 90a 100 120 121, as far as this nvcc
#                                                knows them
#   scripts/cuda_matrix.sh --head-dim 64 80 87   these architectures, and only this head size of the
#                                                kernels that have several
#   scripts/cuda_matrix.sh --table FILE ...      also writes a table in Markdown, with the blocks
#                                                that Orin and Hopper hold at a time:
#                                                reports/published/ptxas.md was made so
#   scripts/cuda_matrix.sh --keep FOLDER ...     keeps there what was compiled: the same call goes
#                                                on after it was cut off
# Exit codes: 0; 1 if a kernel spills more than 256 bytes (float32 of 256 channels on sm_120 and
# sm_121: 352), or its wgmma instructions are serialized; 4 if nvcc fails; 64 if nvcc is missing, or
# an argument is wrong.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
head_dim=0 table= keep= most_spilled=256
while (($#)); do
  case $1 in
    --head-dim | --table | --keep)
      [[ -n ${2:-} ]] || { echo "cuda_matrix.sh: $1 needs a value" >&2; exit 64; } ;;
  esac
  case $1 in
    -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --head-dim) head_dim=$2; shift 2 ;;
    --table) table=$2; shift 2 ;;
    --keep) keep=$2; shift 2 ;;
    --*)
      echo "cuda_matrix.sh: $1: unknown; --head-dim SIZE, --table FILE, --keep FOLDER," \
        "ARCHITECTURE ..." >&2
      exit 64 ;;
    *) break ;;
  esac
done
if [[ " 0 16 32 64 128 256 " != *" $head_dim "* ]]; then
  echo "cuda_matrix.sh: --head-dim $head_dim: kernels have 16, 32, 64, 128 and 256" >&2
  exit 64
fi
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [[ ! -x $nvcc ]]; then
  echo "cuda_matrix.sh: nvcc is not in PATH nor in /usr/local/cuda/bin" >&2
  exit 64
fi
known=" $("$nvcc" --help | grep -o 'sm_[0-9a-z]*' | sort -uV | tr '\n' ' ') "
architectures=("$@")
if (($# == 0)); then
  for architecture in 75 80 86 87 89 90a 100 120 121; do
    if [[ $known == *" sm_$architecture "* ]]; then
      architectures+=("$architecture")
    else
      echo "nvcc does not know sm_$architecture: left out"
    fi
  done
fi
for architecture in "${architectures[@]}"; do
  if [[ $architecture == -* ]]; then
    echo "cuda_matrix.sh: $architecture: options come before architectures" >&2
    exit 64
  elif [[ $known != *" sm_$architecture "* ]]; then
    echo "cuda_matrix.sh: $architecture: this nvcc knows $(xargs <<<"${known//sm_/}")" >&2
    exit 64
  fi
done
[[ -z $table ]] || touch "$table" || exit 64
folder=$keep
if [[ -z $keep ]]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
else
  [[ ! -e $keep || -e $keep/compiled_from || -z $(ls -A "$keep") ]] || {
    echo "cuda_matrix.sh: --keep $keep: has files that are not of this script" >&2
    exit 64
  }
  mkdir -p "$keep"
  # What another call compiled, or from other sources, is compiled again.
  from=$(cd "$root" && { echo "$head_dim" "${architectures[@]}"; "$nvcc" --version
    find impls/*.cu impls/cuda harness/abi harness/core/operations/softmax/golden -type f | sort |
      xargs sha256sum; } | sha256sum)
  if [[ $(cat "$keep/compiled_from" 2>/dev/null) != "$from" ]]; then
    rm -rf "${keep:?}"/*
    echo "$from" >"$keep/compiled_from"
  fi
fi

# Reads from PTX how many threads a kernel may have. Makes one line for each kernel, with its
# mangled name, from the report of ptxas. Bytes that called functions spill are reported after the
# registers of a kernel, and count as the kernel's own.
cat >"$folder/rows.awk" <<'AWK'
/\.entry / { entry = $0; sub(/.*\.entry /, "", entry); sub(/\(.*/, "", entry) }
/\.maxntid/ { threads[entry] = $2 + 0 }
function tell() {
  if (kernel != "") {
    printf "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", source, sm, threads[kernel], registers, spilled, shared,
      kernel
  }
}
/Compiling entry function/ {
  tell(); split($0, quoted, "'"); kernel = quoted[2]; spilled = registers = shared = 0
}
/bytes spill stores/ {
  bytes = $0; sub(/ bytes spill stores.*/, "", bytes); sub(/.*, /, "", bytes); spilled += bytes
}
/Used [0-9]+ registers/ {
  registers = $0; sub(/.*Used /, "", registers); sub(/ registers.*/, "", registers)
  shared = 0; if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART, RLENGTH) + 0
}
END { tell() }
AWK
status=0
# ccache, if it is there, keeps each object and what ptxas reports of it. So the object has the PTX
# as text.
cache=$(command -v ccache || true)
export CCACHE_BASEDIR=$root
compile() {  # compile SOURCE ARCHITECTURE
  set -o pipefail
  local log=$folder/$(basename "$1").$2
  [[ ! -e $log.rows ]] || return 0
  ${cache:+"$cache"} "$nvcc" -std=c++17 -O3 -DNDEBUG --expt-relaxed-constexpr -Xcompiler -fPIC \
    -I "$root/harness" -I "$root/harness/abi" -I "$root/impls" \
    -DATTEST_ONLY_HEAD_DIM="$head_dim" $([[ $2 != 90a ]] || echo -DATTEST_SM90A) \
    -gencode "arch=compute_$2,code=[sm_$2,compute_$2]" --no-compress -Xptxas -v --resource-usage \
    -c "$1" -o "$log.o" 2>"$log" || { cat "$log" >&2; return 4; }
  strings -a "$log.o" | awk -f "$folder/rows.awk" -v source="$(basename "$1" .cu)" -v sm="$2" \
    - "$log" | c++filt >"$log.rows.new" || return 4
  # The third field is how many threads a kernel may have, which only PTX says.
  if awk -F'\t' '$3 > 0 { found = 1 } END { exit found || NR == 0 }' "$log.rows.new"; then
    echo "cuda_matrix.sh: $log.o has no PTX" >&2
    return 4
  fi
  mv "$log.rows.new" "$log.rows"
  rm "$log.o"
}
export -f compile
export folder nvcc cache root head_dim
printf '%s\n' "${architectures[@]}" | while read -r architecture; do
  for source in "$root"/impls/*.cu "$root"/harness/core/operations/softmax/golden/row_kernels.cu; do
    printf '%s\0%s\0' "$source" "$architecture"
  done
done | xargs -0 -n 2 -P "$(nproc)" bash -c 'compile "$0" "$1"' || exit 4

# With one of these messages of ptxas, kernels for sm_90a are slow.
if grep -hE 'C75(08|10|14)|serialized|setmaxnreg' "$folder"/*.cu.* 2>/dev/null | sort -u |
  sed 's/^/cuda_matrix.sh: /' | grep . >&2; then
  status=1
fi

# All lines, with the names of kernels as the sources write them.
rows() {
  find "$folder" -name '*.rows' | sort -V | xargs cat | sed -E '
    s/\(anonymous namespace\)::|attest::(core::)?//g
    s/\(flash::Kind\)0/flash::Kind::kPlain/g
    s/\(flash::Kind\)1/flash::Kind::kScattered/g
    s/\(flash::Kind\)2/flash::Kind::kGeneral/g
    s/\(flash::Kind\)3/flash::Kind::kWindow/g
    s/\tvoid /\t/
    s/\([^()]*\)$//'
}
rows >"$folder/all"
awk -F'\t' -v most=$most_spilled '
  BEGIN {
    printf "%-11s %-5s %7s %9s %8s %8s  %s\n", "source", "sm", "threads", "registers", "spilled",
      "shared", "kernel"
  }
  {
    printf "%-11s %-5s %7d %9d %8d %8d  %s\n", $1, $2, $3, $4, $5, $6, $7
    wide = $2 ~ /^12[01]$/ && $7 ~ /Shape<4, ?256,/
    if ($5 > (wide ? 352 : most)) bad = 1
  }
  END { exit bad }' "$folder/all" || status=1
if [[ -n $table ]]; then
  grep -oE '[A-Za-z0-9_:]*Shape<[^<>]*>' "$folder/all" | sort -u |
    sed 's/.*/ATTEST_SHAPE(&)/' >"$folder/kernel_shapes.inc" || true
  "${CXX:-c++}" -std=c++17 -O1 -w \
    -I "$folder" -I "$root/harness" -I "$root/harness/abi" -I "$root/impls" \
    -o "$folder/ptxas_table" "$root/harness/testing/cuda/ptxas_table.cpp" || exit 4
  title=$("$nvcc" --version | grep -o 'release [^,]*' | sed 's/release/nvcc/')
  title+=", commit $(git -C "$root" rev-parse --short HEAD)"
  if ((head_dim)); then title+=", kernels of head_dim $head_dim alone"; fi
  "$folder/ptxas_table" "$title" <"$folder/all" >"$table" || exit 4
  echo "table: $table"
fi
exit $status
