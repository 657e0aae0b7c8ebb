#!/usr/bin/env bash
# Runs the NEON kernels: each implementation on each tiny case of the suite default, on larger
# problems that take other ways through it, and with relations on some cases of smoke. They run
# under qemu, and attest of this machine judges their outputs, since goldens would take most of the
# time there.
# aarch64_build_test.sh has built them; aarch64_test.sh runs the judge for 64-bit Arm, too.
# usage: aarch64_default_test.sh BUILD_DIR SOURCE_DIR CMAKE
# Exit code 77 (skipped): scripts/aarch64.sh has not set it up, or attest has not been built.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/aarch64_tools.sh"

trespassers_are_noticed "$build/bin/attest" --only-plugins
step "trespassers"

# judge IMPLEMENTATIONS ARGUMENT...: nothing is skipped for lack of time. `relations` is none if it
# is not set.
judge() {
  local impl plugins=()
  for impl in $1; do plugins+=(--plugin "$arm/plugins/$impl.so"); done
  results "$build/bin/attest" --only-plugins "${plugins[@]}" --impl "${1// /,}" \
    --relations "${relations:-none}" --case-limit 1h --timeout 10min "${@:2}" >"$work/codes"
  if grep -vE ' (pass|unsupported:(table|query))$' "$work/codes" >"$work/said"; then
    die "not all passes: ${*:2}"
  fi
  for impl in $1; do
    grep -q "^$impl pass$" "$work/codes" || die "$impl passes nothing: ${*:2}"
  done
  grep -c ' pass$' "$work/codes"
}
judge "flash_cpu flash_cpu_bf16 window_cpu linear_cpu deformable_cpu flash_backward_cpu" default \
  --case 'tiny/*'
step "pass what is tiny, on every fill"
# Each of these takes another way through a kernel. aarch64_test.sh has two more.
related=(softmax/{dense,gqa,varlen,paged,patches,grid_shifted})
relations=auto judge "flash_cpu window_cpu" smoke --dtype f32 --fill random \
  --case "$(cases "${related[@]}")"
step "pass with relations"

# Larger problems that take other ways through the kernels: a last tile of some sizes, many tiles of
# keys and of queries, parts of a long row, packed sequences, masks, biases and bands over several
# tiles; points that are sorted by their place. In float32 an error of a long sum shows most. What
# takes longest in default is here with one head and fewer tokens, which are as many tiles as a way
# needs: causal/1021, key_padding/1021, varlen/1021, window/4099, cross/900x4224, patches/4099.
larger=('dense/head_dim*' cross/1x40000 causal/decode 'mask/*' 'bias/*' 'linear/*' 'deformable/*')
judge "flash_cpu linear_cpu deformable_cpu" default --dtype f32 --fill random \
  --case "$(cases "${larger[@]}")"
long='seq_len_q=300 seq_len_kv=4224 head_dim=32'
packed='batch=4 seq_len_q=517 head_dim=64 cu_seqlens_q cu_seqlens_kv'
judge "flash_cpu window_cpu" --fill random "softmax dtype=f32 $long" "softmax dtype=f32 $packed" \
  'softmax dtype=f32 seq_len_q=517 head_dim=64 window_right=0' \
  'softmax dtype=f32 batch=2 seq_len_q=517 head_dim=64 mask=[2,1,1,517]' \
  'softmax dtype=f32 seq_len_q=1031 head_dim=64 window_left=256 window_right=256' \
  'softmax dtype=f32 seq_len_q=2051 head_dim=16 patch_size=1024 order'
step "pass what is larger, in f32"
judge "flash_cpu window_cpu" default --case 'grid/*,many/*' --dtype f16 --fill random
step "pass what is in f16 alone"
judge flash_cpu_bf16 default --case dense/197,causal/decode --dtype bf16 --fill random
judge flash_cpu_bf16 --fill random "softmax dtype=bf16 $long" "softmax dtype=bf16 $packed"
step "pass what is larger, in bf16"
