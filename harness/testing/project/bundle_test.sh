#!/usr/bin/env bash
# Packs a bundle of this build, moves it, and uses it without anything of this machine but glibc.
# Then it tests what scripts/device.sh says where there is no GPU, and where one of its steps
# fails.
# usage: bundle_test.sh BUILD_DIR SOURCE_DIR FAKE_CUDA
# Exit code 77 (skipped): the program has not been built.
set -euo pipefail
build=$1 source=$2 fake_cuda=$3
[[ -x $build/bin/attest ]] || { echo "bin/attest has not been built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "$*"; exit 1; }
fail() { cat said; die "$*"; }  # with what the last command said

"$source/scripts/bundle.sh" --from "$build" --no-sanitizer -o "$work/first" | tee "$work/said"
grep -qE 'MiB, needs glibc 2\.[0-9]+ or newer' "$work/said" ||
  die "it does not say which glibc it needs"
mv "$work/first" "$work/bundle"
mkdir "$work/elsewhere"
cd "$work/elsewhere"
# Threads that wait sleep, as in other tests.
clean() { env -i HOME="$PWD" PATH=/usr/bin:/bin OMP_WAIT_POLICY=passive "$@"; }
# device ARGUMENT...: device.sh with the fake driver; sets `status`, writes what it says to `said`.
# Programs in $tools come first.
tools=
device() {
  status=0
  clean env PATH="${tools:+$tools:}/usr/bin:/bin" ATTEST_CUDA_DRIVER="$fake_cuda" \
    "$work/bundle/scripts/device.sh" "$@" >said 2>&1 || status=$?
}

# All libraries but glibc's come from the bundle, and no build folder is needed.
for program in "$work"/bundle/bin/attest "$work"/bundle/libexec/attest/attest-worker; do
  clean env LD_TRACE_LOADED_OBJECTS=1 "$program" | awk '$2 == "=>" { print $3 }' >libraries
  if grep -vE "^$work/bundle/|/(libc|libm|libdl|libpthread|librt)\.so" libraries; then
    die "$program takes the libraries above from this machine"
  fi
  [[ $(grep -c "^$work/bundle/" libraries) -ge 3 ]] ||
    die "$program takes no libraries from the bundle"
done
clean "$work/bundle/bin/attest" run smoke --case softmax/dense --impl naive --dtype f32 \
  --judge-only >/dev/null

# Each library that is packed is missed where it is not.
. "$source/scripts/symbols.sh"
bundled=$(find "$work/bundle" -type d -path '*/attest/bundled')
mapfile -t files < <(find "$work"/bundle/{bin,lib*} -type f)
[[ -z $(lacking "$bundled" "${files[@]}") ]] || die "it lacks libraries, and bundle.sh says nothing"
[[ $(lacking "$work/elsewhere" "${files[@]}") == *"attest needs libxxhash.so"* ]] ||
  die "a library that is missing is not missed"

# A folder that is not a bundle is not overwritten, not even an installation.
mkdir -p taken/bin && touch taken/bin/attest
if "$source/scripts/bundle.sh" --from "$build" --no-sanitizer -o "$PWD/taken" 2>said; then
  die "it overwrote somebody's folder"
fi
[[ -e taken/bin/attest ]] && grep -q 'is no bundle' said

if "$source/scripts/bundle.sh" --from "$PWD/taken" -o new 2>said || [[ -e new ]]; then
  die "it packs a folder that is not a build"
fi
grep -q 'no build tree is there' said

status=0
clean env ATTEST_CUDA_DRIVER=/nowhere/libcuda.so.1 \
  "$work/bundle/scripts/device.sh" -o results 2>said || status=$?
[[ $status == 4 ]] && grep -q 'no GPU' said || fail "without a GPU it exits with $status"
status=0
clean "$work/bundle/scripts/device.sh" --fast 2>/dev/null || status=$?
[[ $status == 64 ]] || die "an unknown argument is taken"

# A source tree where nothing can be installed: the bundle is the way, and one line says so.
mkdir -p tree/scripts
cp "$source"/scripts/{device,steps}.sh tree/scripts
printf 'exit 4\n' >tree/scripts/setup.sh
status=0
clean env ATTEST_CUDA_DRIVER="$fake_cuda" tree/scripts/device.sh >said 2>&1 || status=$?
[[ $status == 4 ]] && grep -q 'wants a bundle: run scripts/bundle.sh where packages are' said ||
  fail "a source tree that cannot be set up ends with $status"

# device.sh asks `attest doctor` for a device each time, which measures the whole machine. From here
# on a stand-in prints what doctor printed then.
clean env ATTEST_CUDA_DRIVER="$fake_cuda" "$work/bundle/bin/attest" doctor \
  >"$work/doctor.txt" || true
mv "$work/bundle/bin/attest" "$work/bundle/bin/attest-with-doctor"
cat >"$work/bundle/bin/attest" <<DOCTOR
#!/bin/bash
[[ \$* == doctor ]] && exec cat '$work/doctor.txt'
exec '$work/bundle/bin/attest-with-doctor' "\$@"
DOCTOR
chmod +x "$work/bundle/bin/attest"

# With a device, and no implementation for it, each step that fails is named. The checker finds
# something in one problem and does not run another. The machine's own is taken, not the bundle's.
mkdir "$work/bundle/sanitizer" "$work/tools"
printf '#!/bin/sh\ntouch %s/bundled\n' "$work" >"$work/bundle/sanitizer/compute-sanitizer"
cat >"$work/tools/compute-sanitizer" <<'CHECKER'
#!/bin/sh
for problem; do :; done
case "$2 $problem" in
  "initcheck linear"*) exit 4 ;;
  "racecheck "*cu_seqlens*) echo "Error: Race reported between flash::attend"; exit 9 ;;
  "racecheck "*head_dim=128) echo "Error: Race reported between flash_sm90::attend"; exit 9 ;;
