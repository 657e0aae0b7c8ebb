#!/bin/bash
# Tests that ptxas takes the PTX inside the core, for every architecture of interest that it knows.
# usage: ptx_test.sh SOURCE_DIR
set -eu
ptx=$1/harness/core/device/cuda/clock_stamps.ptx.inc
ptxas=$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)
[ -x "$ptxas" ] || { echo "NOT TESTED: no ptxas"; exit 64; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed '1d;$d' "$ptx" > "$work/good.ptx"  # without the marks of a raw string
sed 's/st.global.v2.u64/st.global.v3.u64/' "$work/good.ptx" > "$work/bad.ptx"
tried=0
for architecture in 50 70 75 80 86 87 89 90a 100 120 121; do
  if ! words=$("$ptxas" -arch "sm_$architecture" -o "$work/out" "$work/good.ptx" 2>&1); then
    case $words in *"is not defined for option 'gpu-name'"*) continue ;; esac
    echo "sm_$architecture: $words"
    exit 1
  fi
  tried=$((tried + 1))
done
[ $tried -gt 0 ] || { echo "ptxas knows none of the architectures"; exit 1; }
if "$ptxas" -arch sm_80 -o "$work/out" "$work/bad.ptx" > /dev/null 2>&1; then
  echo "ptxas takes PTX that is wrong"
  exit 1
fi
echo "assembled for $tried architectures"
