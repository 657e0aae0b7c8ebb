#!/usr/bin/env bash
# Tests that the CUDA sources use nothing that JetPack's toolkits lack: neither what is newer than
# CUDA 12.2 (JetPack 6) nor what is gone in 13 (JetPack 7.2), but for what stands behind
# #if CUDART_VERSION. Then it tests that it finds such names.
# usage: cuda_api_test.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the headers of CUDA 12.2 and of 13.2 have. PyPI has both: nvidia-cuda-runtime-cu12==12.2.140
# and nvidia-cuda-runtime==13.2.86. Enter a name here only after both have it.
known='cudaDataType cudaDevAttrComputeCapabilityMajor cudaDevAttrComputeCapabilityMinor
cudaDevAttrL2CacheSize
cudaDevAttrMaxSharedMemoryPerBlockOptin cudaDevAttrMultiProcessorCount cudaDeviceAttr
cudaDeviceGetAttribute cudaDeviceSynchronize cudaEnableDefault cudaError_t cudaFree
cudaFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributes cudaFuncGetAttributes
cudaFuncSetAttribute cudaGetDevice cudaGetErrorString cudaGetLastError cudaLaunchAttribute
cudaLaunchAttributeProgrammaticStreamSerialization cudaLaunchConfig_t cudaLaunchKernelEx cudaMalloc
cudaMemcpy cudaMemcpyHostToDevice cudaMemcpyToSymbol cudaMemsetAsync cudaStream_t cudaSuccess
cudaTypedefs cudaDriverEntryPointQueryResult cudaDriverEntryPointSuccess'

# uses FOLDER: each name of the runtime in its sources that is not known, or gone, with its place;
# host code calls the runtime too. Lines behind #if CUDART_VERSION and its #else do not count.
uses() {
  find "$1" -regex '.*\.\(cu\|cuh\|cpp\|hpp\)' -print0 | sort -z | xargs -0 awk -v known="$known" '
    BEGIN { split(known, names); for (i in names) has[names[i]] = 1 }
    FNR == 1 { depth = guarded = 0 }
    /^ *#if/ { depth++; if (!guarded && /CUDART_VERSION/) guarded = depth }
    /^ *#endif/ { if (guarded == depth) guarded = 0; depth-- }
    guarded { next }
    {
      line = $0
      sub(/\/\/.*/, "", line)
      if (line ~ /[.>](memoryC|c)lockRate/) print FILENAME ":" FNR ": clockRate"
      while (match(line, /cuda[A-Z][A-Za-z0-9_]*/)) {
        name = substr(line, RSTART, RLENGTH)
        before = RSTART > 1 ? substr(line, RSTART - 1, 1) : ""
        line = substr(line, RSTART + RLENGTH)
        if (!(name in has) && before !~ /[A-Za-z0-9_]/) print FILENAME ":" FNR ": " name
      }
    }'
}

found=$(uses "$source/impls")
[[ -z $found ]] || { echo "not in all of CUDA 12.2 to 13.2:"; echo "$found"; exit 1; }

cat >"$work/planted.cu" <<'PLANTED'
int f() { cudaMalloc(0, 0); return properties.clockRate; }
#if CUDART_VERSION >= 12080
void g() { cudaLibraryLoadData(0); }
#else
void g() { cudaOldCall(); }
#endif
void h() { cudaLibraryLoadData(0); }  // not cudaCommented
PLANTED
echo 'void f() { cudaOnlyInACpp(); }' >"$work/planted.cpp"
echo 'inline void f() { cudaOnlyInAHpp(); }' >"$work/planted.hpp"
[[ $(uses "$work") == "$work/planted.cpp:1: cudaOnlyInACpp
$work/planted.cu:1: clockRate
$work/planted.cu:7: cudaLibraryLoadData
$work/planted.hpp:1: cudaOnlyInAHpp" ]] || { echo "planted names:"; uses "$work"; exit 1; }
