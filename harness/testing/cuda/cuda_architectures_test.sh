#!/usr/bin/env bash
# Tests for which CUDA architectures a build is configured: those of the devices here; all, if CUDA
# is switched on without a device; else none.
# usage: cuda_architectures_test.sh SOURCE_DIR FAKE_CUDA     exit code 77 (skipped): no nvcc
set -euo pipefail
source=$1 fake_cuda=$2
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || { echo "NOT TESTED: no nvcc"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect DRIVER FAULT WORDS OPTION...: cmake says WORDS about CUDA, with this driver and its FAULT.
expect() {
  local driver=$1 fault=$2 words=$3
  shift 3
  ATTEST_CUDA_DRIVER=$driver ATTEST_FAKE_CUDA=$fault \
    cmake -S "$source" -B "$work/build" -G Ninja -DATTEST_TESTS=OFF "$@" >"$work/said" 2>&1 ||
    { cat "$work/said"; exit 1; }
  grep -qF -- "-- CUDA: $words" "$work/said" ||
    { echo "not said: $words"; cat "$work/said"; exit 1; }
}
expect /nowhere/libcuda.so.1 "" 'no device here'
expect "$fake_cuda" no-device 'no device here'
expect "$fake_cuda" "" 'implementations for 90a-real, nvcc'
grep -q 'sm_90a' "$work/build/build.ninja"
grep -q 'DATTEST_SM90A' "$work/build/build.ninja"
expect "$fake_cuda" newer-than-nvcc 'implementations for 80-virtual, nvcc'
grep -q 'does not know sm_990' "$work/said"
if grep -q 'DATTEST_SM90A' "$work/build/build.ninja"; then
  echo "kernels of sm_90a for another architecture"
  exit 1
fi
expect "$fake_cuda" "" 'implementations for 87-real, nvcc' -DATTEST_CUDA_ARCHITECTURES=87-real
expect /nowhere/libcuda.so.1 "" 'implementations for 75-real 80-real 86-real' \
  -DATTEST_CUDA=on -DATTEST_CUDA_ARCHITECTURES= -DATTEST_CUDA_MUTANTS=ON
grep -q flash_cuda_planted "$work/build/build.ninja"
said=$(cmake -S "$source" -B "$work/off" -G Ninja -DATTEST_TESTS=OFF -DATTEST_CUDA=OFF 2>&1)
if grep -q 'CUDA: ' <<<"$said"; then
  echo "built where it is off"
  exit 1
fi

# refuse WORDS OPTION...: cmake stops, and says why.
refuse() {
  local words=$1 said
  shift
  if said=$(cmake -S "$source" -B "$work/refused" -G Ninja -DATTEST_TESTS=OFF "$@" 2>&1); then
    echo "taken: $*"
    exit 1
  fi
  tr -s ' \n' '  ' <<<"$said" | grep -qF -- "$words" ||
    { echo "not said: $words"; echo "$said"; exit 1; }
}
refuse 'ATTEST_CUDA=maybe: on, off or auto' -DATTEST_CUDA=maybe
refuse 'ATTEST_CUDA_ARCHITECTURES=native: this nvcc knows' \
  -DATTEST_CUDA=on -DATTEST_CUDA_ARCHITECTURES=native
refuse 'ATTEST_CUDA_ARCHITECTURES=42-real: this nvcc knows' \
  -DATTEST_CUDA=on -DATTEST_CUDA_ARCHITECTURES='87-real;42-real'
