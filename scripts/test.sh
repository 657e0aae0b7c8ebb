#!/usr/bin/env bash
# Sets up, builds, and runs every test through one ctest: the plain build, then the sanitizers on what is worth their time.
#   scripts/test.sh                 all
#   scripts/test.sh -R Problem      whatever ctest takes
# Which tests a sanitizer build has: ATTEST_TEST_LABELS in CMakePresets.json, the LABELS of attest_test.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
configurations=(test asan tsan)
jobs=$(nproc)

bash scripts/setup.sh --tests || exit 4
if [[ -e /usr/local/cuda/include/cudnn.h ]]; then  # what cudnn_cuda asks of cuDNN is tested without a device
  bash scripts/cuda_packages.sh || echo "test.sh: goes on without cudnn_cuda" >&2
fi
mkdir -p build
for configuration in "${configurations[@]}"; do
  log=build/$configuration.configure.log
  cmake --preset "$configuration" >"$log" 2>&1 || { cat "$log"; exit 4; }
  cmake --build --preset "$configuration" --parallel "$jobs"
done

# One ctest over all build folders, so that its closing lines speak for every test.
{
  echo "# Written by scripts/test.sh."
  for configuration in "${configurations[@]}"; do echo "subdirs($configuration)"; done
} >build/CTestTestfile.cmake
exec ctest --test-dir build --output-on-failure --parallel 2 "$@"
