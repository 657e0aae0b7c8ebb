#!/usr/bin/env bash
# Packs a bundle of this build, moves it, and uses it without anything of this machine but glibc; then what scripts/device.sh says where
# there is no GPU, and where one of its steps fails.
# usage: bundle_test.sh BUILD_DIR SOURCE_DIR FAKE_CUDA     exit code 77 (skipped) where the program has not been built
set -euo pipefail
build=$1 source=$2 fake_cuda=$3
[[ -x $build/bin/attest ]] || { echo "bin/attest has not been built"; exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
die() { echo "$*"; exit 1; }

"$source/scripts/bundle.sh" --from "$build" --no-sanitizer -o "$place/first" | tee "$place/said"
grep -qE 'MiB, needs glibc 2\.[0-9]+ or newer' "$place/said" || die "it does not say which glibc it needs"
mv "$place/first" "$place/bundle"
mkdir "$place/elsewhere"
cd "$place/elsewhere"
clean() { env -i HOME="$PWD" PATH=/usr/bin:/bin "$@"; }

# Whatever is not glibc's comes from the bundle, and needs no build folder.
for program in "$place"/bundle/bin/attest "$place"/bundle/libexec/attest/attest-worker; do
  clean env LD_TRACE_LOADED_OBJECTS=1 "$program" | awk '$2 == "=>" { print $3 }' >libraries
  if grep -vE "^$place/bundle/|/(libc|libm|libdl|libpthread|librt)\.so" libraries; then die "$program takes the libraries above from this machine"; fi
  [[ $(grep -c "^$place/bundle/" libraries) -ge 3 ]] || die "$program takes no libraries from the bundle"
done
clean "$place/bundle/bin/attest" run smoke --impl naive --dtype f32 --judge-only >/dev/null

# A folder that is no bundle is not written over, be it an installation.
mkdir -p taken/bin && touch taken/bin/attest
if "$source/scripts/bundle.sh" --from "$build" --no-sanitizer -o "$PWD/taken" 2>said; then die "it wrote over a folder of somebody's"; fi
[[ -e taken/bin/attest ]] && grep -q 'is no bundle' said

if "$source/scripts/bundle.sh" --from "$PWD/taken" -o new 2>said || [[ -e new ]]; then die "it packs what is no build"; fi
grep -q 'no build tree is there' said

status=0
clean env ATTEST_CUDA_DRIVER=/nowhere/libcuda.so.1 "$place/bundle/scripts/device.sh" -o results 2>said || status=$?
[[ $status == 4 ]] && grep -q 'no GPU' said || { cat said; die "without a GPU it exits with $status"; }
status=0
clean "$place/bundle/scripts/device.sh" --fast 2>/dev/null || status=$?
[[ $status == 64 ]] || die "an unknown argument is taken"
# A device, and no implementation for it: each step that fails is named. The checker is one that finds something in one problem, and
# under which another does not run.
mkdir "$place/bundle/sanitizer"
cat >"$place/bundle/sanitizer/compute-sanitizer" <<'CHECKER'
#!/bin/sh
for problem; do :; done
case "$2 $problem" in
  "initcheck linear"*) exit 4 ;;
  "racecheck "*cu_seqlens*) echo "race"; exit 9 ;;
esac
CHECKER
chmod +x "$place/bundle/sanitizer/compute-sanitizer"
status=0
clean env ATTEST_CUDA_DRIVER="$fake_cuda" "$place/bundle/scripts/device.sh" -o results conformance sanitizer benchmark >said 2>&1 || status=$?
[[ $status == 1 ]] && grep -q 'failed: conformance' said && grep -q 'failed: conformance as on sm_80' said && grep -q 'failed: benchmark' said || { cat said; die "failures end with $status"; }
grep -q "failed: racecheck of '.*cu_seqlens" said && grep -q '^race$' results/sanitizer.txt || { cat said; die "what the checker found is not named"; }
grep -q "failed: initcheck of 'linear" said || { cat said; die "a problem that nobody takes is passed over"; }
[[ $(grep -c '^failed' said) == 5 ]] || { cat said; die "more is named than failed"; }

# The profiler is given each implementation and problem; that it may not read the counters is said, and is no failure of what it looks at.
mkdir "$place/tools"
cat >"$place/tools/ncu" <<'PROFILER'
#!/bin/sh
cat >/dev/null  # a profiler may read what it is given
case "$*" in
  *"--impl linear_cuda"*) echo "==ERROR== ERR_NVGPUCTRPERM"; exit 3 ;;
  *"--impl flash_cuda --judge-only"*seq_len_q=197*) echo "profiled flash_cuda" ;;
esac
PROFILER
chmod +x "$place/tools/ncu"
status=0
clean env PATH="$place/tools:/usr/bin:/bin" ATTEST_CUDA_DRIVER="$fake_cuda" "$place/bundle/scripts/device.sh" -o results profile >said 2>&1 || status=$?
[[ $status == 0 ]] && grep -q 'profile: [0-9]* s, 10 runs, 0 left out' said && grep -q '^profiled flash_cuda$' results/profile.txt || { cat said; die "the profiler ends with $status"; }
grep -q "profile: exit 3 for linear_cuda on 'linear .*: ==ERROR== ERR_NVGPUCTRPERM" said || { cat said; die "what the profiler lacks is not said"; }

