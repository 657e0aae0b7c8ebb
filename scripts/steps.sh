# What device.sh and orin.sh share: steps that have a time limit, and what they say of records; and
# what orin.sh and bundle.sh say of an old JetPack. It is sourced. A script that has steps has set
#   seconds    that it may take, counted from when SECONDS was 0
#   last       the seconds of them that are kept for its last step
#   parts, all_parts   of the time, by step; their sum over the steps that were asked for
#   attest     the program
#   work       a folder that goes at the end
#   own        its implementations, of which nothing may fail; names with commas between
#   libraries  those of others, of which a failure is a finding; an array
# What went wrong is in the array `failed`, and steps that the time did not suffice for are in
# `unfinished`.

# attest's own implementations for a GPU, and those that call a library of NVIDIA's.
# shellcheck disable=SC2034
cuda_implementations=(naive_cuda flash_cuda window_cuda linear_cuda deformable_cuda) \
  cuda_libraries=(cudnn_cuda cublas_cuda)

# What attest's own implementations have to keep.
write_rules() {
  printf '{"rules": [{"impl": ["%s"], "verdict": "not_bad"}]}' "${own//,/\", \"}" \
    >"$work/rules.json"
}

# add_parts STEP...: sets all_parts, and `last` to a twentieth of the time.
add_parts() {
  local name
  all_parts=0
  for name; do all_parts=$((all_parts + parts[$name])); done
  last=$((seconds / 20))
}
# left PARTS: the seconds that are left, at least 1, and at most so many parts of the whole.
left() {
  local rest=$((seconds - 5 - last - SECONDS)) most=$(($1 * (seconds - last) / all_parts))
  if ((most < rest)); then rest=$most; fi
  echo $((rest < 1 ? 1 : rest))
}

# is_seconds TEXT: whether it is a number of seconds that a script may take, of 7 digits at most.
is_seconds() { [[ $1 =~ ^[1-9][0-9]{0,6}$ ]]; }

# jetpack_is_old: whether the machine is a Jetson with a JetPack that attest does not support. It
# says why, and what would be needed. Sets jetson_release, such as 36; nothing where it is not
# known. The board's files lie where attest looks for them, too.
jetpack_is_old() {
  local file=${ATTEST_MACHINE_ROOT:-}/etc/nv_tegra_release
  jetson_release=$(sed -n '1s/^# R\([0-9]*\).*/\1/p' "$file" 2>/dev/null || true)
  [[ -n $jetson_release ]] && ((jetson_release < 36)) || return 1
  echo "JetPack 5 or older (R$jetson_release) is not supported: its g++ 9 has no C++20, its CUDA" \
    "11.4 no cudaLaunchKernelEx; install JetPack 6 or 7.2. To stay, one would need g++ 11 and" \
    "CMake 3.22 or newer, CUDA 11.8, and Highway and fmt of Ubuntu 22.04: nobody has tried"
}

failed=() unfinished=()
again=  # behind "it was killed": what helps
kill_after=10
# run_within NAME SECONDS COMMAND...: runs the command for so long at most, says how long it took,
# and sets `status` to its exit code and `ending` to how it ended: by itself, cut (its time was
# over), or killed, as when memory runs out.
run_within() {
  local name=$1 limit=$2 started=$SECONDS
  shift 2
  status=0 ending=itself
  timeout --kill-after=$kill_after "$limit" "$@" || status=$?
  echo "$name: $((SECONDS - started)) s, exit $status"
  # 137 is also what timeout returns for a command that it had to kill, which takes this long.
  if ((status == 124 || (status == 137 && SECONDS - started >= limit + kill_after - 1))); then
    ending=cut
  elif ((status == 137)); then
    ending=killed
    failed+=("$name: it was killed, as when memory runs out$again")
  fi
}

# step NAME SECONDS COMMAND...: runs the command, and goes on whatever its exit code is.
step() {
  local name=$1 limit
  limit=$(left "$2")
  shift 2
  if ((limit < 5)); then
    echo "$name: no time left"
    failed+=("$name: no time left")
    return
  fi
  run_within "$name" "$limit" "$@"
  if [[ $ending == cut ]]; then
    echo "$name: its time was over"
    unfinished+=("$name")
  elif [[ $ending == itself ]] && ((status)); then
    failed+=("$name")
  fi
}

# present NAMES: those of them that this build has; all if it has none, so that attest says so.
present() {
  local name names='' all
  all=$("$attest" list 2>/dev/null || true)
  for name in ${1//,/ }; do
    if grep -q "^$name " <<<"$all"; then names+=,$name; fi
  done
  names=${names#,}
  echo "${names:-$1}"
}

# judge NAME RESULTS...: says what a run of attest by run_within has found. Failures are what is
# wrong with attest's own implementations, and attest's errors.
judge() {
  local name=$1 library errors status=$status
  shift
  if [[ $ending == cut ]]; then
    echo "$name: its time was over; what was judged until then counts"
  elif [[ $ending == itself ]] && ((status > 1)); then
    failed+=("$name: attest exits with $status")
  fi
  if ! grep -q '"type":"result"' "$1" 2>/dev/null; then
    if [[ $ending == cut ]]; then failed+=("$name: no time left"); fi
    return
  fi
  status=0
  "$attest" gate "$@" --rules "$work/rules.json" >"$work/gate.txt" 2>&1 || status=$?
  if ((status)); then
    cat "$work/gate.txt"
    failed+=("$name")
  fi
  errors=$(codes '' "$@" | grep -E 'error:(golden|inputs|reference|tolerance-model) ' || true)
  if [[ -n $errors ]]; then failed+=("$name: errors of attest: ${errors//$'\n'/,}"); fi
  for library in "${libraries[@]}"; do
    codes "\"impl\":\"$library\"" "$@" | grep -vE '^(unsupported|skipped):' |
      sed "s/^/finding: $name: $library: /" || true
  done
}
# codes WORD RESULTS...: each code that records with WORD in them have, and in how many.
codes() {
  local word=$1
  shift
  cat "$@" 2>/dev/null | grep '"type":"result"' | grep -F -- "$word" |
    sed 's/"code":"/\n/; s/^[^\n]*\n//; s/".*//' | grep . | sort | uniq -c |
    sed -E 's/ *([0-9]+) (.*)/\2 in \1/' || true
}
