#!/usr/bin/env bash
# Fetches from PyPI what few CUDA toolkits have: the headers of cuDNN's frontend, with which
# cudnn_cuda is built, and compute-sanitizer. They go to build/cuda-packages, where CMake looks.
# Does nothing if they are there already.
#   scripts/cuda_packages.sh
#   scripts/cuda_packages.sh --arm64 13.0   instead CUDA's runtime of that version for 64-bit Arm,
#                                           into build/cuda-packages-arm64
# Exit codes: 0; 4 if there is no python3 with pip, PyPI does not answer, or it does not have what
# is asked for; 64 for wrong arguments.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/build/cuda-packages
packages=(nvidia-cudnn-frontend==1.32.0 nvidia-cuda-sanitizer-api==13.5.25)
platforms=(manylinux_2_28_x86_64 manylinux_2_27_x86_64 manylinux_2_25_x86_64)
case ${1:-} in
  '' | --arm64) ;;
  -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "cuda_packages.sh: $1: unknown; --arm64 VERSION" >&2; exit 64 ;;
esac
if [[ ${1:-} == --arm64 ]]; then
  # The packages of CUDA 12 have no library to link statically.
  [[ ${2:-} =~ ^(1[3-9])[.][0-9]+$ ]] ||
    { echo "cuda_packages.sh: PyPI has nothing to link for Arm before CUDA 13" >&2; exit 4; }
  folder+=-arm64 packages=("nvidia-cuda-runtime==$2.*") platforms=(manylinux2014_aarch64)
fi
[[ $(cat "$folder/packages" 2>/dev/null) != "${packages[*]}" ]] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The wheels are those of x86-64, whatever this machine is: headers are the same everywhere, and
# compute-sanitizer is for x86-64 only.
python3 -m pip download --quiet --no-deps --only-binary=:all: \
  "${platforms[@]/#/--platform=}" --python-version 3.11 \
  -d "$work" "${packages[@]}" >"$work/log" 2>&1 ||
  { echo "cuda_packages.sh: pip download ${packages[*]}: $(tail -1 "$work/log")" >&2; exit 4; }
for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$work/all"; done
rm -rf "$folder"
if [[ $folder == *-arm64 ]]; then
  mkdir -p "$folder"
  cp "$work"/all/nvidia/*/lib/lib{cudart_static,cudadevrt}.a "$folder"
else
  mkdir -p "$folder/sanitizer"
  cp -r "$work/all/include" "$folder/include"
  find "$work"/all/nvidia/*/compute-sanitizer -maxdepth 1 -type f \
    \( -name compute-sanitizer -o -name '*.so' \) -exec cp -t "$folder/sanitizer" {} +
  chmod +x "$folder/sanitizer/compute-sanitizer"
fi
echo "${packages[*]}" >"$folder/packages"
