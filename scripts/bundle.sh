#!/usr/bin/env bash
# Packs what a machine with a GPU needs into one folder that runs wherever it is copied: programs,
# plugins, suites, scripts, and the libraries that they link, except glibc's. CUDA's runtime is
# inside the plugins; the driver is the machine's own.
#   scripts/bundle.sh                          for sm_90a, into build/bundle
#   scripts/bundle.sh --arch 87 -o FOLDER      for another architecture, as nvcc names it
#   scripts/bundle.sh --target orin            for a Jetson Orin under JetPack 7.2, on x86-64 too:
#                                              there it needs CUDA 13, and what aarch64.sh sets up.
#                                              On a board with JetPack 6, for JetPack 6
#   scripts/bundle.sh --from BUILD -o FOLDER   from a build tree that is there already
#   scripts/bundle.sh --no-sanitizer           without compute-sanitizer, which takes 40 MiB
# On that machine: FOLDER/scripts/device.sh; on a Jetson board: FOLDER/scripts/orin.sh
# Exit codes: 0; 1 if the bundle is larger than 60 MiB, needs a glibc newer than 2.39 (for Orin: a
# glibc or libstdc++ newer than its JetPack's), needs a library that it lacks, or does not start; 3
# if a bundle for Orin lacks implementations for its GPU, which are named; 4 if set-up or build
# fails, or if what it needs for the board is not available, which is named; 64 for wrong arguments.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/steps.sh"
. "$root/scripts/symbols.sh"
architecture= target= build= folder= with_sanitizer=yes
packages=$root/build/cuda-packages
most_mib=60 limits=("${ubuntu_24_04[0]}")
while (($#)); do
  case $1 in
    --arch | --target | --from | -o)
      [[ -n ${2:-} ]] || { echo "bundle.sh: $1 needs a value" >&2; exit 64; } ;;
  esac
  case $1 in
    -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --arch) architecture=$2; shift ;;
    --target)
      [[ $2 == orin ]] || { echo "bundle.sh: --target $2: orin is known" >&2; exit 64; }
      target=orin with_sanitizer=no
      shift ;;
    --from) build=$2; shift ;;
    -o) folder=$2; shift ;;
    --no-sanitizer) with_sanitizer=no ;;
    *)
      echo "bundle.sh: $1: unknown; known: --arch ARCHITECTURE, --target orin, --from BUILD," \
        "-o FOLDER, --no-sanitizer" >&2
      exit 64 ;;
  esac
  shift
done
folder=${folder:-$root/build/bundle${target:+-$target}}
# Said where CUDA is not that of JetPack 6.
for_jetpack_6="missing for JetPack 6: nvcc of CUDA 12 and its libcudart_static.a for 64-bit Arm,\
 which PyPI does not have; on such a board, scripts/orin.sh in a source tree builds with its own"
cross=
if [[ $target == orin ]]; then
  if [[ $architecture ]]; then
    echo "bundle.sh: --arch cannot be given with --target orin, whose GPU is sm_87" >&2
    exit 64
  fi
  architecture=87
  if [[ $(uname -m) != aarch64 ]]; then cross=yes; fi
fi
architecture=${architecture:-90a}
if jetpack_is_old >&2; then exit 4; fi

marker=$folder/.attest-bundle
if [[ -e $folder && ! -e $marker && -n $(ls -A "$folder") ]]; then
  echo "bundle.sh: $folder is there and is no bundle; name another with -o" >&2
  exit 64
fi
command -v objdump >/dev/null || { echo "bundle.sh: objdump is missing: binutils" >&2; exit 4; }
if [[ -z $build ]]; then
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  [[ -x $nvcc ]] ||
    { echo "bundle.sh: nvcc is not in PATH nor in /usr/local/cuda/bin" >&2; exit 4; }
  if ! grep -qx "sm_${architecture%[af]}" <("$nvcc" --list-gpu-code); then
    known=$("$nvcc" --list-gpu-code | tr -d 'sm_' | xargs)
    echo "bundle.sh: --arch $architecture: this nvcc knows $known, and 90a" >&2
    exit 64
  fi
  build=$root/build/bundle-${target:+$target-}$architecture
  bash "$root/scripts/setup.sh" ${cross:+--aarch64} || exit 4
  bash "$root/scripts/charts.sh" || echo "bundle.sh: goes on without charts in pages" >&2
  bash "$root/scripts/cuda_packages.sh" ||
    echo "bundle.sh: goes on without cudnn_cuda and compute-sanitizer" >&2
  options=(-DATTEST_CUDA_MUTANTS=ON -DATTEST_CUDA_ARCHITECTURES="$architecture-real")
  if [[ $target == orin ]]; then options=(-DATTEST_CUDA_ARCHITECTURES=87); fi  # SASS and PTX
  if [[ $cross ]]; then
    release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
    bash "$root/scripts/aarch64.sh" || exit 4
    bash "$root/scripts/cuda_packages.sh" --arm64 "$release" || {
      echo "bundle.sh: missing: libcudart_static.a and libcudadevrt.a of CUDA $release for 64-bit" \
        "Arm; what helps: nvcc 13.0 or newer, and PyPI; $for_jetpack_6" >&2
      exit 4
    }
    options+=(--toolchain "$root/harness/cmake/aarch64.cmake" -DATTEST_WITH_ONNX=OFF
      -DATTEST_WITH_ONEDNN=OFF)
  fi
  (cd "$root" && cmake --preset release -B "$build" -DATTEST_TESTS=OFF -DATTEST_CUDA=on \
    "${options[@]}") || exit 4
  cmake --build "$build" --parallel "$(nproc)" || exit 4
