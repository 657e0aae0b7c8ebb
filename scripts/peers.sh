#!/usr/bin/env bash
# Installs packages that scripts/bench_cpu.sh times beside attest's implementations into a virtual
# environment of their own, build/peers, and says how large that is.
#   scripts/peers.sh                  ONNX Runtime, 210 MB
#   scripts/peers.sh torch==2.15.0    PyTorch, in addition to what is there. On x86-64, PyPI has it
#                                     with CUDA only: 5 GB. pip's variables can name an index that
#                                     has it for CPUs, 1 GB
#   scripts/peers.sh WORD...          any other packages and versions, as pip takes them
# Exit codes: 0 if they are there; 4 if not: then the message says why.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/build/peers
packages=(onnxruntime==1.32.0 onnx==1.23.2 numpy)
(($# == 0)) || packages=("$@")

stop() { echo "peers.sh: $1" >&2; exit 4; }
command -v python3 >/dev/null || stop "there is no python3"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [[ ! -e $folder/made ]]; then
  rm -rf "$folder"
  python3 -m venv "$folder" >"$log" 2>&1 || stop "python3 -m venv: $(tail -n 1 "$log")"
  touch "$folder/made"
fi
"$folder/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input \
  --only-binary=:all: "${packages[@]}" >"$log" 2>&1 ||
  stop "pip install ${packages[*]}: $(tail -n 1 "$log")"
"$folder/bin/python3" -m pip freeze --disable-pip-version-check >"$log" ||
  stop "pip freeze does not work in $folder"
peers=$(grep -E '^(torch|onnxruntime)==' "$log" | paste -sd' ') || true
echo "build/peers: ${peers:-no peer}; $(du -sm "$folder" | cut -f 1) MB"
