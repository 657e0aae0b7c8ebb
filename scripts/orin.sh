#!/usr/bin/env bash
# The first hour on a Jetson board, from JetPack to a report: looks at the board, builds attest
# (preset aarch64-native), judges small problems, judges and times the suites vit, bev and lidar as
# far as the free memory goes, measures energy, and writes a page. It takes at most 30 minutes. The
# same call again continues where the last one stopped; an unfinished build continues, too. In a
# bundle (scripts/bundle.sh) nothing is built.
#   scripts/orin.sh                      every step, into orin-results/
#   scripts/orin.sh -o FOLDER STEP ...   some of the steps: conformance vit bev lidar energy report
#   scripts/orin.sh --seconds N ...      takes at most N seconds, not 1800; the steps share them
#   scripts/orin.sh --all ...            all cases and dtypes, not the quick ones in f16
#   scripts/orin.sh --bundle FILE ...    first unpacks FILE, a .tar.gz of a bundle, beside FOLDER
# GPU and CPUs share one memory, and where it runs out the system ends the desktop first. attest
# gets what is free but for a reserve of 1 GiB, or an eighth of the memory if that is more. A case
# may take three eighths of that, since its worker may take as much again.
# harness/guide/orin.md says what a board needs before.
# FOLDER gets log.txt with all that is said, a results file for each step, report.html and
# report.md.
# With sudo, what it builds and writes belongs to the user who called it.
# Exit codes: 0; 1 if something failed, and it is named; 3 if time was over before all was done; 4
# if this is no board that attest can work on, the build fails, or the bundle or FOLDER cannot be
# used, and what helps is said; 64 for wrong arguments.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/steps.sh"
all_steps=(conformance vit bev lidar energy report)
out=orin-results steps=() seconds=1800 bundle= selection=(--quick --dtype f16) more=
while (($#)); do
  case $1 in
    -o | --seconds | --bundle)
      [[ -n ${2:-} ]] || { echo "orin.sh: $1 needs a value" >&2; exit 64; } ;;
  esac
  case $1 in
    -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -o)
      out=$2
      while [[ $out == ?*/ ]]; do out=${out%/}; done
      shift ;;
    --seconds)
      seconds=$2
      is_seconds "$2" || { echo "orin.sh: --seconds $2: not a number of seconds" >&2; exit 64; }
      shift ;;
    --bundle)
      bundle=$2
      [[ -e $2 ]] || { echo "orin.sh: --bundle $2: is not there" >&2; exit 64; }
      shift ;;
    --all) selection=() more=_all ;;
    conformance | vit | bev | lidar | energy | report) steps+=("$1") ;;
    *)
      echo "orin.sh: $1: unknown; -o FOLDER, --seconds N, --bundle FILE, --all and some of:" \
        "${all_steps[*]}" >&2
      exit 64 ;;
  esac
  shift
done
((${#steps[@]})) || steps=("${all_steps[@]}")

# stop WORDS...: what is in the way, and what helps.
stop() { echo "orin.sh: $*" >&2; exit 4; }

# The board's files lie where attest looks for them, too.
machine=${ATTEST_MACHINE_ROOT:-}
mib_of() { awk -v key="$1:" '$1 == key { print int($2 / 1024) }' "$machine/proc/meminfo"; }

# The chip, the release, and the memory that is free.
look_at_board() {
  local chip old=
  chip=$(tr '\0' '\n' 2>/dev/null <"$machine/proc/device-tree/compatible" |
    grep -o 'tegra[0-9]*' | head -1 || true)
  if jetpack_is_old >"$work/old"; then old=$(<"$work/old"); fi
  [[ -n $chip || -n $jetson_release ]] ||
    stop "no Jetson: it has neither /proc/device-tree/compatible of a Tegra nor" \
      "/etc/nv_tegra_release; for another machine with a GPU: scripts/device.sh"
  case $chip in
    tegra234) architecture=87 ;;
    tegra264) architecture=110 ;;
    *) stop "${chip:-a chip without a name}: attest knows Orin (tegra234) and Thor (tegra264)" ;;
  esac
  [[ -z $old ]] || stop "$old"
  [[ -n $jetson_release ]] || echo "release: not known: /etc/nv_tegra_release names none"
  local free total reserve
  free=$(mib_of MemAvailable) total=$(mib_of MemTotal)
  [[ $free =~ ^[0-9]+$ && $total =~ ^[0-9]+$ ]] ||
    stop "/proc/meminfo does not say how much memory is free"
  reserve=$((total / 8 > 1024 ? total / 8 : 1024))
  usable_mib=$((free - reserve))
  echo "memory: $free of $total MiB are free; $reserve MiB are kept for the system"
  ((usable_mib >= 512)) ||
    stop "$usable_mib MiB of memory are left for attest, which needs 512; what helps:" \
      "sudo systemctl isolate multi-user.target, to end the desktop"
}

