#!/usr/bin/env bash
# Which CUDA architectures a build is configured for: those of the devices here, all where CUDA is wanted without one, none else.
# usage: cuda_architectures_test.sh SOURCE_DIR FAKE_CUDA     exit code 77 (skipped) where there is no nvcc
set -euo pipefail
source=$1 fake_cuda=$2
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || { echo "NOT TESTED: no nvcc"; exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# expect DRIVER FAULT WORDS OPTION...: what cmake says of CUDA, with this driver, which misbehaves so
expect() {
  local driver=$1 fault=$2 words=$3
  shift 3
  ATTEST_CUDA_DRIVER=$driver ATTEST_FAKE_CUDA=$fault cmake -S "$source" -B "$place/build" -G Ninja -DATTEST_TESTS=OFF "$@" >"$place/said" 2>&1 ||
    { cat "$place/said"; exit 1; }
  grep -qF -- "-- CUDA: $words" "$place/said" || { echo "not said: $words"; cat "$place/said"; exit 1; }
}
expect /nowhere/libcuda.so.1 "" 'no device here'
expect "$fake_cuda" no-device 'no device here'
expect "$fake_cuda" "" 'implementations for 90a-real, nvcc'
grep -q 'sm_90a' "$place/build/build.ninja"
grep -q 'DATTEST_SM90A' "$place/build/build.ninja"
expect "$fake_cuda" newer-than-nvcc 'implementations for 80-virtual, nvcc'
grep -q 'does not know sm_990' "$place/said"
if grep -q 'DATTEST_SM90A' "$place/build/build.ninja"; then echo "kernels of sm_90a for another architecture"; exit 1; fi
expect "$fake_cuda" "" 'implementations for 87-real, nvcc' -DATTEST_CUDA_ARCHITECTURES=87-real
expect /nowhere/libcuda.so.1 "" 'implementations for 75-real 80-real 86-real' -DATTEST_CUDA=on -DATTEST_CUDA_ARCHITECTURES=
if grep -q 'CUDA: ' <<<"$(cmake -S "$source" -B "$place/off" -G Ninja -DATTEST_TESTS=OFF -DATTEST_CUDA=OFF 2>&1)"; then echo "built where it is off"; exit 1; fi
# refuse WORDS OPTION...: cmake ends, and says why
refuse() {
  local words=$1 said
  shift
  if said=$(cmake -S "$source" -B "$place/refused" -G Ninja -DATTEST_TESTS=OFF "$@" 2>&1); then echo "taken: $*"; exit 1; fi
  tr -s ' \n' '  ' <<<"$said" | grep -qF -- "$words" || { echo "not said: $words"; echo "$said"; exit 1; }
}
refuse 'ATTEST_CUDA=maybe: on, off or auto' -DATTEST_CUDA=maybe
refuse 'ATTEST_CUDA_ARCHITECTURES=native: this nvcc knows' -DATTEST_CUDA=on -DATTEST_CUDA_ARCHITECTURES=native
refuse 'ATTEST_CUDA_ARCHITECTURES=42-real: this nvcc knows' -DATTEST_CUDA=on -DATTEST_CUDA_ARCHITECTURES='87-real;42-real'