status=0
clean env ATTEST_CUDA_DRIVER="$fake_cuda" "$place/bundle/scripts/device.sh" -o nothing compare >said 2>&1 || status=$?
[[ $status == 64 ]] && grep -q 'nothing/benchmark.jsonl is not there' said || { cat said; die "nothing to compare ends with $status"; }

# Libraries that Python's packages alone have are found there, and only then. A loader that finds none is a ctypes that says so.
mkdir -p "$place"/site/nvidia/{cudnn,cu13}/lib "$place/blind"
touch "$place/site/nvidia/cudnn/lib/libcudnn.so.9" "$place/site/nvidia/cu13/lib/libcublas.so.13"
printf 'def CDLL(name):\n    raise OSError(name)\n' >"$place/blind/ctypes.py"
printf 'def CDLL(name):\n    return name\n' >"$place/site/ctypes.py"
if clean python3 -c ''; then
  clean env PYTHONPATH="$place/blind:$place/site" ATTEST_CUDA_DRIVER="$fake_cuda" "$place/bundle/scripts/device.sh" -o results peers >said 2>&1 || true
  for line in "ATTEST_CUDNN=$place/site/nvidia/cudnn/lib/libcudnn.so.9" "ATTEST_CUBLAS=$place/site/nvidia/cu13/lib/libcublas.so.13" \
    "LD_LIBRARY_PATH=.*$place/site/nvidia/cu13/lib:$place/site/nvidia/cudnn/lib.*"; do
    grep -qx "$line" said || { cat said; die "not found in Python's packages: $line"; }
  done
  clean env PYTHONPATH="$place/site" ATTEST_CUDA_DRIVER="$fake_cuda" "$place/bundle/scripts/device.sh" -o results peers >said 2>&1 || true
  if grep -qE '^(ATTEST|LD)_' said; then cat said; die "the machine's own libraries are passed over"; fi
else
  echo "NOT TESTED: no python3 to look for libraries with"
fi

# Comparison with what was published: the same is none the worse; a verdict that was lost, and a share of a library's time that grew, are.
device() { status=0; clean env ATTEST_CUDA_DRIVER="$fake_cuda" "$place/bundle/scripts/device.sh" -o results "$@" >said 2>&1 || status=$?; }
clean env ATTEST_CUDA_DRIVER="$fake_cuda" "$place/bundle/bin/attest" run smoke --case softmax/dense --impl naive,flash_cpu --dtype f32 \
  --relations none --budget 0.05 -o ran.jsonl >/dev/null
samples() { sed "/\"impl\":\"$1\"/s/\"samples_ns\":\[[^]]*\]/\"samples_ns\":[$2,$2,$2,$2,$2,$2,$2,$2]/"; }
sed 's/"impl":"flash_cpu"/"impl":"cudnn_cuda"/' ran.jsonl | samples naive 3e6 | samples cudnn_cuda 1e6 >published.jsonl
cp published.jsonl results/benchmark.jsonl
device compare
[[ $status == 0 ]] && grep -q 'skipped: nothing was published of this device: "name"' said || { cat said; die "nothing to compare with ends with $status"; }
device --compare published.jsonl compare
[[ $status == 0 ]] && grep -q 'SAME x1.000' results/compare_cudnn_cuda.txt || { cat said; die "what is the same ends with $status"; }
samples cudnn_cuda 2e6 <published.jsonl >results/benchmark.jsonl  # a slower day: the library's fault
device --compare published.jsonl compare
[[ $status == 0 ]] && grep -q 'FASTER x0.500' said || { cat said; die "what is faster ends with $status"; }
samples naive 4e6 <published.jsonl | sed 's/"plugin_hash":"[0-9a-f]*"/"plugin_hash":"1111111111111111"/' \
  >results/benchmark.jsonl  # of another build: times of one build are the machine's
device --compare published.jsonl compare
[[ $status == 1 ]] && grep -q 'failed: compare with cudnn_cuda' said && grep -q 'SLOWER x1.333' said || { cat said; die "what is slower ends with $status"; }
sed '/"impl":"naive"/s/"verdict":"pass"/"verdict":"fail"/g' published.jsonl >results/benchmark.jsonl
device --compare published.jsonl compare
[[ $status == 1 ]] && grep -q '^failed: compare$' said && grep -q 'pass -> fail' said || { cat said; die "what passes no more ends with $status"; }
device --compare nowhere.jsonl compare
[[ $status == 64 ]] && grep -q 'nowhere.jsonl: is not there' said
# Of several devices, those of this one are taken by themselves.
mkdir -p "$place/bundle/reports/published"
cp published.jsonl "$place/bundle/reports/published/device_this.jsonl"
sed '1s/"cuda":{\(.*\)"name":"[^"]*"/"cuda":{\1"name":"another"/; s/"verdict":"fail"/"verdict":"pass"/g' results/benchmark.jsonl >"$place/bundle/reports/published/device_other.jsonl"
device compare
[[ $status == 1 ]] && grep -q 'pass -> fail' said || { cat said; die "what was published is not found"; }
rm "$place/bundle/reports/published/device_this.jsonl"
device compare
[[ $status == 0 ]] && grep -q 'skipped: nothing was published' said || { cat said; die "another device is compared with"; }
