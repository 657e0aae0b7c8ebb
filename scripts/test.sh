#!/usr/bin/env bash
# Sets up, builds, and runs tests through one ctest.
#   scripts/test.sh                  the plain build, and every test that is not long
#   scripts/test.sh --all            the long tests too, and the builds with sanitizers, as CI does
#   scripts/test.sh [--all] -R Plan  any arguments of ctest
# LONG of attest_test and attest_script_test says which tests are long. What they alone need is
# built with --all only. ATTEST_TEST_LABELS in CMakePresets.json, LABELS and PLAIN of attest_test
# say which tests a build with a sanitizer has.
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

# Whether clang 19 is installed with its sanitizers and OpenMP. It compiles the build with ASan in
# some seven tenths of g++'s time, and its sanitizers find more.
clang_sanitizes() {
  clang++-19 -fsanitize=address,undefined -fopenmp -x c++ - -o build/clang_sanitizes 2>/dev/null \
    <<<'int main() {}'
}

started=$SECONDS
bash scripts/setup.sh "$setup" || exit 4
# Bash lets what runs in the background outlive Ctrl-C.
trap 'kill 0' INT
# These take some seconds each, and none waits for another. Long tests alone need the first two, so
# they are fetched during the build.
fetch() { bash "scripts/$1.sh" || echo "test.sh: goes on without $2" >&2; }
for_tests=()
if [[ $setup == --all ]]; then
  fetch axe "the check of pages by axe" & for_tests+=($!)
  fetch aarch64 "the test under emulation" & for_tests+=($!)
fi
fetch charts "charts in pages" & for_build=($!)
# The questions that cudnn_cuda asks cuDNN are tested without a device.
if [[ -e /usr/local/cuda/include/cudnn.h ]]; then
  fetch cuda_packages cudnn_cuda & for_build+=($!)
fi
wait "${for_build[@]}"
mkdir -p build
set_up=$SECONDS
# CMake configures on one CPU, so all configurations at once.
configure() {  # configure CONFIGURATION; a build folder that is configured keeps its compiler
  local compiler=()
  if [[ $1 == asan ]] && clang_sanitizes; then compiler=(CC=clang-19 CXX=clang++-19); fi
  env "${compiler[@]}" cmake --preset "$1" >"build/$1.configure.log" 2>&1
}
configuring=()
for configuration in "${configurations[@]}"; do configure "$configuration" & configuring+=($!); done
for i in "${!configurations[@]}"; do
  wait "${configuring[i]}" ||
    { tail -n 40 "build/${configurations[i]}.configure.log" >&2; exit 4; }
done
for configuration in "${configurations[@]}"; do
  # The default target leaves out what long tests alone need.
  targets=()
  if [[ $configuration == test && $setup == --all ]]; then
    targets=(--target all attest_tests attest_test_plugins)
  fi
  bash scripts/build.sh "build/$configuration/build.log" cmake --build --preset "$configuration" \
    --parallel "$(nproc)" "${targets[@]}" || exit 4
done
wait "${for_tests[@]}"
trap - INT
built=$SECONDS

# One ctest runs over all build folders, so that its last lines cover every test.
{
  echo "# Written by scripts/test.sh."
  for configuration in "${configurations[@]}"; do echo "subdirs($configuration)"; done
} >build/CTestTestfile.cmake
status=0
# clang's ASan names the lines of a failure only if it is told where addr2line is. It keeps frames
# of functions that have returned, and searches all of them after each exception: 2^16 bytes, the
# least that it takes, are enough; the default is 2^20.
asan=external_symbolizer_path=$(type -P addr2line):max_uar_stack_size_log=16
export ASAN_OPTIONS=$asan${ASAN_OPTIONS:+:$ASAN_OPTIONS}
# Two tests compute at once, and two more may wait (WAITS of attest_test). With three, two CPUs take
# a seventh more CPU time, and longer.
cat >build/cpus.json <<'JSON'
{"version": {"major": 1, "minor": 0}, "local": [{"cpus": [{"id": "0"}, {"id": "1"}]}]}
JSON
ctest --test-dir build --output-on-failure --parallel 4 \
  --resource-spec-file "$root/build/cpus.json" "${chosen[@]}" "$@" || status=$?
awk -f harness/testing/project/log_lines.awk build/Testing/Temporary/LastTest.log
echo "set-up $((set_up - started)) s, build $((built - set_up)) s, tests $((SECONDS - built)) s"
exit $status
