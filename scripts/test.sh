#!/usr/bin/env bash
# Sets up, builds, and runs tests through one ctest.
#   scripts/test.sh                 the plain build and every test that shows something by itself
#   scripts/test.sh --all           the long tests too, and the sanitizers' builds: what CI runs
#   scripts/test.sh [--all] -R Plan whatever ctest takes
# Which tests are long: LONG of attest_test and attest_script_test. Which tests a sanitizer's build
# has: ATTEST_TEST_LABELS in CMakePresets.json, LABELS of attest_test.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
configurations=(test)
chosen=(-LE '(^|[.])long$')
setup=--tests
if [[ ${1:-} == --all ]]; then
  shift
  configurations=(test asan tsan)
  chosen=()
  setup=--all
fi

started=$SECONDS
bash scripts/setup.sh "$setup" || exit 4
if [[ -e /usr/local/cuda/include/cudnn.h ]]; then
  # What cudnn_cuda asks of cuDNN is tested without a device.
  bash scripts/cuda_packages.sh || echo "test.sh: goes on without cudnn_cuda" >&2
fi
mkdir -p build
set_up=$SECONDS
for configuration in "${configurations[@]}"; do
  log=build/$configuration.configure.log
  cmake --preset "$configuration" >"$log" 2>&1 || { cat "$log"; exit 4; }
  cmake --build --preset "$configuration" --parallel "$(nproc)"
done
built=$SECONDS

# One ctest over all build folders, so that its closing lines speak for every test.
{
  echo "# Written by scripts/test.sh."
  for configuration in "${configurations[@]}"; do echo "subdirs($configuration)"; done
} >build/CTestTestfile.cmake
status=0
ctest --test-dir build --output-on-failure --parallel 2 "${chosen[@]}" "$@" || status=$?
echo "set-up $((set_up - started)) s, build $((built - set_up)) s, tests $((SECONDS - built)) s"
exit $status
