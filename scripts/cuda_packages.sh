#!/usr/bin/env bash
# Fetches from PyPI what few CUDA toolkits have: the headers of cuDNN's frontend, with which
# cudnn_cuda is built, and compute-sanitizer. They go to build/cuda-packages, where CMake looks.
# Does nothing if they are there already.
#   scripts/cuda_packages.sh
# Exit codes: 0; 4 if there is no python3 with pip, or PyPI does not answer.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/build/cuda-packages
packages=(nvidia-cudnn-frontend==1.32.0 nvidia-cuda-sanitizer-api==13.5.25)
[[ $(cat "$folder/packages" 2>/dev/null) != "${packages[*]}" ]] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The wheels are those of x86-64, whatever this machine is: headers are the same everywhere, and
# compute-sanitizer is for x86-64 only.
python3 -m pip download --quiet --no-deps --only-binary=:all: \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
  --platform manylinux_2_25_x86_64 --python-version 3.11 \
  -d "$work" "${packages[@]}" >"$work/log" 2>&1 ||
  { echo "cuda_packages.sh: pip download ${packages[*]}: $(tail -1 "$work/log")" >&2; exit 4; }
for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$work/all"; done
rm -rf "$folder"
mkdir -p "$folder/sanitizer"
cp -r "$work/all/include" "$folder/include"
find "$work"/all/nvidia/*/compute-sanitizer -maxdepth 1 -type f \
  \( -name compute-sanitizer -o -name '*.so' \) -exec cp -t "$folder/sanitizer" {} +
chmod +x "$folder/sanitizer/compute-sanitizer"
echo "${packages[*]}" >"$folder/packages"
