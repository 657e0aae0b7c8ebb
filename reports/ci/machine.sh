#!/usr/bin/env bash
# Prints one word for the kind of machine: CPU model and number of CPUs. Times of one kind can be
# compared; a baseline is kept for each.
set -euo pipefail
model=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
echo "${model:-$(uname -m)}-$(nproc)" | tr -cs '[:alnum:]\n' '-'
