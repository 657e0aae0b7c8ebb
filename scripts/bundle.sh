#!/usr/bin/env bash
# Packs what a machine with a GPU needs into one folder that runs wherever it is copied: programs,
# plugins, suites, scripts, and the libraries that they link, except glibc's. CUDA's runtime is
# inside the plugins; the driver is the machine's own.
#   scripts/bundle.sh                          for sm_90a, into build/bundle
#   scripts/bundle.sh --arch 87 -o FOLDER      for another architecture, as nvcc names it
#   scripts/bundle.sh --from BUILD -o FOLDER   from a build tree that is there already
#   scripts/bundle.sh --no-sanitizer           without compute-sanitizer, which takes 40 MiB
# On that machine: FOLDER/scripts/device.sh; on a Jetson board: FOLDER/scripts/orin.sh
# Exit codes: 0; 1 if the bundle is larger than 60 MiB or needs a glibc newer than 2.39; 4 if set-up
# or build fails; 64 for wrong arguments.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
architecture=90a build= folder=$root/build/bundle with_sanitizer=yes
packages=$root/build/cuda-packages
most_mib=60 newest_glibc=2.39
while (($#)); do
  case $1 in
    --arch | --from | -o)
      [[ -n ${2:-} ]] || { echo "bundle.sh: $1 needs a value" >&2; exit 64; } ;;
  esac
  case $1 in
    -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --arch) architecture=$2; shift ;;
    --from) build=$2; shift ;;
    -o) folder=$2; shift ;;
    --no-sanitizer) with_sanitizer=no ;;
    *)
      echo "bundle.sh: $1: unknown; known: --arch ARCHITECTURE, --from BUILD, -o FOLDER," \
        "--no-sanitizer" >&2
      exit 64 ;;
  esac
  shift
done

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
  if ! "$nvcc" --list-gpu-code | grep -qx "sm_${architecture%[af]}"; then
    known=$("$nvcc" --list-gpu-code | tr -d 'sm_' | xargs)
    echo "bundle.sh: --arch $architecture: this nvcc knows $known, and 90a" >&2
    exit 64
  fi
  build=$root/build/bundle-$architecture
  bash "$root/scripts/setup.sh" || exit 4
  bash "$root/scripts/charts.sh" || echo "bundle.sh: goes on without charts in pages" >&2
  bash "$root/scripts/cuda_packages.sh" ||
    echo "bundle.sh: goes on without cudnn_cuda and compute-sanitizer" >&2
  (cd "$root" && cmake --preset release -B "$build" -DATTEST_TESTS=OFF -DATTEST_CUDA=on \
    -DATTEST_CUDA_MUTANTS=ON -DATTEST_CUDA_ARCHITECTURES="$architecture-real") || exit 4
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

# Programs look for libraries in lib*/attest/bundled first (harness/cmake/install.cmake). Those of
# g++ are added: a machine with a GPU may have older ones.
cmake --install "$build" --strip --component libraries --prefix "$folder" >/dev/null || exit 4
ldd "$folder/bin/attest" | awk '$1 ~ /^lib(stdc[+][+]|gcc_s)[.]so/ { print $3 }' |
  xargs cp -L -t "$(find "$folder" -type d -path '*/attest/bundled')" || exit 4

if [[ $with_sanitizer == yes && -d $packages/sanitizer ]]; then
  cp -r "$packages/sanitizer" "$folder/sanitizer"
fi

# Only those who build against the library would need these.
rm -rf "$folder/include" "$folder/lib/cmake" "$folder"/lib/*.a

newest=$({ find "$folder" -type f -exec objdump -T {} + 2>/dev/null || true; } |
  grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
mib=$(du -sm "$folder" | cut -f1)
echo "$folder: $mib MiB, needs ${newest/GLIBC_/glibc } or newer;" \
  "on a machine with a GPU: $(basename "$folder")/scripts/device.sh"
if ((mib > most_mib)); then echo "bundle.sh: more than $most_mib MiB" >&2; exit 1; fi
needed=$(printf '%s\n' "${newest#GLIBC_}" $newest_glibc | sort -V | tail -1)
if [[ $needed != "$newest_glibc" ]]; then
  echo "bundle.sh: needs a glibc newer than $newest_glibc" >&2
  exit 1
fi
