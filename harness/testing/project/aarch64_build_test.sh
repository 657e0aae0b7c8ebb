#!/usr/bin/env bash
# Builds for 64-bit Arm what the other tests of it run under qemu, and holds sources and programs to
# the compiler and the libraries of a board with JetPack 6.
# usage: aarch64_build_test.sh BUILD_DIR SOURCE_DIR CMAKE
# Exit code 77 (skipped): scripts/aarch64.sh has not set it up, or attest has not been built.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/aarch64_tools.sh"

"$cmake" --preset aarch64 >"$work/said" 2>&1 || die "it does not configure"
"$cmake" --build build/aarch64 --parallel 2 --target attest attest_worker flash_cpu flash_cpu_bf16 \
  window_cpu linear_cpu deformable_cpu flash_backward_cpu kernels_test isolation_test hostile_test \
  trespassers abi_fixtures \
  >"$work/said" 2>&1 || die "it does not build"
compiler=$(sed -n 's/^set(CMAKE_CXX_COMPILER "\(.*\)")$/\1/p' \
  "$arm"/CMakeFiles/*/CMakeCXXCompiler.cmake)
version=$("$compiler" -dumpfullversion)
step "built by g++ $version"

# JetPack 6 has g++ 11. It takes what was built, which is C++20, and the other implementations, but
# for those that need headers of libraries, as C++17.
[[ $version == 11.* ]] || echo "NOT TESTED: the sources by g++ 11, which is not there"
cache=()  # which keeps objects, but not what -fsyntax-only says
if command -v ccache >/dev/null; then cache=(env CCACHE_BASEDIR="$source" ccache); fi
takes() {  # takes SOURCE
  "${cache[@]}" "$compiler" -std=c++17 -fopenmp -O0 -c -o "$work/taken.o" -Wall -Wextra -Werror \
    -Iharness -Iharness/abi -Iimpls -isystem "${run%/*}/usr/include/eigen3" \
    -isystem "${run%/*}/usr/include" "$1" >"$work/said" 2>&1
}
for file in impls/*.cpp; do
  if [[ $file == *_test.cpp ]] || grep -qE 'oneapi/|onednn/|cudnn' "$file"; then continue; fi
  takes "$file" || die "g++ $version does not take $file"
done
echo 'consteval int planted() { return 20; }' >"$work/newer.cpp"
if takes "$work/newer.cpp"; then die "it takes C++20 for C++17"; fi
step "implementations as C++17"

# A board with JetPack 6 has Ubuntu 22.04's libraries, and the arm64 packages here are newer.
. scripts/symbols.sh
mapfile -t built < <(find "$arm"/{bin,plugins,tests} -type f -executable)
for limit in "${ubuntu_22_04[@]}"; do
  if newer_than "$limit" "${built[@]}" >"$work/said"; then die "Ubuntu 22.04 has $limit only"; fi
  newer_than "${limit%%_*}_1" "${built[@]}" >"$work/said" || die "it sees no symbol that is too new"
done
step "symbols of ${#built[@]} files"
