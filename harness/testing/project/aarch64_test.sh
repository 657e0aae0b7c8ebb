#!/usr/bin/env bash
# Runs attest for 64-bit Arm under qemu on a CPU like that of a Jetson Orin: contract, judge,
# isolation, the NEON kernels against float64, the suite smoke. Its inputs and goldens are compared
# with those of this machine. aarch64_build_test.sh has built it.
# usage: aarch64_test.sh BUILD_DIR SOURCE_DIR CMAKE
# Exit code 77 (skipped): scripts/aarch64.sh has not set it up, or attest has not been built.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/aarch64_tools.sh"

# The CPU has FP16 and no BF16: the instruction BFMMLA ends a program, unless the CPU is `max`.
echo 'int main(void) { __asm__ volatile(".inst 0x6e40ec14"); return 0; }' >"$work/bfmmla.c"
aarch64-linux-gnu-gcc -o "$work/bfmmla" "$work/bfmmla.c"
status=0
("$run" "$work/bfmmla") >"$work/said" 2>&1 || status=$?
[[ $status == 132 ]] || die "an instruction that the CPU lacks ends with $status"  # SIGILL
QEMU_CPU=max "$run" "$work/bfmmla" || die "the CPU max lacks BFMMLA"
arm_attest probe --threads 1 >"$work/said" || die "attest probe ends with $?"
grep -q '^f16 multiply-add.*NEON FP16$' "$work/said" &&
  grep -q '^bf16 multiply-add none: ' "$work/said" ||
  die "attest probe does not name NEON FP16 alone"
QEMU_CPU=max arm_attest probe --threads 1 >"$work/said" || die "attest probe ends with $?"
grep -q '^bf16 multiply-add.*NEON BF16$' "$work/said" || die "attest probe lacks NEON BF16"
step "CPU and attest probe"

# Inputs have the same bytes as here. Goldens are the same sums in vectors of two numbers instead of
# four or eight, so their last bits may differ. The sums of the fill cancelling are a millionth of
# their addends.
distance() {  # distance MOST ARGUMENT...: of what attest capture ARGUMENT... writes
  rm -rf "$work/here" "$work/there"
  arm_attest capture "${@:2}" -o "$work/there" >"$work/said" || die "attest capture ends with $?"
  "$build/bin/attest" capture "${@:2}" -o "$work/here" >"$work/said" || die "here it ends with $?"
  python3 harness/testing/project/golden_distance.py "$work/here" "$work/there" "$1" ||
    die "inputs or goldens differ"
}
# Most cases of smoke are in f32, f16 and bf16. Goldens are sums in float64 of whatever the inputs
# are widened to, so one dtype shows them: f32, whose sums of products round. In f16 and bf16 such
# sums are mostly exact. Tensors in f8 and the bias in f32 are in f16 alone. A case of each
# operation shows inputs in f16 and bf16.
distance 64 smoke --dtype f32
distance 64 smoke --dtype f16,bf16 \
  --case 'softmax/dense,softmax/bias_f32,*/f8,linear/masked,deformable/levels,backward/masked'
# The tiny cases of default but the gradients, which take longest. Of these, the ones that have what
# no gradient of smoke has: f8e5m2 in packed sequences, strides, two dtypes, a causal order, last
# tiles of one row, tensors that are not aligned, causal packed sequences, a band with a bias.
gradients=(f8_varlen mask_strides mixed_dtype order tails unaligned varlen_causal window_bias)
# Larger ones: last tiles of one key, a long sum, a band across many tiles, sampled rows.
larger=(dense/head_dim_80 cross/1x40000 window/causal_1021 linear/masked_1021 deformable/1021)
distance 64 default --dtype f16 --case "$(cases 'tiny/[!b]*' 'tiny/bias*' 'tiny/block_mask*' \
  "${gradients[@]/#/tiny/backward_}" "${larger[@]}")"
# These tensors in f8 are not in f16 in default. Those of the gradient have scales of blocks.
distance 64 default --dtype f32 --case 'tiny/f8e4m3,tiny/backward_f8'
distance 1e6 --fill all --spec 'softmax num_heads=2 seq_len_q=61 head_dim=16 window_right=0 lse'
step "inputs and goldens"

plugins=$arm/tests/plugins
# Worker processes and guards: each plugin of the contract passes, each trespasser is noticed.
results arm_attest 'softmax num_heads=2 seq_len_q=61 head_dim=64 window_right=0' \
  --plugin "$plugins/plugin_c.so" --plugin "$plugins/older_header.so" \
  --plugin "$plugins/newer_header.so" --impl plugin_c,older_header,newer_header \
  --relations none >"$work/codes"
[[ $(cut -d' ' -f2 "$work/codes" | paste -sd' ') == "pass pass pass" ]] ||
  die "a plugin of the contract does not pass: $(paste -sd, "$work/codes")"
trespassers_are_noticed arm_attest
step "contract and guards"

# Every case on one fill. What has a sum of its own in the judge on every fill: scores that differ
# by distance, equal keys with other biases, pairs, lengths. A case of each kernel with relations.
# aarch64_default_test.sh judges more cases, dtypes, fills and relations on x86-64.
impls=flash_cpu,window_cpu,linear_cpu
{
  results arm_attest smoke --impl $impls --dtype f32,f16 --fill random,tokens --relations none
  results arm_attest smoke --impl $impls --dtype f32 --relations none \
    --case 'softmax/alibi_causal,softmax/bias,softmax/block_mask' \
    --case 'softmax/varlen,softmax/grid_shifted'
  results arm_attest smoke --impl $impls --dtype f32 --case softmax/window,linear/masked
} >"$work/codes"
sort "$work/codes" | uniq -c
for impl in flash_cpu window_cpu linear_cpu; do
  grep -q "^$impl pass$" "$work/codes" || die "$impl passes nothing"
done
if grep -qvE ' (pass|unsupported.*)$' "$work/codes"; then die "not all of smoke passes"; fi
step "suite smoke"

# In bf16 a softcap shows whether sigma rounds as the host does on x86-64.
results arm_attest default --case tiny/softcap --impl flash_cpu --dtype bf16 \
  --relations none >"$work/codes"
[[ $(<"$work/codes") == "flash_cpu pass" ]] || die "of a softcap: $(paste -sd, "$work/codes")"
step "softcap in bf16"

# Harm by signals, stacks, exceptions, guards, threads and floating-point modes depends on the
# processor, or on how fast it is. Left out is what attest finds by code that has no part for a
# processor: an exit, as of `exits` (leaves); a run or query that does not end (hangs,
# hangs_blocked, hangs_in_query); messages that end or are none (closes, garbage); declarations of
# what is impossible (boasts, unknown); a count of open files in /proc, as of `threads`
# (descriptors).
harm='All/Harm.*:-*/leaves:*/hangs*:*/closes:*/garbage:*/boasts:*/unknown:*/descriptors'
# qemu starts a process before it knows whether the program exists. What is read of some thousand
# garbled messages is the same on every processor; whole ones are read here.
left_out=-WorkerProcess.LeavesNothingWhereItCannotBeStarted:Messages.NeitherSideTrustsTheOther
for tests in isolation_test:"$left_out" hostile_test:"$harm" \
  kernels_test:'Kernels.Hidden*:Kernels.Causal*:Kernels.LongSums*:Kernels.ProductsOf*'; do
  "$run" "$arm/tests/${tests%%:*}" --gtest_filter="${tests#*:}" >"$work/said" 2>&1 ||
    die "${tests%%:*} ends with $?"
  grep '^\[  PASSED' "$work/said"
  step "${tests%%:*}"
done
