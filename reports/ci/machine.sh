#!/usr/bin/env bash
# Prints one word for the kind of machine: CPU model and number of CPUs; of a Jetson, board, power
# mode and number of CPUs. Times of one kind can be compared; a baseline is kept for each.
set -euo pipefail
machine=${ATTEST_MACHINE_ROOT:-}
model=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
if mode=$(sed -n 's/^pmode:0*\([0-9]\)/\1/p' "$machine/var/lib/nvpmodel/status" 2>/dev/null); then
  model="$(tr -d '\0' <"$machine/proc/device-tree/model") mode ${mode:-unknown}"
fi
echo "${model:-$(uname -m)}-$(nproc)" | tr -cs '[:alnum:]\n' '-'
