#!/usr/bin/env bash
# Tests scripts/bundle.sh --target orin in a tree of its own, with stand-ins for what it calls: what
# it asks of them, and what it says where something is missing. No compiler runs.
# usage: bundle_orin_test.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WORK=$work PATH=$work/bin:$PATH ATTEST_MACHINE_ROOT=$work/machine
mkdir -p "$work"/{bin,machine/etc,tree/scripts,tree/build/arm64}
cd "$work/tree"
for name in bundle steps symbols cuda_packages device device_mutants orin; do
  cp "$source/scripts/$name.sh" scripts
done
cp "$source/scripts/device_peers.py" scripts
for name in setup charts aarch64; do echo 'exit 0' >"scripts/$name.sh"; done
stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$1"; chmod +x "$1"; }
stand_in "$work/bin/uname" 'echo "${MACHINE:-x86_64}"'
stand_in "$work/bin/nvcc" 'case $1 in
  --list-gpu-code) printf "sm_%s\n" 80 87 90 ;;
  --version) echo "Cuda compilation tools, release ${CUDA:-13.0}, V${CUDA:-13.0}.88" ;;
esac'
# pip has every package; a wheel becomes a folder of what cuda_packages.sh looks for.
stand_in "$work/bin/python3" 'echo "$*" >>"$WORK/fetched"
[[ ! -e $WORK/offline ]] || exit 1
for word; do [[ ${last:-} != -d ]] || folder=$word; last=$word; done
case $2 in
  pip) : >"$folder/some.whl" ;;
  zipfile)
    mkdir -p "$5"/{include,nvidia/cu13/{lib,compute-sanitizer}}
    touch "$5"/nvidia/cu13/lib/lib{cudart_static,cudadevrt}.a
    touch "$5/nvidia/cu13/compute-sanitizer/compute-sanitizer" ;;
esac'
stand_in "$work/bin/cmake" 'echo "$*" >>"$WORK/called"
case $1 in
  --preset)
    while [[ $1 != -B ]]; do shift; done
    mkdir -p "$2/CMakeFiles/3" && touch "$2/cmake_install.cmake"
    echo "set(CMAKE_CUDA_COMPILER_VERSION \"${CUDA:-13.0}.88\")" \
      >"$2/CMakeFiles/3/CMakeCUDACompiler.cmake" ;;
  --install)
    for folder; do :; done
    mkdir -p "$folder"/{bin,lib/attest/{bundled,plugins}}
    touch "$folder/lib/attest/bundled/libz.so.1"
    printf "#!/bin/sh\nexit 0\n" >"$folder/bin/attest"
    chmod +x "$folder/bin/attest"
    for name in $(cat "$WORK/plugins"); do touch "$folder/lib/attest/plugins/$name.so"; done ;;
esac'
stand_in build/arm64/run '[[ -e $WORK/harmed ]] && echo "not for this machine" && exit 1
[[ ${1##*/} == attest && $2 == --version ]]'
stand_in "$work/bin/objdump" 'if [[ $1 == -p ]]; then
  printf "  NEEDED   %s\n" libz.so.1 "libstdc++.so.6" libc.so.6 ld-linux-aarch64.so.1 $LIBRARY
  exit
fi
echo "0 DF *UND* 0 (${NEEDS:-GLIBC_2.35}) f"; echo "0 DF *UND* 0 (GLIBCXX_3.4.30) g"
echo "0 DF *UND* 0 (CXXABI_1.3.13) h"; echo "0 g DF .text 0 GLIBC_2.99 defined_here"'
all='naive_cuda flash_cuda window_cuda linear_cuda deformable_cuda cublas_cuda cudnn_cuda'
echo "$all" >"$work/plugins"

# expect WHAT STATUS PATTERN ARGUMENT...: of bundle.sh ARGUMENT...
expect() {
  local status=0
  : >"$work/called"
  bash scripts/bundle.sh "${@:4}" >"$work/said" 2>&1 || status=$?
  [[ $status == "$2" ]] && grep -qE -- "$3" "$work/said" || {
    echo "FAILED $1: exit code $status (expected $2), or not said: $3"
    cat "$work/said"
    exit 1
  }
}
expect "all is there" 0 'needs glibc 2.35 or newer.*scripts/orin.sh' --target orin
grep -q '^it is for JetPack 7.2$' "$work/said"
grep -q '^missing for JetPack 6: nvcc of CUDA 12 and its libcudart_static.a' "$work/said"
grep -q -- '-DATTEST_CUDA_ARCHITECTURES=87 --toolchain ' "$work/called"
grep -q 'platform=manylinux2014_aarch64 .*nvidia-cuda-runtime==13\.0\.\*' "$work/fetched"
[[ $(<build/bundle-orin/cuda) == 13.0.88 && -e build/cuda-packages-arm64/libcudart_static.a ]]
: >"$work/fetched"
expect "all was fetched" 0 'or newer' --target orin
[[ ! -s $work/fetched ]] || { echo "it fetches again"; exit 1; }

echo "${all% *}" >"$work/plugins"
expect "an implementation is missing" 3 '^bundle.sh: lacks cudnn_cuda$' --target orin
echo "$all" >"$work/plugins"
touch "$work/harmed"
expect "attest does not start" 1 'attest --version: not for this machine' --target orin
rm "$work/harmed"
# JetPack 7.2 stands on Ubuntu 24.04.
NEEDS=GLIBC_2.40 expect "glibc" 1 'needs GLIBC_2.40, and GLIBC_2.39 is the newest' --target orin
NEEDS=GLIBCXX_3.4.34 expect "libstdc" 1 'needs GLIBCXX_3.4.34, and GLIBCXX_3.4.33' --target orin
NEEDS=CXXABI_1.3.16 expect "its ABI" 1 'needs CXXABI_1.3.16, and CXXABI_1.3.15' --target orin
LIBRARY=libfmt.so.9 expect "a library" 1 'lacks libraries: attest needs libfmt.so.9' \
  --target orin
CUDA=12.6 expect "CUDA 12" 4 'missing: libcudart_static.a and libcudadevrt.a of CUDA 12.6' \
  --target orin
grep -q 'missing for JetPack 6: nvcc of CUDA 12 and' "$work/said"
rm -r build/cuda-packages-arm64
touch "$work/offline"
expect "no PyPI" 4 'missing: libcudart_static.a' --target orin
rm "$work/offline"
# On the board itself nothing is fetched for it, and its glibc is what there is. JetPack 6 has CUDA
# 12 and stands on Ubuntu 22.04.
CUDA=12.6 MACHINE=aarch64 expect "JetPack 6" 0 '^it is for JetPack 6$' --target orin
if grep -q 'missing' "$work/said"; then echo "it says that what it made is missing"; exit 1; fi
CUDA=12.6 MACHINE=aarch64 NEEDS=GLIBC_2.36 expect "glibc of JetPack 6" 1 \
  'needs GLIBC_2.36, and GLIBC_2.35 is the newest' --target orin
MACHINE=aarch64 NEEDS=GLIBC_2.39 expect "on a board" 0 'needs glibc 2.39' --target orin
if [[ -e build/cuda-packages-arm64 ]] || grep -q toolchain "$work/called"; then
  echo "on a board it fetches, or builds for another machine"
  exit 1
fi
expect "an unknown target" 64 'orin is known' --target thor
expect "two architectures" 64 'cannot be given with --target orin' --target orin --arch 90a
echo '# R35 (release), REVISION: 4.1' >"$work/machine/etc/nv_tegra_release"
expect "JetPack 5" 4 'JetPack 5 or older \(R35\) is not supported: .*install JetPack 6'