esac
CHECKER
# The profiler gets each implementation and problem. If it may not read the counters, the script
# says so, and that is no failure.
cat >"$work/tools/ncu" <<'PROFILER'
#!/bin/sh
cat >/dev/null  # a profiler may read what it is given
case "$*" in
  *"--impl linear_cuda"*) echo "==ERROR== ERR_NVGPUCTRPERM"; exit 3 ;;
  *"--impl flash_cuda --judge-only"*seq_len_q=197*) echo "profiled flash_cuda" ;;
esac
PROFILER
chmod +x "$work/bundle/sanitizer/compute-sanitizer" "$work"/tools/*
tools=$work/tools device -o results conformance sanitizer benchmark
[[ $status == 1 ]] && grep -q 'failed: conformance suites: attest exits with 64' said &&
  grep -q 'failed: conformance sm_80: attest exits' said &&
  grep -q 'failed: benchmark: attest exits' said || fail "failures end with $status"
grep -q "failed: racecheck of '.*cu_seqlens" said && grep -q '^Error: Race' results/log.txt ||
  fail "what the checker found is not named"
grep -q "^finding: racecheck of '.*head_dim=128': 1 in flash_sm90" said ||
  fail "what racecheck cannot know is not told"
grep -q "failed: initcheck of 'linear" said || fail "a problem that nobody takes is passed over"
[[ $(grep -c '^failed' said) == 8 ]] || fail "more is named than failed"
[[ ! -e $work/bundled ]] || fail "the machine's own checker is passed over"
[[ $(find results -type f | wc -l) -le 8 && -s results/conformance.tar.gz ]] ||
  fail "more files than come back from some machines: $(ls results)"

tools=$work/tools device -o results profile
[[ $status == 0 ]] && grep -q 'profile: [0-9]* s, 11 runs, 0 left out' said &&
  grep -q '^profiled flash_cuda$' results/profile.txt || fail "the profiler ends with $status"
grep -q "profile: exit 3 for linear_cuda on 'linear .*: ==ERROR== ERR_NVGPUCTRPERM" said ||
  fail "what the profiler lacks is not said"
device --seconds 1 -o results conformance benchmark
[[ $status == 1 ]] || fail "without time it ends with $status"
device --seconds 0 -o results benchmark
[[ $status == 64 ]] && grep -q 'not a number of seconds' said || fail "0 seconds are taken"

device -o nothing compare
[[ $status == 64 ]] && grep -q 'nothing/benchmark.jsonl is not there' said ||
  fail "nothing to compare ends with $status"

# Libraries are found in Python's packages if they are nowhere else, and only then. A ctypes that
# raises stands for a loader that finds none.
mkdir -p "$work"/site/nvidia/{cudnn,cu13}/lib "$work/blind"
nvidia=$work/site/nvidia
touch "$nvidia/cudnn/lib/libcudnn.so.9" "$nvidia/cu13/lib/libcublas.so.13"
printf 'def CDLL(name):\n    raise OSError(name)\n' >"$work/blind/ctypes.py"
printf 'def CDLL(name):\n    return name\n' >"$work/site/ctypes.py"
if clean python3 -c ''; then
  peers() {  # peers PYTHONPATH
    clean env PYTHONPATH="$1" ATTEST_CUDA_DRIVER="$fake_cuda" \
      "$work/bundle/scripts/device.sh" -o results peers >said 2>&1 || true
  }
  peers "$work/blind:$work/site"
  for line in "ATTEST_CUDNN=$nvidia/cudnn/lib/libcudnn.so.9" \
    "ATTEST_CUBLAS=$nvidia/cu13/lib/libcublas.so.13" \
    "LD_LIBRARY_PATH=$nvidia/cu13/lib:$nvidia/cudnn/lib"; do
    grep -qx "$line" said || fail "not found in Python's packages: $line"
  done
  peers "$work/site"
  if grep -qE '^(ATTEST|LD)_' said; then fail "the machine's own libraries are passed over"; fi
  # A newer cuDNN is taken before the loader's, unless cudnn_cuda says that it is of no use.
  cat >"$work/site/ctypes.py" <<'LOADER'
class CDLL:
    def __init__(self, name):
        self.cudnnGetVersion = lambda: 91900 if "/" in name else 91400
LOADER
  peers "$work/site"
  grep -qx "ATTEST_CUDNN=$nvidia/cudnn/lib/libcudnn.so.9" said &&
    grep -qx 'cudnn_cuda loads cuDNN 9.19.0' said || fail "an older cuDNN is taken"
  mv "$work/bundle/bin/attest" "$work/bundle/bin/attest-itself"
  cat >"$work/bundle/bin/attest" <<'LISTS'
#!/bin/bash
[[ $* == list*--for* ]] || exec "$(dirname "$0")/attest-itself" "$@"
echo 'cudnn_cuda no: cuDNN: a library is of another version'
LISTS
  chmod +x "$work/bundle/bin/attest"
  peers "$work/site"
  mv "$work/bundle/bin/attest-itself" "$work/bundle/bin/attest"
  grep -q 'libcudnn.so.9 is not taken: cuDNN: a library is of another version' said &&
    grep -qx 'cudnn_cuda loads cuDNN 9.14.0' said || fail "a cuDNN of no use is taken"
else
  echo "NOT TESTED: no python3 to look for libraries with"
fi

# Comparison with what was published. Equal records are not worse; a lost verdict is, and so is a
# larger share of a library's time.
compare() { device -o results "$@" compare; }
clean env ATTEST_CUDA_DRIVER="$fake_cuda" "$work/bundle/bin/attest" run smoke \
  --case softmax/dense --impl naive,flash_cpu --dtype f32 --relations none --budget 0.05 \
  -o ran.jsonl >/dev/null
samples() {  # samples IMPLEMENTATION NANOSECONDS: sets its times in the records on standard input
  sed "/\"impl\":\"$1\"/s/\"samples_ns\":\[[^]]*\]/\"samples_ns\":[$2,$2,$2,$2,$2,$2,$2,$2]/"
}
sed 's/"impl":"flash_cpu"/"impl":"cudnn_cuda"/' ran.jsonl |
  samples naive 3e6 | samples cudnn_cuda 1e6 >published.jsonl
cp published.jsonl results/benchmark.jsonl
compare
[[ $status == 0 ]] && grep -q 'skipped: nothing was published of this device: "name"' said ||
  fail "nothing to compare with ends with $status"
compare --compare published.jsonl
[[ $status == 0 ]] && grep -q 'SAME x1.000' said ||
  fail "equal records end with $status"
samples cudnn_cuda 2e6 <published.jsonl >results/benchmark.jsonl  # the library was slower that day
compare --compare published.jsonl
[[ $status == 0 ]] && grep -q 'FASTER x0.500' said || fail "a faster kernel ends with $status"
# Another build: times of the same build differ only by the machine.
samples naive 4e6 <published.jsonl |
  sed 's/"plugin_hash":"[0-9a-f]*"/"plugin_hash":"1111111111111111"/' >results/benchmark.jsonl
compare --compare published.jsonl
[[ $status == 1 ]] && grep -q 'failed: compare with cudnn_cuda' said &&
  grep -q 'SLOWER x1.333' said || fail "a slower kernel ends with $status"
sed '/"impl":"naive"/{s/"verdict":"pass"/"verdict":"fail"/g; s/"code":""/"code":"fail:nan"/g}' \
  published.jsonl >results/benchmark.jsonl
compare --compare published.jsonl
[[ $status == 1 ]] && grep -q '^failed: compare$' said && grep -q 'pass -> fail' said ||
  fail "a lost verdict ends with $status"
compare --compare nowhere.jsonl
[[ $status == 64 ]] && grep -q 'nowhere.jsonl: is not there' said

# Of the records of several devices, those of this one are chosen by themselves.
published=$work/bundle/reports/published
mkdir -p "$published"
cp published.jsonl "$published/device_this.jsonl"
sed '1s/"cuda":{\(.*\)"name":"[^"]*"/"cuda":{\1"name":"another"/
  s/"verdict":"fail"/"verdict":"pass"/g; s/"code":"fail:nan"/"code":""/g' \
  results/benchmark.jsonl >"$published/device_other.jsonl"
compare
[[ $status == 1 ]] && grep -q 'pass -> fail' said || fail "what was published is not found"
rm "$published/device_this.jsonl"
compare
[[ $status == 0 ]] && grep -q 'skipped: nothing was published' said ||
  fail "it compares with another device"

# What libraries get wrong is a finding; what attest's own implementations get wrong, and errors of
# attest, are failures. A program that writes these records stands in for attest.
mv "$work/bundle/bin/attest" "$work/bundle/bin/attest-itself"
cat >"$work/bundle/bin/attest" <<'RECORDS'
#!/bin/bash
case $1 in
  doctor) echo 'ok    CUDA  a stand-in'; exit ;;
  list) printf '%s  its summary\n' cublas_cuda cudnn_cuda flash_cuda; exit ;;
  run) ;;
  *) exec "$(dirname "$0")/attest-itself" "$@" ;;
esac
for word; do
  case ${last:-} in
    -o) cp records.jsonl "$word" ;;
    --records) cp "$word" asked ;;
    --impl) echo "$word" >chosen ;;
  esac
  last=$word
done
exit 1
RECORDS
chmod +x "$work/bundle/bin/attest"
wrong() {  # wrong IMPLEMENTATION VERDICT CODE: in the records on standard input
  sed "/\"impl\":\"$1\"/{s/\"verdict\":\"pass\"/\"verdict\":\"$2\"/g
    s/\"code\":\"\"/\"code\":\"$3\"/g}"
}
sed 's/"impl":"naive"/"impl":"flash_cuda"/' published.jsonl >both.jsonl
wrong cudnn_cuda fail fail:hidden-nan <both.jsonl >records.jsonl
device -o results benchmark
[[ $status == 0 ]] && grep -q '^finding: benchmark: cudnn_cuda: fail:hidden-nan in 1$' said ||
  fail "a library's verdict ends with $status"
[[ $(head -1 asked) == 'gpu/dense_4k/head_dim_64 bf16 flash_cuda' &&
  $(tail -1 asked) == 'gpu/decode_'*' f16 cudnn_cuda' ]] &&
  grep -qx 'gpu/vit_b_16_224/batch_32 f16 cudnn_cuda' asked &&
  grep -qx 'gpu/vit_b_16_224/batch_32 bf16 cublas_cuda' asked ||
  die "what the benchmark times: $(cat asked)"
[[ $(cat chosen) == flash_cuda,cudnn_cuda,cublas_cuda ]] ||
  die "it asks for implementations that this build does not have: $(cat chosen)"
if grep -E 'dense_64k.* f16|dense_64k.* cublas|^gpu/gpu|linear_cuda' asked; then
  die "it asks for records that the suite does not have, or that take too long"
fi
device -o results conformance
[[ $status == 0 ]] && grep -q '^finding: conformance suites: cudnn_cuda: fail:hidden-nan' said ||
  fail "a library's verdict in conformance ends with $status"
wrong cudnn_cuda error error:tolerance-model <both.jsonl >records.jsonl
device -o results benchmark
errors='^failed: benchmark: errors of attest: error:tolerance-model in 1'
[[ $status == 1 ]] && grep -q "$errors" said ||
  fail "an error of attest beside a library ends with $status"
wrong flash_cuda fail fail:nan <both.jsonl >records.jsonl
device -o results benchmark
[[ $status == 1 ]] && grep -q '^failed: benchmark$' said &&
  grep -q 'flash_cuda: verdict: fail' said ||
  fail "an own implementation that fails ends with $status"
