#!/usr/bin/env bash
# Runs every check that needs a GPU: benchmark, PyTorch as a peer, conformance of the CUDA
# implementations, bugs planted in kernels, compute-sanitizer, what limits the kernels (ncu), and a
# comparison with the records published of this device.
# All that takes at most nine minutes, counted from the start of this script. In a source tree
# set-up and build come before and do not count; a bundle (scripts/bundle.sh) is built already.
# What the time does not suffice for is named.
#   scripts/device.sh                        every step, into device-results/
#   scripts/device.sh -o FOLDER STEP ...     some of the steps: benchmark peers conformance mutants
#                                            sanitizer profile compare
#   scripts/device.sh --seconds N ...        takes at most N seconds, not 540; the steps share them
#   scripts/device.sh --compare FILE ...     compares with these records, not with those in
#                                            reports/published/device_*.jsonl of the same device
#   scripts/device.sh -o FOLDER compare      compares what an earlier call left in FOLDER
# FOLDER gets at most eight files: log.txt (what the steps print), benchmark.jsonl, benchmark.md,
# peers.jsonl, conformance.tar.gz, profile.txt, compare.json and compare_cudnn_cuda.json.
# To publish: cp FOLDER/benchmark.jsonl reports/published/device_h100.jsonl
# What cuDNN and cuBLAS get wrong is a finding, not a failure: it is printed, and in the records.
# Exit codes: 0; 1 if something failed, and it is named; 4 if there is no GPU, or the build fails;
# 64 for wrong arguments.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/steps.sh"
all_steps=(benchmark peers conformance mutants sanitizer profile compare)
out=device-results steps=() published=() seconds=540
while (($#)); do
  case $1 in
    -o | --compare | --seconds)
      [[ -n ${2:-} ]] || { echo "device.sh: $1 needs a value" >&2; exit 64; } ;;
  esac
  case $1 in
    -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -o) out=$2; shift ;;
    --seconds)
      seconds=$2
      is_seconds "$2" ||
        { echo "device.sh: --seconds $2: not a number of seconds" >&2; exit 64; }
      shift ;;
    --compare)
      published+=("$2")
      [[ -e $2 ]] || { echo "device.sh: --compare $2: is not there" >&2; exit 64; }
      shift ;;
    conformance | benchmark | peers | profile | sanitizer | mutants | compare) steps+=("$1") ;;
    *)
      echo "device.sh: $1: unknown; -o FOLDER, --seconds N, --compare FILE and some of:" \
        "${all_steps[*]}" >&2
      exit 64 ;;
  esac
  shift