fi
[[ -e $build/cmake_install.cmake ]] ||
  { echo "bundle.sh: --from $build: no build tree is there" >&2; exit 64; }

rm -rf "$folder"
mkdir -p "$folder" && touch "$marker"
cmake --install "$build" --strip --prefix "$folder" >/dev/null ||
  { echo "bundle.sh: $build is not completely built: cmake --build $build" >&2; exit 4; }
mkdir -p "$folder/scripts"
cp "$root"/scripts/{device.sh,device_mutants.sh,device_peers.py,orin.sh,steps.sh} \
  "$folder/scripts"
for records in "$root"/reports/published/device_*.jsonl; do
  if [[ -e $records ]]; then install -D -m 644 "$records" -t "$folder/reports/published"; fi
done

# Which CUDA a driver has to have, for orin.sh.
sed -n 's/^set(CMAKE_CUDA_COMPILER_VERSION "\(.*\)")$/\1/p' \
  "$build"/CMakeFiles/*/CMakeCUDACompiler.cmake >"$folder/cuda" 2>/dev/null || rm "$folder/cuda"
# JetPack 7.2 has CUDA 13 and Ubuntu 24.04, JetPack 6 has CUDA 12 and Ubuntu 22.04.
jetpack=7.2
if [[ $(cat "$folder/cuda" 2>/dev/null) == 12.* ]]; then jetpack=6; fi
if [[ $target == orin ]]; then
  limits=("${ubuntu_24_04[@]}")
  if [[ $jetpack == 6 ]]; then limits=("${ubuntu_22_04[@]}"); fi
fi

# Programs look for libraries in lib*/attest/bundled first (harness/cmake/install.cmake). Those of
# g++ are added: a machine with a GPU may have older ones, but for an Orin with JetPack 6 or newer.
cmake --install "$build" --strip --component libraries --prefix "$folder" >/dev/null || exit 4
if [[ -z $target ]]; then
  ldd "$folder/bin/attest" | awk '$1 ~ /^lib(stdc[+][+]|gcc_s)[.]so/ { print $3 }' |
    xargs cp -L -t "$(find "$folder" -type d -path '*/attest/bundled')" || exit 4
fi

if [[ $with_sanitizer == yes && -d $packages/sanitizer ]]; then
  cp -r "$packages/sanitizer" "$folder/sanitizer"
fi

# Only those who build against the library would need these.
rm -rf "$folder/include" "$folder/lib/cmake" "$folder"/lib/*.a

mapfile -t files < <(find "$folder" -type f)
newest=$(newest_symbol GLIBC "${files[@]}")
mib=$(du -sm "$folder" | cut -f1)
echo "$folder: $mib MiB, needs ${newest/GLIBC_/glibc } or newer;" \
  "on a machine with a GPU: $(basename "$folder")/scripts/${target:-device}.sh"
echo "to pack it: tar czf $(basename "$folder").tar.gz" \
  "-C $(dirname "$folder") $(basename "$folder")"
if ((mib > most_mib)); then echo "bundle.sh: more than $most_mib MiB" >&2; exit 1; fi
for limit in "${limits[@]}"; do
  if newer=$(newer_than "$limit" "${files[@]}"); then
    echo "bundle.sh: needs $newer, and $limit is the newest that such machines have" >&2
    exit 1
  fi
done
# Where it is tried below, other libraries than those of the bundle may be found.
mapfile -t files < <(find "$folder"/{bin,lib*} -type f)
bundled=$(find "$folder" -type d -path '*/attest/bundled')
missing=$(lacking "${bundled:-/nowhere}" "${files[@]}")
if [[ $missing ]]; then
  echo "bundle.sh: the bundle lacks libraries: ${missing//$'\n'/, }" >&2
  exit 1
fi
if [[ -z $target ]]; then exit 0; fi
echo "it is for JetPack $jetpack"
if [[ $jetpack != 6 ]]; then echo "$for_jetpack_6"; fi
run=()
if [[ $cross ]]; then run=("$root/build/arm64/run"); fi
said=$("${run[@]}" "$folder/bin/attest" --version 2>&1) ||
  { echo "bundle.sh: ${run[*]} $folder/bin/attest --version: $said" >&2; exit 1; }
lacks=()
for name in "${cuda_implementations[@]}" "${cuda_libraries[@]}"; do
  [[ -n $(find "$folder" -name "$name.so") ]] || lacks+=("$name")
done
if ((${#lacks[@]})); then echo "bundle.sh: lacks ${lacks[*]}" >&2; exit 3; fi
