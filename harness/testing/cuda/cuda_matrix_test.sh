#!/usr/bin/env bash
# Tests cuda_matrix.sh --keep in a tree of its own, with stand-ins for nvcc and c++filt: after a
# call that was cut off, the next one compiles the rest alone, and what was made from other sources,
# by other options or by another compiler is made anew. Bugs are planted in the script, and each has
# to be noticed.
# usage: cuda_matrix_test.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WORK=$work PATH=$work/bin:$PATH CCACHE_DISABLE=1
mkdir "$work/bin"

# A source is lines "KERNEL REGISTERS", which is what nvcc reports of it.
cat >"$work/bin/nvcc" <<'NVCC'
#!/bin/bash
case $1 in
  --help) printf '  sm_%s\n' 80 87 90a 120; exit ;;
  --version) echo "release ${RELEASE:-13.0}, V${RELEASE:-13.0}.88"; exit ;;
esac
while (($#)); do
  case $1 in
    -c) file=$2 ;;
    -gencode) architecture=$(sed 's/.*sm_//; s/,.*//' <<<"$2") ;;
    -o) object=$2 ;;
  esac
  shift
done
name=$(basename "$file" .cu)
echo "$name $architecture" >>"$WORK/calls"
[[ ${FAILS:-} != "$name $architecture" ]] || { echo "$name.cu: no such type"; exit 1; } >&2
: >"$object"
while read -r kernel registers; do
  printf '\0.visible .entry %s(\n.maxntid 128\n' "$kernel" >>"$object"
  echo "ptxas info : Compiling entry function '$kernel' for 'sm_$architecture'"
  echo "    0 bytes stack frame, ${SPILLED:-0} bytes spill stores, 0 bytes spill loads"
  echo "ptxas info : Used $registers registers, 1024 bytes smem"
done <"$file" >&2
[[ ! ${NO_PTX:-} ]] || : >"$object"
[[ ! ${SERIALIZED:-} ]] || echo "ptxas info : (C7510) wgmma instructions are serialized" >&2
exit 0
NVCC
# It stops in the middle of the lines of second.cu for sm_87, where it is asked to hang.
cat >"$work/bin/c++filt" <<'FILTER'
#!/bin/bash
while read -r line; do
  echo "$line"
  [[ ! ${HANGS:-} || $line != second*87*second_a ]] || { touch "$WORK/hanging"; exec sleep 60; }