# rest [MOST]: the seconds that are left but for the last step, at least 1 and at most MOST.
rest() {
  local left=$((seconds - last - SECONDS))
  if ((left > ${1:-left})); then left=$1; fi
  echo $((left < 1 ? 1 : left))
}

# prepare WHAT COMMAND...: runs the command in the time that is left, and returns its exit code.
prepare() {
  local what=$1 status=0
  shift
  timeout --kill-after=$kill_after "$(rest)" "$@" || status=$?
  if ((status == 124 || (status == 137 && $(rest) == 1))); then
    echo "orin.sh: time was over while it $what; the same call again goes on" >&2
    exit 3
  fi
  return $status
}

# In a source tree: sets up and builds, in the time that is left. A build that is cut short goes on
# at the next call.
build() {
  local nvcc jobs tree=$root/build/aarch64-native
  local cuda=(-DATTEST_CUDA=on -DATTEST_CUDA_ARCHITECTURES=$architecture)
  nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
  [[ -x $nvcc ]] ||
    stop "nvcc is neither in PATH nor in ${CUDA_HOME:-/usr/local/cuda}/bin; what helps:" \
      "sudo apt-get install nvidia-jetpack, or a bundle that was built elsewhere (--bundle)"
  prepare 'set up' bash "$root/scripts/setup.sh" ||
    stop "set-up failed: it says above what to install"
  timeout "$(rest 120)" bash "$root/scripts/charts.sh" ||
    echo "orin.sh: goes on without charts in the page"
  timeout "$(rest 120)" bash "$root/scripts/cuda_packages.sh" ||
    echo "orin.sh: goes on without cudnn_cuda"
  # One compiler takes up to 1.5 GiB.
  jobs=$((usable_mib / 1536))
  jobs=$((jobs < 1 ? 1 : jobs < $(nproc) ? jobs : $(nproc)))
  export PATH=${nvcc%/*}:$PATH
  # A developer may have configured this tree without CUDA.
  if [[ -e $tree/build.ninja ]]; then
    prepare 'configured' cmake -S "$root" -B "$tree" "${cuda[@]}" ||
      stop "cmake failed: it says above why"
  else
    cd "$root"
    prepare 'configured' cmake --preset aarch64-native -DATTEST_TESTS=OFF "${cuda[@]}" ||
      stop "cmake failed: it says above why"
    cd - >/dev/null
  fi
  prepare 'built' cmake --build "$tree" --parallel $jobs ||
    stop "the build failed: it says above why"
}

# Unpacks the bundle into a fresh folder, since attest loads all plugins that it finds.
unpack() {
  root=$out.bundle
  [[ ! -e $root || -e $root/bin/attest ]] || stop "$root is there and is no bundle: take another -o"
  rm -rf "$root.new"
  mkdir "$root.new"
  tar xzf "$bundle" -C "$root.new" --strip-components=1 || stop "$bundle cannot be unpacked"
  [[ -e $root.new/bin/attest ]] || stop "$bundle is no bundle: it has no FOLDER/bin/attest"
  rm -rf "$root"
  mv "$root.new" "$root"
}

# Builds attest if this is no bundle, sees that it runs, and looks at what it has.
prepare_attest() {
  # A runtime of CUDA 13 wants a driver of CUDA 13, which JetPack 6 has not.
  if [[ $(cat "$root/cuda" 2>/dev/null) == 1[3-9].* && $jetson_release == 36 ]]; then
    stop "this bundle has CUDA $(<"$root/cuda"), for JetPack 7.2, and JetPack 6 has CUDA 12: take" \
      "a source tree there, and call scripts/orin.sh in it"
  fi
  attest=$root/bin/attest
  if [[ ! -e $attest ]]; then
    attest=$root/build/aarch64-native/bin/attest
    build
  fi
  timeout 30 "$attest" --version >/dev/null 2>&1 ||
    stop "$attest does not run here ($(uname -m)): a bundle has to be built for aarch64, and for" \
      "a glibc that is not newer than this one; or build in a source tree: scripts/orin.sh"
  local name has needed
  # What a build for a board has to have, and all that this one has, but for libraries of others.
  needed=(naive naive_deformable naive_backward flash_cpu window_cpu linear_cpu deformable_cpu
    flash_backward_cpu "${cuda_implementations[@]}")
  has=$("$attest" list 2>/dev/null | sed -n 's/^\([a-z][a-z0-9_]*\) .*/\1/p' || true)
  own=$(grep -vxF "$(printf '%s\n' "${libraries[@]}")" <<<"$has" | paste -sd, || true)
  for name in "${needed[@]}"; do
    grep -qxF "$name" <<<"$has" || failed+=("$attest has no $name: attest list says what it has")
  done
  write_rules
  timed=$(present flash_cuda,window_cuda,linear_cuda,cudnn_cuda,flash_cpu,window_cpu,linear_cpu)
}

# Sets what a case may take; the worker may take as much again besides its tensors. A second call
# has to give attest the same limit, though a little less may be free then.
limit_memory() {
  limit_mib=$((usable_mib * 3 / 8))
  if [[ -e $out/memory ]]; then
    limit_mib=$(<"$out/memory")
    [[ $limit_mib =~ ^[1-9][0-9]{0,8}$ ]] ||
      stop "$out/memory has no number of MiB: begin anew with another folder (-o)"
    ((limit_mib <= usable_mib / 2)) ||
      stop "the call before this one gave attest $limit_mib MiB for a case, and now it may have" \
        "$((usable_mib / 2)): end what takes memory, or begin anew with another folder (-o)"
  fi
  echo "$limit_mib" >"$out/memory"
  echo "attest may take $limit_mib MiB for a case"
}

# What the doctor does not find, and what helps. No Jetson has NVML.
look_at_machine() {
  timeout "$(rest 60)" "$attest" doctor >"$work/doctor.txt" || true
  cat "$work/doctor.txt"
  local line
  while read -r line; do lacks+=("$line"); done < <(awk '
    /^[a-z]/ { if (text) print text; text = "" }
    /^none/ && $2 != "NVML" { text = $0; sub(/^none +/, "", text); gsub(/  +/, ": ", text) }
    /^ +->/ && text { sub(/^ +/, " "); text = text $0 }
    END { if (text) print text }' "$work/doctor.txt")
}

# go_on NAME PARTS ARGUMENT...: a run of attest into NAME.jsonl, or the rest of one.
go_on() {
  local name=$1 limit file=$out/$1.jsonl
  limit=$(left "$2")
  shift 2
  run_within "$name" "$limit" "$attest" run "$@" --relations none --timeout 20 \
    --memory "${limit_mib}MiB" --resume "$file"
  if [[ $ending == cut ]]; then
    unfinished+=("$name")
    grep -q '"type":"result"' "$file" 2>/dev/null || return 0
  fi
  judge "$name" "$file"
}

conformance() {
  go_on conformance 15 smoke --judge-only --impl "$(present "$own,cublas_cuda")"
}
timed_suite() {
  go_on "$1$more" "$2" "$1" ${selection[@]+"${selection[@]}"} --impl "$timed" --budget 0.2
}
vit() { timed_suite vit 20; }
bev() { timed_suite bev 20; }
lidar() { timed_suite lidar 25; }
# One case of each suite, since a case takes 3 s by each implementation. The first and the last have
# tokens, and no random inputs.
energy() {
  local refusals
  go_on energy 15 vit bev lidar --quick --dtype f16 --fill random,tokens --budget 0.2 --energy \
    --impl "$timed" \
    --case 'vit_b_16_224/self,bevformer/decoder_self,ptv3_stage0/patch_hilbert'
  if [[ ! -e $out/energy.jsonl ]] || grep -qE '"run_joules":(0\.0*)?[1-9]' \
    "$out/energy.jsonl"; then
    return
  fi
  if ! grep -qE '"verdict":"(pass|suspect|fail)"' "$out/energy.jsonl"; then
    lacks+=("energy: no case was measured -> attest run says above why")
    return
  fi
  refusals=$(grep -o '"refusal":"[^"]*"' "$out/energy.jsonl" | sort -u | head -3 | cut -d'"' -f4 |
    paste -sd';' || true)
  lacks+=("energy: ${refusals:-this board has no sensor that attest knows} -> attest doctor names\
 what cannot be read; sudo lets it read more")
}
report() {
  local file files=()
  for file in "$out"/{conformance,{vit,bev,lidar}{,_all},energy}.jsonl; do
    if [[ -s $file ]]; then files+=("$file"); fi
  done
  if ((${#files[@]} == 0)); then failed+=("report: there are no results yet"); return; fi
  last=0
  if (($(left 100) < 5)); then unfinished+=(report); return; fi
  step report 100 "$attest" report "${files[@]}" -f html,markdown -o "$out/report"
  if [[ $status == 0 && -e $out/report.html ]]; then echo "report: $out/report.html"; fi
}

main() {
  local name
  limit_memory
  if [[ $bundle ]]; then unpack; fi
  prepare_attest
  look_at_machine
  for name in "${steps[@]}"; do "$name"; done
  if ((${#lacks[@]})); then printf 'lacks: %s\n' "${lacks[@]}"; fi
  if ((${#failed[@]})); then printf 'failed: %s\n' "${failed[@]}"; fi
  if ((${#unfinished[@]})); then
    echo "time was over in: ${unfinished[*]}; the same call again goes on"
  fi
  if ((${#failed[@]})); then return 1; fi
  if ((${#unfinished[@]})); then return 3; fi
  echo "no failures in: ${steps[*]}; results in $out"
}

# Under sudo, what is built and written belongs to root until the end.
give_to_caller() {
  local folder
  [[ ${SUDO_UID:-} && ${SUDO_GID:-} && $(id -u) == 0 ]] || return 0
  for folder in "$root/build" "$out" "$out.bundle"; do
    [[ ! -e $folder ]] || chown -R "$SUDO_UID:$SUDO_GID" "$folder" || true
  done
}

work=$(mktemp -d)
trap 'rm -rf "$work"; give_to_caller' EXIT
declare -A parts=([conformance]=15 [vit]=20 [bev]=20 [lidar]=25 [energy]=15 [report]=5)
add_parts "${steps[@]}"
libraries=("${cuda_libraries[@]}") lacks=() again='; the same call again goes on'
look_at_board
mkdir -p "$out" 2>"$work/said" && [[ -w $out ]] || {
  echo "orin.sh: -o $out: is no folder that can be written to: $(<"$work/said")" >&2
  exit 64
}
main 2>&1 | tee -a "$out/log.txt"