done
((${#steps[@]})) || steps=("${all_steps[@]}")

if [[ "${steps[*]}" == compare && ! -e $out/benchmark.jsonl ]]; then
  echo "device.sh: compare: $out/benchmark.jsonl is not there; the step benchmark writes it" >&2
  exit 64
fi

attest=$root/bin/attest planted=$root/lib/attest/mutants suites=$root/share/attest/suites
if [[ ! -x $attest ]]; then
  # Stops before set-up and build, which take long. The fake driver of the tests counts as a GPU.
  if [[ "${steps[*]}" != compare && -z ${ATTEST_CUDA_DRIVER:-} &&
    ! -e /dev/nvidiactl && ! -e /dev/nvhost-ctrl && ! -e /dev/dxg ]]; then
    echo "device.sh: no GPU: neither /dev/nvidiactl nor /dev/nvhost-ctrl (Jetson) nor" \
      "/dev/dxg (WSL) is there" >&2
    exit 4
  fi
  attest=$root/build/release/bin/attest planted=$root/build/release/mutants suites=$root/suites
  if ! bash "$root/scripts/setup.sh"; then
    echo "device.sh: a machine that cannot install packages wants a bundle: run" \
      "scripts/bundle.sh where packages are, and copy its folder here" >&2
    exit 4
  fi
  bash "$root/scripts/cuda_packages.sh" ||
    echo "device.sh: goes on without cudnn_cuda and compute-sanitizer" >&2
  [[ -e $root/build/release/build.ninja ]] ||
    (cd "$root" && cmake --preset release -DATTEST_TESTS=OFF) || exit 4
  cmake -S "$root" -B "$root/build/release" -DATTEST_CUDA_MUTANTS=ON >/dev/null || exit 4
  cmake --build "$root/build/release" --parallel "$(nproc)" || exit 4
  SECONDS=0
fi
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
timeout 30 "$attest" doctor >"$work/doctor.txt" || true
if [[ "${steps[*]}" != compare ]] && ! grep -q '^ok *CUDA ' "$work/doctor.txt"; then
  why=$(grep -m 1 '^none *CUDA ' "$work/doctor.txt" | sed 's/^none *CUDA *//')
  echo "device.sh: no GPU: $why" >&2
  exit 4
fi

# PyTorch's packages may have the only cuDNN, cuBLAS and compiler for cuDNN of a machine. Where the
# loader finds none, or an older cuDNN, those of Python's packages are taken, and LD_LIBRARY_PATH
# names their folders for what they load themselves.
path_before=${LD_LIBRARY_PATH:-}
libraries=$(python3 - 2>/dev/null <<'PYTHON' || true
import ctypes, glob, importlib.util, os

def loads(name):
    try:
        return bool(ctypes.CDLL(name))
    except OSError:
        return False

def cudnn_version(name):
    try:
        return int(ctypes.CDLL(name).cudnnGetVersion())
    except (AttributeError, OSError):
        return 0

found = importlib.util.find_spec("nvidia")
packages = found.submodule_search_locations if found else []
folders = sorted(folder for package in packages for folder in glob.glob(f"{package}/*/lib"))
wanted = {
    "ATTEST_CUDNN": ["libcudnn.so.9"],
    "ATTEST_CUBLAS": ["libcublas.so.13", "libcublas.so.12", "libcublas.so.11"],
    "CUDNN_FRONTEND_CUDART_LIB_NAME": ["libcudart.so.13", "libcudart.so.12"],
}
taken = False
for variable, names in wanted.items():
    files = [f"{folder}/{name}" for name in names for folder in folders
             if os.path.exists(f"{folder}/{name}")][:1]
    if not files or os.environ.get(variable):
        continue
    newer = variable == "ATTEST_CUDNN" and cudnn_version(names[0]) < cudnn_version(files[0])
    if newer or not any(map(loads, names)):
        taken = True
        print(f"{variable}={files[0]}")
if taken:
    path = os.environ.get("LD_LIBRARY_PATH")
    print("LD_LIBRARY_PATH=" + ":".join(folders + ([path] if path else [])))
PYTHON
)
while IFS='=' read -r variable file; do
  if [[ -n $variable ]]; then export "$variable=$file"; echo "$variable=$file"; fi
done <<<"$libraries"
# What cannot be used there, for lack of something else, gives way to the loader's own.
if [[ $libraries == *ATTEST_CUDNN=* ]]; then
  answer=$("$attest" list --impl cudnn_cuda \
    --for 'softmax dtype=f16 num_heads=2 seq_len_q=64 head_dim=64' 2>&1 || true)
  if [[ $answer == *cudnn_cuda*' no: '* ]]; then
    echo "$ATTEST_CUDNN is not taken: ${answer#* no: }"
    unset ATTEST_CUDNN
    export LD_LIBRARY_PATH=$path_before
  fi
fi
cudnn=$(python3 - 2>/dev/null <<'PYTHON' || true
import ctypes, os
number = ctypes.CDLL(os.environ.get("ATTEST_CUDNN", "libcudnn.so.9")).cudnnGetVersion()
print(f"cudnn_cuda loads cuDNN {number // 10000}.{number // 100 % 100}.{number % 100}")
PYTHON
)

# What each step may take of the time, relative to the others that were asked for.
declare -A parts=([benchmark]=190 [peers]=75 [conformance]=125 [mutants]=60 [sanitizer]=60
  [profile]=60 [compare]=20)
add_parts "${steps[@]}"

# Checks go side by side, but not all at once: CUDA contexts are made one after the other.
most_jobs=$((($(nproc) + 3) / 4))
# start COMMAND...: runs the command in the background, when there is room for it.
start() {
  while (($(jobs -rp | wc -l) >= most_jobs)); do wait -n || true; done
  "$@" &
}

own=$(IFS=, && echo "${cuda_implementations[*]}") libraries=("${cuda_libraries[@]}")
write_rules

# What the benchmark times, the most important first: bf16, then f16, and of each the decoding cases
# last, since gigabytes of keys take long to make. cublas_cuda, with its score matrix in memory, is
# 10 to 30 times slower, so it does not get the longest rows.
# timed_records IMPLEMENTATION...
timed_records() {
  local dtype line name impl cases
  cases=$(sed -n '/"cases"/,$p' "$suites/gpu.json")
  cases=$(grep -v '"decode_' <<<"$cases")$'\n'$(grep '"decode_' <<<"$cases")
  for dtype in bf16 f16; do
    while read -r line; do
      [[ $line =~ \"name\":\ \"([^\"]+)\" ]] || continue
      name=${BASH_REMATCH[1]}
      if [[ $line == *'"dtypes":'* && $line != *"\"$dtype\""* ]]; then continue; fi
      for impl; do
        if [[ $impl != cublas_cuda ]] ||
          [[ $dtype == bf16 && ! $name =~ ^(dense_(16|32|64|128)k|decode_|bev_) ]]; then
          echo "gpu/$name $dtype $impl"
        fi
      done
    done <<<"$cases"
  done
}
benchmark() {
  local limit impls goldens=()
  limit=$(left 190)
  # The device's goldens have all rows of 16,384 tokens, and take half of the time. With less time
  # the host computes those of some rows instead.
  if ((limit < 170)); then goldens=(--host-golden); fi
  impls=$(present flash_cuda,window_cuda,linear_cuda,deformable_cuda,cudnn_cuda,cublas_cuda)
  timed_records ${impls//,/ } >"$work/records.txt"
  run_within benchmark "$limit" "$attest" run "$suites/gpu.json" \
    --impl "$impls" --records "$work/records.txt" --fill random --relations none --budget 0.2 \
    --timeout 20 ${goldens[@]+"${goldens[@]}"} \
    -o "$out/benchmark.jsonl" --overwrite --table "$out/benchmark.md"
  judge benchmark "$out/benchmark.jsonl"
}

peers() {
  local limit
  limit=$(left 60)
  if ! python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    echo "peers: skipped: python3 has no PyTorch that sees the GPU"
    return
  fi
  step peers 75 python3 "$root/scripts/device_peers.py" "$suites/gpu.json" \
    "$out/peers.jsonl" "$limit"
}

# conform NAME SECONDS ARGUMENT...: judges the quick cases of suites. Relations need processes of
# their own, and each makes a CUDA context, which takes longer than most runs.
conform() {
  local name=$1 limit
  limit=$(left "$2")
  shift 2
  run_within "conformance $name" "$limit" "$attest" run "$@" --quick --judge-only --timeout 30 \
    -o "$work/conformance/$name.jsonl" --overwrite
  judge "conformance $name" "$work/conformance/$name.jsonl"
}
conformance() {
  rm -rf "$work/conformance"
  mkdir "$work/conformance"
  conform suites 80 smoke windows vit bev lidar decode matching masks stress multiscale \
    --dtype f16,bf16 --relations none \
    --impl "$(present flash_cuda,window_cuda,linear_cuda,deformable_cuda,cudnn_cuda)"
  # The kernels of flash_cuda for devices before sm_90.
  ATTEST_CUDA_CAPABILITY=80 conform sm_80 15 smoke --dtype f16,bf16 --relations none \
    --impl flash_cuda
  conform relations 30 smoke --impl "$(present $own,cublas_cuda)"
  goldens "$work"/conformance/*.jsonl
  tar czf "$out/conformance.tar.gz" -C "$work" conformance
}

# goldens RESULTS...: how many goldens the device computed. One that the host refused is a fault of
# the golden's kernels, or of the device; some terms of tokens are always found by the host.
goldens() {
  local refused made
  refused=$(grep -hos 'the golden is the host.s; that of [^"]*' "$@" |
    grep -v 'are found by the host' | sort -u | head -3 || true)
  made=$(cat "$@" 2>/dev/null | grep -o '"golden_device":' | wc -l || true)
  echo "goldens: $made made on the device${refused:+, some refused}"
  if [[ -n $refused ]]; then failed+=("a golden on the device: $refused"); fi
}

# Problems of at most 512 tokens, on which kernels run under each of compute-sanitizer's tools. The
# first ones cover every implementation.
swin='window_height=7 window_width=7 shift_y=3 shift_x=3 rel_bias'
masks='mask=[1,1,61,61] bias=f32[1,1,61,61]'
pages='page_size=16 page_table seq_lens_kv'
long_keys='seq_len_q=130 seq_len_kv=300'
problems=(
  'softmax dtype=f16 num_heads=2 seq_len_q=197 head_dim=64 lse'
  # It has enough tiles for the kernels of sm_90:
  "softmax dtype=f16 batch=2 num_heads=40 $long_keys head_dim=64 seq_lens_kv window_right=0 lse"
  "softmax dtype=f16 num_heads=3 seq_len_q=196 head_dim=32 grid_height=14 grid_width=14 $swin"
  'linear dtype=f16 num_heads=2 seq_len_q=400 head_dim=64'
  'softmax dtype=f16 num_heads=2 seq_len_q=330 head_dim=16 patch_size=150 order'
  "softmax dtype=bf16 num_heads=80 $long_keys head_dim=128"
  "softmax dtype=f32 num_heads=2 seq_len_q=61 head_dim=32 $masks softcap=20"
  "softmax dtype=f16 batch=2 num_heads=2 seq_len_q=1 seq_len_kv=512 head_dim=64 $pages"
  'softmax dtype=f16 batch=3 num_heads=2 seq_len_q=96 head_dim=64 cu_seqlens_q cu_seqlens_kv'
  "softmax dtype=bf16 num_heads=4 num_kv_heads=2 $long_keys head_dim=128 window_right=0 diagonal=1"
  'linear dtype=f16 batch=8 seq_len_q=40 head_dim=16'
  'linear dtype=bf16 seq_len_q=70 head_dim=128'
  'deformable dtype=f16 seq_len_q=70 head_dim_v=32 num_points=4 level_height_0=9 level_width_0=14')
# A machine's own compute-sanitizer fits its driver best.
find_checker() {
  local candidate
  checker=
  for candidate in "$(command -v compute-sanitizer || true)" /usr/local/cuda/bin/compute-sanitizer \
    "$root"/{,build/cuda-packages/}sanitizer/compute-sanitizer; do
    if [[ -x $candidate ]]; then checker=$candidate; break; fi
  done
}
# check NUMBER TOOL PROBLEM: what a tool says of the kernels, into NUMBER.txt. racecheck does not
# see that mbarriers written as PTX, as in flash_sm90, order accesses: what it reports of that
# kernel alone is a finding.
check() {
  local status=0
  echo "== $2: $3" >"$work/checks/$1.txt"
  # Exit code 4 is a failure too: some implementation takes each problem.
  timeout --kill-after=10 "$(left 40)" \
    "$checker" --tool "$2" --target-processes all --error-exitcode 9 --print-limit 20 \
    "$attest" repro --impl $own --judge-only --relations none --fill random --timeout 30 "$3" \
    >>"$work/checks/$1.txt" 2>&1 </dev/null || status=$?
  grep 'Race reported' "$work/checks/$1.txt" >"$work/checks/$1.races" || true
  if ((status == 9)) && [[ $2 == racecheck && -s $work/checks/$1.races ]] &&
    ! grep -qv flash_sm90 "$work/checks/$1.races"; then
    echo "finding: racecheck of '$3': $(wc -l <"$work/checks/$1.races") in flash_sm90"
  elif ((status == 124 || status == 137)); then
    echo "$2 of '$3': its time was over"
  elif ((status)); then
    echo "$2 of '$3'" >"$work/checks/$1.failed"
  fi
}
sanitizer() {
  local limit tool problem checker failure started=$SECONDS runs=0 missed=0
  limit=$(left 45)
  find_checker
  if [[ -z $checker ]]; then
    echo "sanitizer: skipped: compute-sanitizer is neither in PATH, nor in /usr/local/cuda/bin," \
      "nor in the bundle"
    return
  fi
  rm -rf "$work/checks"
  mkdir "$work/checks"
  for tool in memcheck racecheck synccheck initcheck; do
    for problem in "${problems[@]}"; do
      if ((SECONDS - started >= limit)); then missed=$((missed + 1)); continue; fi
      runs=$((runs + 1))
      start check "$(printf %02d $runs)" $tool "$problem"
    done
  done
  wait
  for failure in "$work"/checks/*.failed; do
    if [[ -e $failure ]]; then failed+=("$(cat "$failure")"); fi
  done
  cat "$work"/checks/*.txt
  echo "sanitizer: $((SECONDS - started)) s, $runs runs, $missed left out after $limit s"
}

# Bugs that the judge or racecheck must see on this device.
mutants() {
  local checker
  if [[ ! -d $planted ]]; then
    echo "mutants: skipped: this build has no kernels with planted bugs (-DATTEST_CUDA_MUTANTS=ON)"
    return
  fi
  find_checker
  step mutants 60 bash "$root/scripts/device_mutants.sh" --seconds "$(left 45)" \
    "$attest" "$planted" $checker
}

# What limits each kernel, by the hardware's counters, on problems whose runs are short.
profile() {
  local profiler impl problem limit started=$SECONDS runs=0 missed=0
  limit=$(left 60)
  profiler=$(command -v ncu || ls /usr/local/cuda/bin/ncu 2>/dev/null || true)
  if [[ -z $profiler ]]; then
    echo "profile: skipped: ncu (Nsight Compute) is neither in PATH nor in /usr/local/cuda/bin"
    return
  fi
  : >"$out/profile.txt"
  while read -r impl problem; do
    if ((SECONDS - started >= limit)); then missed=$((missed + 1)); continue; fi
    runs=$((runs + 1))
    echo "== $impl: $problem" >>"$out/profile.txt"
    timeout --kill-after=10 "$(left 30)" "$profiler" --clock-control none --target-processes all \
      --kernel-name 'regex:attend|sum_keys|read_queries|sample|sdpa|flash|fmha' --launch-count 2 \
      --section SpeedOfLight --section Occupancy --section WarpStateStats \
      --section ComputeWorkloadAnalysis \
      "$attest" repro --impl "$impl" --judge-only --relations none --fill random "$problem" \
      >>"$out/profile.txt" 2>&1 </dev/null ||
      echo "profile: exit $? for $impl on '$problem':" \
        "$(grep '==ERROR==' "$out/profile.txt" | tail -1)"
  done <<PROBLEMS
flash_cuda softmax dtype=bf16 num_heads=16 seq_len_q=8192 head_dim=128
cudnn_cuda softmax dtype=bf16 num_heads=16 seq_len_q=8192 head_dim=128
flash_cuda softmax dtype=f16 batch=32 num_heads=12 seq_len_q=197 head_dim=64
cudnn_cuda softmax dtype=f16 batch=32 num_heads=12 seq_len_q=197 head_dim=64
window_cuda softmax dtype=f16 batch=64 num_heads=4 seq_len_q=3136 head_dim=32 \
grid_height=56 grid_width=56 $swin
window_cuda softmax dtype=f16 num_heads=4 seq_len_q=131072 head_dim=16 patch_size=1024
flash_cuda softmax dtype=bf16 num_heads=16 seq_len_q=8192 head_dim=64
flash_cuda softmax dtype=bf16 batch=8 num_heads=16 seq_len_q=1 seq_len_kv=40000 head_dim=128
linear_cuda linear dtype=f16 num_heads=8 seq_len_q=40000 head_dim=64
deformable_cuda deformable dtype=f16 batch=2 num_heads=8 seq_len_q=40000 head_dim_v=32 \
num_points=4 level_height_0=200 level_width_0=200
naive_cuda softmax dtype=f16 num_heads=8 seq_len_q=1024 head_dim=64
PROBLEMS
  echo "profile: $((SECONDS - started)) s, $runs runs, $missed left out after $limit s"
}

# Compares with the records that were published of this device: verdicts, memory and errors as they
# are, times as shares of what a library took in the same run, since clocks and temperatures differ
# from day to day. Such shares are assumed to repeat within 5 %.
peer=cudnn_cuda share_floor=5
compare() {
  local now=$out/benchmark.jsonl name file
  if [[ ! -e $now ]]; then
    echo "compare: skipped: $now is not there; the step benchmark writes it"
    return
  fi
  if ((${#published[@]} == 0)); then
    name=$(head -1 "$now" | grep -o '"cuda":{[^}]*}' | grep -o '"name":"[^"]*"' || true)
    for file in "$root"/reports/published/device_*.jsonl; do
      if [[ -n $name && -e $file ]] && head -1 "$file" | grep -qF "$name"; then
        published+=("$file")
      fi
    done
  fi
  if ((${#published[@]} == 0)); then
    echo "compare: skipped: nothing was published of this device${name:+: $name}"
    return
  fi
  step compare 20 "$attest" compare "${published[@]}" --after "$now" --json "$out/compare.json"
  if grep -q "\"impl\":\"$peer\"" "$now" && grep -q "\"impl\":\"$peer\"" "${published[@]}"; then
    step "compare with $peer" 20 \
      "$attest" compare "${published[@]}" --after "$now" --relative-to $peer --floor $share_floor \
      --json "$out/compare_$peer.json"
  else
    echo "compare: no shares: both sides need records of $peer"
  fi
}

main() {
  local name
  cat "$work/doctor.txt"
  if [[ -n $cudnn ]]; then echo "$cudnn"; fi
  for name in "${steps[@]}"; do
    if [[ $name == compare ]]; then last=0; fi
    "$name"
  done
  if ((${#failed[@]})); then
    printf 'failed: %s\n' "${failed[@]}"
    return 1
  fi
  echo "no failures in: ${steps[*]}; results in $out"
}
main 2>&1 | tee -a "$out/log.txt"