done
FILTER
chmod +x "$work"/bin/*

fail() { echo "FAILED $*"; exit 1; }
# matrix STATUS CALLS ARGUMENT ...: the script with these arguments has to end with STATUS, and to
# call nvcc for CALLS sources and architectures.
matrix() {
  local expected=$1 calls=$2 status=0
  shift 2
  : >"$work/calls"
  bash "$work/tree/scripts/cuda_matrix.sh" "$@" >"$work/said" 2>"$work/warned" || status=$?
  [[ $status == "$expected" ]] || fail "$*: exit code $status: $(cat "$work/said" "$work/warned")"
  [[ $(wc -l <"$work/calls") == "$calls" ]] || fail "$*: it compiles $(paste -sd, "$work/calls")"
}
finished() { find "$work/kept" -name '*.rows' | wc -l; }

# Four or five of six are compiled, and second.cu for sm_87 is being compiled, when it is killed.
cut_off() {
  rm -f "$work/hanging"
  HANGS=yes setsid bash "$work/tree/scripts/cuda_matrix.sh" "$@" >"$work/said" 2>&1 &
  for ((i = 0; i < 300; ++i)); do
    if [[ -e $work/hanging ]] && (($(finished) >= 4)); then break; fi
    sleep 0.1
  done
  kill -9 -- "-$!"
  wait "$!" 2>/dev/null || true
  [[ -e $work/hanging ]] || fail "it was not cut off: $(<"$work/said")"
}

# Each of two sources has this kernel alone.
kernels() {
  local golden=harness/core/operations/softmax/golden
  tee "$work/tree/impls/first.cu" <<<"$1" >"$work/tree/$golden/row_kernels.cu"
}

# check SED: of the script with what the sed expression makes of it.
check() {
  local keep=(--keep "$work/kept") rest
  rm -rf "$work"/{tree,kept}
  mkdir -p "$work"/tree/{scripts,impls/cuda,harness/{abi,core/operations/softmax/golden}}
  sed -E "$1" "$source/scripts/cuda_matrix.sh" >"$work/tree/scripts/cuda_matrix.sh"
  printf '%s\n' 'first_a 40' 'first_b 41' >"$work/tree/impls/first.cu"
  printf '%s\n' 'second_a 50' 'second_b 51' >"$work/tree/impls/second.cu"
  echo 'rows 60' >"$work/tree/harness/core/operations/softmax/golden/row_kernels.cu"
  echo '// a tile' >"$work/tree/impls/cuda/tile.cuh"

  matrix 0 6 80 87
  cp "$work/said" "$work/whole"
  [[ $(wc -l <"$work/whole") == 11 ]] || fail "no head and 10 kernels: $(<"$work/whole")"
  cut_off "${keep[@]}" 80 87
  rest=$((6 - $(finished)))
  matrix 0 "$rest" "${keep[@]}" 80 87
  grep -qx 'second 87' "$work/calls" || fail "what was cut off is not compiled again"
  cmp -s "$work/said" "$work/whole" || fail "after it was cut off it prints $(<"$work/said")"
  matrix 0 0 "${keep[@]}" 80 87
  cmp -s "$work/said" "$work/whole" || fail "of what was kept it prints $(<"$work/said")"

  echo '// another tile' >"$work/tree/impls/cuda/tile.cuh"
  matrix 0 6 "${keep[@]}" 80 87
  matrix 0 6 --head-dim 64 "${keep[@]}" 80 87
  RELEASE=13.2 matrix 0 6 --head-dim 64 "${keep[@]}" 80 87
  SPILLED=300 matrix 1 3 "${keep[@]}" 87
  [[ $(wc -l <"$work/said") == 6 ]] || fail "for one architecture it prints $(<"$work/said")"
  matrix 1 0 "${keep[@]}" 87  # what was kept spills too
  SERIALIZED=yes matrix 1 3 "${keep[@]}" 90a
  matrix 1 0 "${keep[@]}" 90a
  grep -q 'C7510' "$work/warned" || fail "of what was kept it does not say what ptxas warned of"
  FAILS='second 80' matrix 4 3 "${keep[@]}" 80
  grep -q 'second.cu: no such type' "$work/warned" || fail "it does not say why nvcc fails"
  matrix 0 1 "${keep[@]}" 80
  NO_PTX=yes matrix 4 3 80
  grep -q 'first.cu.80.o has no PTX' "$work/warned" || fail "it does not say that PTX is missing"

  rm -rf "$work/kept" && mkdir "$work/kept"
  touch "$work/kept/thesis.tex"
  matrix 64 0 "${keep[@]}" 80
  [[ -e $work/kept/thesis.tex ]] || fail "it removes files of others"

  rm "$work/tree/impls/second.cu"
  kernels 'tile<Shape<4,256,1>> 60'
  SPILLED=352 matrix 0 2 120
  SPILLED=353 matrix 1 2 120
  SPILLED=257 matrix 1 2 87
  kernels 'tile<Shape<4,128,1>> 60'
  SPILLED=257 matrix 1 2 120
}

(check '')
while IFS='|' read -r what bug; do
  cmp -s "$source/scripts/cuda_matrix.sh" <(sed -E "$bug" "$source/scripts/cuda_matrix.sh") &&
    fail "not planted: $what"
  if (check "$bug") >"$work/noticed" 2>&1; then fail "not noticed: $what"; fi
  echo "$what: $(head -1 "$work/noticed" | cut -c -150)"
done <<'BUGS'
it compiles again what is there|/! -e \$log\.rows/d
half of the lines count as all|/mv .*\.rows\.new/d; s/\.rows\.new/.rows/
it does not look at headers|s/ impls\/cuda / /
nor at the options|s/echo "\$head_dim" /echo /
nor at the compiler|s/; "\$nvcc" --version$//
nor at the architectures|s/"\$head_dim" "\$\{architectures\[@\]\}"/"$head_dim"/
what is old stays|/rm -rf "\$\{keep:/d
a folder of others is emptied|s/-z \$\(ls -A "\$keep"\)/-d $keep/
kernels of all sizes may spill 352 bytes on sm_120|s/ && \$7 ~ .*256,\///
those of 256 channels may everywhere|s/\$2 ~ [^ ]* && //
they may spill what they like there|s/352 : most/99999 : most/
threads are 0 where PTX is missing|s/exit found [|][|]/exit 1 ||/
spills of what was kept do not count|/END \{ exit bad/s/bad/0/
BUGS
