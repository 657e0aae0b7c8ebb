#!/usr/bin/env bash
# Tests without a device what cudnn_cuda asks of cuDNN. cuDNN itself says which problems it takes,
# for an H200 that is described to it, and compiles its kernels for them. Then it wants the driver
# to load them; a driver that does nothing stands in for it.
# usage: cudnn_plans_test.sh BUILD_DIR SOURCE_DIR FAKE_CUDA
# Exit code 77 (skipped): cuDNN or its frontend is not there.
set -euo pipefail
build=$1 source=$2 fake_cuda=$3
plugin=$build/tests/plugins/cudnn_cuda_planner.so toolkit=/usr/local/cuda
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "NOT TESTED: $*"; exit 77; }
die() { echo "$*"; exit 1; }
[[ -x $build/bin/attest ]] || skip "bin/attest has not been built"
[[ -e $plugin ]] || skip "cudnn_cuda has not been built: no CUDA toolkit with cuDNN, or no" \
  "headers of its frontend (scripts/cuda_packages.sh)"
[[ -e $toolkit/lib64/stubs/libcuda.so ]] || skip "no CUDA toolkit in $toolkit"

# A driver with every function of the real one. They all do nothing and succeed, except for those
# that must return something.
cat >"$work/driver.c" <<'C'
int cuLibraryLoadData(void **library) { return *library = (void *)16, 0; }
int cuLibraryGetKernel(void **kernel) { return *kernel = (void *)32, 0; }
int cuKernelGetFunction(void **function) { return *function = (void *)48, 0; }
int cuDeviceGetCount(int *count) { return *count = 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuGetErrorString(int error, const char **text) { return *text = "nothing", 0; }
int cuGetErrorName(int error, const char **name) { return *name = "nothing", 0; }
int cuInit(unsigned flags) { return 100; }
C
nm -D --defined-only "$toolkit/lib64/stubs/libcuda.so" |
  awk '$2 == "T" && $3 ~ /^cu/ { print $3 }' |
  while read -r name; do
    grep -q "int $name(" "$work/driver.c" ||
      echo "int $name(void) { return 0; }" >>"$work/driver.c"
  done
mkdir "$work/driver"
cc -w -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$work/driver/libcuda.so.1" "$work/driver.c"

# asked DEVICE PROBLEM: what cudnn_cuda answers. cuDNN finds its compiler (nvrtc); the frontend
# finds no CUDA runtime.
asked() {
  env CUDNN_FRONTEND_CUDART_LIB_NAME=/nowhere/libcudart.so ATTEST_CUDA_DRIVER="$fake_cuda" \
    ATTEST_CUDNN_DEVICE="$1" LD_LIBRARY_PATH="$work/driver:$toolkit/lib64:$toolkit/lib" \
    "$build/bin/attest" list --plugin "$plugin" --impl cudnn_cuda --for "$2"
}
h200=$source/harness/testing/cuda/cudnn_h200.json
version=$(awk '$2 == "CUDNN_MAJOR" { major = $3 } $2 == "CUDNN_MINOR" { minor = $3 }
  END { print 100 * major + minor }' "$toolkit/include/cudnn_version.h")
((version >= 919)) || skip "cuDNN $version: the answers expected here are those of 9.19"
asked "$h200" 'softmax dtype=f16 seq_len_q=64 head_dim=64' >"$work/said"
if grep -q 'cuDNN is not there' "$work/said"; then skip "$(cat "$work/said")"; fi

pages='page_size=16 page_table seq_lens_kv'
while read -r problem; do
  asked "$h200" "softmax $problem" >"$work/said"
  grep -q '^cudnn_cuda  *yes, .*needs .*; qk=b*f16,pv=b*f16,' "$work/said" ||
    die "softmax $problem: $(cat "$work/said")"
done <<PROBLEMS
dtype=f16 batch=32 num_heads=12 seq_len_q=197 head_dim=64
dtype=bf16 num_heads=16 seq_len_q=4096 head_dim=128 lse
dtype=bf16 num_heads=8 seq_len_q=40000 head_dim=64
dtype=f16 seq_len_q=131072 head_dim=128 window_right=0
dtype=f16 seq_len_q=300 seq_len_kv=700 head_dim=64 window_left=128 window_right=0 diagonal=1
dtype=bf16 num_heads=8 num_kv_heads=2 seq_len_q=200 head_dim=64
dtype=f16 num_heads=2 seq_len_q=100 seq_len_kv=300 head_dim=64 bias=f16[1,2,100,300]
dtype=bf16 batch=3 seq_len_q=100 seq_len_kv=300 head_dim=64 seq_lens_q seq_lens_kv
dtype=f16 batch=2 num_heads=2 seq_len_q=1 seq_len_kv=512 head_dim=64 $pages
dtype=bf16 num_heads=4 seq_len_q=128 head_dim=64 sinks
dtype=f16 seq_len_q=197 head_dim=256
PROBLEMS

# cuDNN refuses other problems with its own words. For another device it answers otherwise, which
# shows that it was asked.
more_queries='seq_len_q=300 seq_len_kv=200 head_dim=64 window_right=0 diagonal=1'
asked "$h200" "softmax dtype=f16 $more_queries" >"$work/said"
grep -q 'no: cuDNN: Bottom right causal mask does not support' "$work/said" ||
  die "more queries than keys: $(cat "$work/said")"
sed 's/"deviceVer": 900/"deviceVer": 610/' "$h200" >"$work/pascal.json"
asked "$work/pascal.json" 'softmax dtype=bf16 seq_len_q=64 head_dim=64' >"$work/said"
grep -q 'no: cuDNN: ' "$work/said" || die "on a device before tensor cores: $(cat "$work/said")"
asked /nowhere.json 'softmax dtype=f16 seq_len_q=64 head_dim=64' >"$work/said"
grep -q 'no: ATTEST_CUDNN_DEVICE: /nowhere.json describes no device' "$work/said" ||
  die "no description: $(cat "$work/said")"

# Plans are kept by problem: who asks for one again waits for nothing, and who asks for a problem
# that differs in one thing gets plans of its own.
cc -std=c11 -Wall -Wextra -Werror -I"$source/harness/abi" -o "$work/query_times" \
  "$source/harness/testing/cuda/query_times.c" -ldl
env CUDNN_FRONTEND_CUDART_LIB_NAME=/nowhere/libcudart.so ATTEST_CUDNN_DEVICE="$h200" \
  LD_LIBRARY_PATH="$work/driver:$toolkit/lib64:$toolkit/lib" \
  "$work/query_times" "$plugin" >"$work/said"
awk 'NR == 1 { brief = $1 / 20 }
  ($2 == "same") != ($1 < brief) { exit 1 }
  END { if (NR != 8) exit 1 }' "$work/said" || die "plans are not kept: $(cat "$work/said")"
