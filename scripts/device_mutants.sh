#!/usr/bin/env bash
# Plants bugs in CUDA kernels on a device and says which check catches each. First it tries every
# problem without a bug, which must pass.
#   scripts/device_mutants.sh [--only NUMBERS] [--seconds N] ATTEST FOLDER [CHECKER]
#   scripts/device_mutants.sh --problems   prints the problems, one a line
#     --only 3,5   only these bugs, by their numbers in impls/cuda/device_problem.cuh
#     --seconds N  begins with no other bug after N seconds (default: 120)
#     FOLDER       has the plugins KERNEL_planted.so
#     CHECKER      compute-sanitizer
# Exit codes: 0; 1 if a bug got away, or a kernel without a bug fails, and it is named; 64 for wrong
# arguments.
set -euo pipefail
only= limit=120 print_problems=no
while [[ ${1:-} == --* ]]; do
  case $1 in
    --only) only=,${2:?}, ;;
    --seconds) limit=${2:?} ;;
    --problems) print_problems=yes; break ;;
    *) break ;;
  esac
  shift 2
done
if [[ $print_problems == no ]] && { (($# < 2 || $# > 3)) || [[ ! -x $1 || ! -d $2 ]]; }; then
  sed -n '4,11p' "$0" >&2
  exit 64
fi
attest=${1:-} folder=${2:-} checker=${3:-}

# The problems. `tiles` and `bias_tiles` have too many heads for kernels to split the keys. `apart`
# has a row beyond 2^31 elements. Those from `hopper` on have tiles of rows for at least half of the
# multiprocessors; with fewer, other kernels take the problem.
tiles='softmax dtype=f16 batch=50 num_heads=12 seq_len_q=20 seq_len_kv=200 head_dim=64 lse'
few_tiles='softmax dtype=f16 num_heads=2 seq_len_q=120 seq_len_kv=300 head_dim=64 softcap=30'
splits='softmax dtype=f16 num_heads=2 seq_len_q=3 seq_len_kv=700 head_dim=64 sinks lse'
apart='softmax dtype=f16 seq_len_q=40 seq_len_kv=20 head_dim=64 k.strides=[0,0,134217728,1]'
bias='softmax dtype=f16 num_heads=2 seq_len_q=120 head_dim=64 bias=[1,1,120,120]'
bias_tiles='softmax dtype=f16 batch=50 num_heads=12 seq_len_q=20 seq_len_kv=200 head_dim=64'
bias_tiles+=' bias=[1,1,20,200]'
linear='linear dtype=f32 num_heads=2 seq_len_q=40 seq_len_kv=1100 head_dim=32'
windows='softmax dtype=f16 batch=64 num_heads=8 seq_len_q=192 head_dim=16'
windows+=' grid_height=12 grid_width=16 window_height=4 window_width=4 shift_y=2 shift_bias=-100'
hopper='softmax dtype=f16 num_heads=80 seq_len_q=70 seq_len_kv=700 head_dim=64'
two_columns='softmax dtype=f16 num_heads=80 seq_len_q=70 seq_len_kv=700 head_dim=128'
many_heads='softmax dtype=f16 num_heads=300 seq_len_q=256 seq_len_kv=256 head_dim=128'
banded='softmax dtype=f16 num_heads=80 seq_len_q=150 seq_len_kv=700 head_dim=64 window_right=300'
padded='softmax dtype=bf16 batch=2 num_heads=80 seq_len_q=80 seq_len_kv=300 head_dim=64 seq_lens_kv'

deformable='deformable dtype=f16 num_heads=2 seq_len_q=30 head_dim_v=32 num_points=7'
deformable+=' level_height_0=9 level_width_0=14 level_height_1=5 level_width_1=7'

# number|name|kernel|capability|who|problem|more
#   capability: the compute capability to go by, times 10; empty: the device's own.
#   who must see the bug: `judge`; `race`: the judge or racecheck, since a read that comes too early
#     is not always wrong; `timing`: nobody must, since no tool follows wgmma and TMA.
#   more: for `race` the problem for racecheck; else options of attest.
# Not here are the bugs
#   10 and 24: infinities whose weight is 0, which no fill has (but
#     harness/testing/cuda/extremes_test.cpp);
#   12: a device's compiler undoes it;
#   20 to 23 of flash_cuda: in the products of sm_75 and of f32. Its kernels planted here, for
#     16-bit elements on sm_80 and up, have no such products;
#   25 and 26: in the launches of sm_90 one after another; what they leave shows in the tests;
#   27, 28 and 30: in the kernels of window_cuda for narrow heads, which are not planted here.
bugs=(
  "1|no barrier|flash_cuda|80|race|$tiles|$few_tiles"
  "2|no wait for copies|flash_cuda|80|race|$tiles|$few_tiles"
  "3|V's first tile again|flash_cuda|80|judge|$tiles|"
  "4|index of 32 bits|flash_cuda|80|judge|$apart|"
  "5|splits lack a tile|flash_cuda|80|judge|$splits|"
  "6|sink in every split|flash_cuda|80|judge|$splits|"
  "7|sink dropped|flash_cuda|80|judge|$splits|"
  "31|terms of the rows before|flash_cuda|80|judge|$bias|"
  "32|terms of the first tile|flash_cuda|80|judge|$bias_tiles|"
  "1|no barrier|linear_cuda||race|$linear|$linear"
  "8|chunks lack a tile|linear_cuda||judge|$linear|"
  "9|chunk dropped|linear_cuda||judge|$linear|"
  "21|small of left|linear_cuda||judge|$linear|"
  "22|small of right|linear_cuda||judge|$linear|"
  "11|terms of another window|window_cuda||judge|$windows|"
  "29|keys of the window before|window_cuda||judge|$windows|"
  "1|no barrier|deformable_cuda||race|$deformable|$deformable"
  "9|points dropped|deformable_cuda||judge|$deformable|"
  "33|width of the first level|deformable_cuda||judge|$deformable|"
  "34|right edge wraps|deformable_cuda||judge|$deformable|"
  "13|keys given back early|flash_cuda|90|timing|$hopper|"
  "14|values given back early|flash_cuda|90|timing|$hopper|"
  "15|query given back early|flash_cuda|90|timing|$many_heads|"
  "16|second column is the first|flash_cuda|90|judge|$two_columns|"
  "17|not done again|flash_cuda|90|judge|$banded|--relations all"
  "18|padding multiplied|flash_cuda|90|judge|$padded|--relations all"
  "19|no fence after padding became 0|flash_cuda|90|timing|$padded|--relations all"
)
if [[ $print_problems == yes ]]; then
  for line in "${bugs[@]}"; do cut -d'|' -f6 <<<"$line"; done | sort -u
  exit
fi

# implementation PLUGIN: a name of its implementation that the installed one does not have.
implementation() {
  local name
  name=$("$attest" list --plugin "$1" 2>/dev/null |
    awk -v plugin="($(basename "$1" .so)" 'index($0, plugin) { print $1; exit }')
  echo "${name%@*}@$(basename "$1")"
}

# judge BUG KERNEL CAPABILITY PROBLEM [OPTION ...]: sets `verdict` to "pass", "skipped", the code of
# what did not pass, or "exit N".
judge() {
  local bug=$1 plugin=$folder/$2_planted.so capability=$3 problem=$4 status=0
  shift 4
  timeout --kill-after=10 120 \
    env ATTEST_CUDA_BUG="$bug" ${capability:+ATTEST_CUDA_CAPABILITY=$capability} \
    "$attest" repro --plugin "$plugin" --impl "$(implementation "$plugin")" \
    --judge-only --timeout 60 "$@" "$problem" -o "$records" --overwrite >/dev/null 2>&1 || status=$?
  case $status in
    0) verdict=pass ;;
    1) verdict=$(grep -o '"code":"[a-z]*:[a-z-]*"' "$records" | head -1 | cut -d'"' -f4) ;;
    4) verdict=skipped ;;
    *) verdict="exit $status" ;;
  esac
}

