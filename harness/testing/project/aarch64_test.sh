#!/usr/bin/env bash
# Builds attest for 64-bit Arm and runs it under qemu on a CPU like that of a Jetson Orin: contract,
# judge, isolation, the NEON kernels against float64, the suite smoke. Its goldens are compared with
# those of this machine.
# usage: aarch64_test.sh BUILD_DIR SOURCE_DIR CMAKE
# Exit code 77 (skipped): scripts/aarch64.sh has not set it up, or attest has not been built.
set -euo pipefail
build=$1 source=$2 cmake=$3
arm=$source/build/aarch64 run=$source/build/arm64/run
[[ -x $build/bin/attest ]] || { echo "NOT TESTED: bin/attest has not been built"; exit 77; }
[[ $(uname -m) == x86_64 && -e ${run%/*}/fetched ]] && command -v qemu-aarch64 >/dev/null ||
  { echo "NOT TESTED: nothing is set up for 64-bit Arm (scripts/aarch64.sh)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { cat "$work/said" >&2; echo "FAILED: $*" >&2; exit 1; }
step() { echo "$((SECONDS)) s: $*"; }

# attest ARGUMENT...: that for 64-bit Arm. It starts its worker by a script, since a program cannot
# start another one of its kind without qemu.
attest() { "$run" "$arm/bin/attest" "$@"; }
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$run" "$arm/bin/attest-worker" >"$work/attest-worker"
chmod +x "$work/attest-worker"
export ATTEST_WORKER=$work/attest-worker OMP_WAIT_POLICY=passive

cd "$source"
"$cmake" --preset aarch64 >"$work/said" 2>&1 || die "it does not configure"
"$cmake" --build build/aarch64 --parallel 2 --target attest attest_worker flash_cpu flash_cpu_bf16 \
  window_cpu linear_cpu kernels_test isolation_test hostile_test trespassers abi_fixtures \
  >"$work/said" 2>&1 || die "it does not build"
compiler=$(sed -n 's/^set(CMAKE_CXX_COMPILER "\(.*\)")$/\1/p' \
  "$arm"/CMakeFiles/*/CMakeCXXCompiler.cmake)
version=$("$compiler" -dumpfullversion)
step "built by g++ $version"

# JetPack 6 has g++ 11. It takes what was built, which is C++20, and the other implementations, but
# for those that need headers of libraries, as C++17.
[[ $version == 11.* ]] || echo "NOT TESTED: the sources by g++ 11, which is not there"
takes() {  # takes SOURCE
  "$compiler" -std=c++17 -fopenmp -fsyntax-only -Wall -Wextra -Werror -Iharness -Iharness/abi \
    -Iimpls -isystem "${run%/*}/usr/include/eigen3" -isystem "${run%/*}/usr/include" "$1" \
    >"$work/said" 2>&1
}
for file in impls/*.cpp; do
  if [[ $file == *_test.cpp ]] || grep -qE 'oneapi/|onednn/|cudnn' "$file"; then continue; fi
  takes "$file" || die "g++ $version does not take $file"
done
echo 'consteval int planted() { return 20; }' >"$work/newer.cpp"
if takes "$work/newer.cpp"; then die "it takes C++20 for C++17"; fi
step "implementations as C++17"

# A board with JetPack 6 has Ubuntu 22.04's libraries, and the arm64 packages here are newer.
. scripts/symbols.sh
mapfile -t built < <(find "$arm"/{bin,plugins,tests} -type f -executable)
for limit in "${ubuntu_22_04[@]}"; do
  if newer_than "$limit" "${built[@]}" >"$work/said"; then die "Ubuntu 22.04 has $limit only"; fi
  newer_than "${limit%%_*}_1" "${built[@]}" >"$work/said" || die "it sees no symbol that is too new"
done
step "symbols of ${#built[@]} files"

# The CPU has FP16 and no BF16: the instruction BFMMLA ends a program, unless the CPU is `max`.
echo 'int main(void) { __asm__ volatile(".inst 0x6e40ec14"); return 0; }' >"$work/bfmmla.c"
aarch64-linux-gnu-gcc -o "$work/bfmmla" "$work/bfmmla.c"
status=0
("$run" "$work/bfmmla") >"$work/said" 2>&1 || status=$?
[[ $status == 132 ]] || die "an instruction that the CPU lacks ends with $status"  # SIGILL
QEMU_CPU=max "$run" "$work/bfmmla" || die "the CPU max lacks BFMMLA"
attest probe --threads 1 >"$work/said" || die "attest probe ends with $?"
grep -q '^f16 multiply-add.*NEON FP16$' "$work/said" && ! grep -q '^bf16' "$work/said" ||
  die "attest probe does not name NEON FP16 alone"
QEMU_CPU=max attest probe --threads 1 >"$work/said" || die "attest probe ends with $?"
grep -q '^bf16 multiply-add.*NEON BF16$' "$work/said" || die "attest probe lacks NEON BF16"
step "CPU and attest probe"

# Inputs have the same bytes as here. Goldens are the same sums in vectors of two numbers instead of
# four or eight, so their last bits may differ. Of the fill cancelling the sums are a millionth of
# what they are made of.
distance() {  # distance MOST ARGUMENT...: of what attest capture ARGUMENT... writes
  rm -rf "$work/here" "$work/there"
  attest capture "${@:2}" -o "$work/there" >"$work/said" || die "attest capture ends with $?"
  "$build/bin/attest" capture "${@:2}" -o "$work/here" >"$work/said" || die "here it ends with $?"
  python3 harness/testing/project/golden_distance.py "$work/here" "$work/there" "$1" ||
    die "inputs or goldens differ"
}
distance 64 smoke
distance 1e6 --fill all --spec 'softmax num_heads=2 seq_len_q=61 head_dim=16 window_right=0 lse'
step "inputs and goldens"

# results ARGUMENT...: of attest run ARGUMENT...: lines "IMPLEMENTATION CODE", sorted.
results() {
  attest run "$@" --judge-only --threads 1 -o "$work/results.jsonl" --overwrite \
    >"$work/said" 2>&1 || [[ $? == 1 ]] || die "attest run ends with $?"
  python3 - "$work/results.jsonl" <<'PYTHON' | sort
import json, sys
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record["type"] == "result":
        print(record["impl"], record.get("code") or record["verdict"])
PYTHON
}
plugins=$arm/tests/plugins
# Worker processes and guards: each plugin of the contract passes, each trespasser is noticed.
results 'softmax num_heads=2 seq_len_q=61 head_dim=64 window_right=0' \
  --plugin "$plugins/plugin_c.so" --plugin "$plugins/older_header.so" \
  --plugin "$plugins/newer_header.so" --impl plugin_c,older_header,newer_header \
  >"$work/codes"
[[ $(cut -d' ' -f2 "$work/codes" | paste -sd' ') == "pass pass pass" ]] ||
  die "a plugin of the contract does not pass: $(paste -sd, "$work/codes")"
results 'softmax batch=2 seq_len_q=16 head_dim=64 o.strides=[1072,0,67,1] q.strides=[1040,0,65,1]' \
  --plugin "$plugins/trespassers.so" --impl 'trespasser_*' >"$work/codes"
cut -d' ' -f2 "$work/codes" | sort | uniq -c | awk '{ print $2 "=" $1 }' |
  paste -sd' ' >"$work/said"
grep -qx 'crash:canary=6 crash:input-written=1 crash:signal=1 fail:nan=5 fail:unwritten=1 pass=1' \
  "$work/said" || die "trespassers are not noticed"
grep -q '^trespasser_none pass$' "$work/codes" || die "trespasser_none does not pass"
step "contract and guards"

results smoke --impl flash_cpu,window_cpu,linear_cpu --dtype f32,f16 >"$work/codes"
uniq -c "$work/codes"
for impl in flash_cpu window_cpu linear_cpu; do
  grep -q "^$impl pass$" "$work/codes" || die "$impl passes nothing"
done
if grep -qvE ' (pass|unsupported.*)$' "$work/codes"; then die "not all of smoke passes"; fi
step "suite smoke"

# In bf16 a softcap shows whether sigma rounds as the host does on x86-64.
results default --case tiny/softcap --impl flash_cpu --dtype bf16 >"$work/codes"
[[ $(<"$work/codes") == "flash_cpu pass" ]] || die "of a softcap: $(paste -sd, "$work/codes")"
step "softcap in bf16"

for tests in isolation_test:'*' hostile_test:'All/Harm.*' \
  kernels_test:'Kernels.Hidden*:Kernels.Causal*:Kernels.LongSums*:Kernels.ProductsOf*'; do
  "$run" "$arm/tests/${tests%%:*}" --gtest_filter="${tests#*:}" >"$work/said" 2>&1 ||
    die "${tests%%:*} ends with $?"
  grep '^\[  PASSED' "$work/said"
  step "${tests%%:*}"
done
