#!/usr/bin/env bash
# Runs the suite default on the NEON kernels: each implementation on each of its tiny cases, and on
# larger ones that take other ways through it. The implementations run under qemu, and attest of
# this machine judges their outputs, since goldens would take most of the time there.
# aarch64_build_test.sh has built them; aarch64_test.sh runs the judge for 64-bit Arm, too.
# usage: aarch64_default_test.sh BUILD_DIR SOURCE_DIR CMAKE
# Exit code 77 (skipped): scripts/aarch64.sh has not set it up, or attest has not been built.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/aarch64_tools.sh"

trespassers_are_noticed "$build/bin/attest" --only-plugins
step "trespassers"

# judge IMPLEMENTATIONS ARGUMENT...: nothing is skipped for lack of time.
judge() {
  local impl plugins=()
  for impl in $1; do plugins+=(--plugin "$arm/plugins/$impl.so"); done
  results "$build/bin/attest" default --only-plugins "${plugins[@]}" --impl "${1// /,}" \
    --relations none --case-limit 1h --timeout 10min "${@:2}" >"$work/codes"
  if grep -vE ' (pass|unsupported:(table|query))$' "$work/codes" >"$work/said"; then
    die "not all of default passes: ${*:2}"
  fi
  for impl in $1; do
    grep -q "^$impl pass$" "$work/codes" || die "$impl passes nothing: ${*:2}"
  done
  grep -c ' pass$' "$work/codes"
}
judge "flash_cpu flash_cpu_bf16 window_cpu linear_cpu deformable_cpu flash_backward_cpu" \
  --case 'tiny/*'
step "pass what is tiny, on every fill"
# Larger cases that take other ways through the kernels: a last tile of some sizes, many tiles of
# keys and of queries, parts of a long row, packed sequences, masks, biases and bands over several
# tiles; points that are sorted by their place. In float32 an error of a long sum shows most.
larger=('dense/head_dim*' 'cross/*' 'causal/*' 'varlen/*' 'mask/*' 'bias/*' 'key_padding/*'
  'window/*' 'linear/*' 'deformable/*')
judge "flash_cpu linear_cpu deformable_cpu" --dtype f32 --fill random \
  --case "$(cases "${larger[@]}")"
judge window_cpu --dtype f32 --fill random --case 'window/*,patches/*'
step "pass what is larger, in f32"
judge "flash_cpu window_cpu" --case 'grid/*,many/*' --dtype f16 --fill random
step "pass what is in f16 alone"
judge flash_cpu_bf16 --case 'dense/197,cross/900*,causal/decode,varlen/*' --dtype bf16 --fill random
step "pass what is larger, in bf16"