# races BUG KERNEL CAPABILITY PROBLEM: whether racecheck finds something. It sees races that happen
# to do no harm, which the judge cannot see.
races() {
  [[ -n $checker && -n $4 ]] || return 1
  local plugin=$folder/$2_planted.so status=0
  timeout --kill-after=10 100 env ATTEST_CUDA_BUG="$1" ${3:+ATTEST_CUDA_CAPABILITY=$3} \
    "$checker" --tool racecheck --target-processes all --error-exitcode 9 \
    "$attest" repro --plugin "$plugin" --impl "$(implementation "$plugin")" --judge-only \
    --relations none --fill random --timeout 90 "$4" >/dev/null 2>&1 || status=$?
  ((status == 9))
}

records=$(mktemp)
trap 'rm -f "$records"' EXIT
failed=() started=$SECONDS tried=0
declare -A healthy=()
for line in "${bugs[@]}"; do
  IFS='|' read -r bug name kernel capability who problem more <<<"$line"
  [[ -z $only || $only == *",$bug,"* ]] || continue
  if [[ ! -e $folder/${kernel}_planted.so ]]; then
    echo "$name ($kernel): not tried: no ${kernel}_planted.so"
    continue
  fi
  if ((SECONDS - started >= limit)); then
    echo "$name ($kernel): not tried: $limit s are over"
    continue
  fi
  race_problem= options=(--relations none)
  if [[ $who == race ]]; then
    race_problem=$more
  elif [[ -n $more ]]; then
    read -ra options <<<"$more"
  fi
  key="$kernel $capability $problem"
  if [[ -z ${healthy[$key]:-} ]]; then
    judge 0 "$kernel" "$capability" "$problem" "${options[@]}"
    healthy[$key]=$verdict
    case $verdict in
      pass) ;;
      skipped) echo "$kernel: not tried: skipped or unsupported: $problem" ;;
      *)
        echo "$kernel: $verdict without a bug: $problem"
        failed+=("$kernel without a bug: $verdict") ;;
    esac
  fi
  [[ ${healthy[$key]} == pass ]] || continue
  tried=$((tried + 1))
  judge "$bug" "$kernel" "$capability" "$problem" "${options[@]}"
  if [[ $verdict != pass && $verdict != skipped ]]; then
    echo "$name ($kernel): caught by the judge: $verdict"
  elif races "$bug" "$kernel" "$capability" "$race_problem"; then
    echo "$name ($kernel): caught by racecheck"
  elif [[ $who == timing ]]; then
    echo "$name ($kernel): not seen: it is a matter of timing"
  else
    echo "$name ($kernel): got away"
    failed+=("$name ($kernel) got away")
  fi
done
if ((tried == 0)); then failed+=("no bug was tried"); fi
if ((${#failed[@]})); then
  printf 'mutants: %s\n' "${failed[@]}" >&2
  exit 1
fi
