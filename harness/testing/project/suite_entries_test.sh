#!/usr/bin/env bash
# harness/cmake/suites.cmake.in makes a ctest entry of each suite of a program. The suite fails if
# one of its tests does, and is shown as skipped if one is and none fails.
# usage: suite_entries_test.sh SOURCE_DIR CMAKE
set -euo pipefail
source=$1 cmake=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tests"
# It lists and prints what a program of GoogleTest does. Only the last three suites fail.
cat >"$work/tests/fake_test" <<'PROGRAM'
#!/usr/bin/env bash
skips() { printf '[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] %s\n' "$1"; }
case $* in
  "--gtest_list_tests --gtest_filter=-Plain.*:Passes.Long")
    echo "Running main() from gtest_main.cc"
    printf '%s.\n  Test\n' Passes Skips Set/Values 'Types/0.  # TypeParam = int' Fails Leaks Dies ;;
  --gtest_filter=Skips.*) skips Skips.Test ;;
  --gtest_filter=Fails.*)
    skips Fails.One
    printf '[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Fails.Two\n\n 1 FAILED TEST\n'
    exit 1 ;;
  --gtest_filter=Leaks.*)
    skips Leaks.Test
    echo "ERROR: LeakSanitizer: detected memory leaks"
    exit 1 ;;
  --gtest_filter=Dies.*)
    echo "[  SKIPPED ] Dies.One (0 ms)"
    kill -ABRT $$ ;;
  --gtest_filter=*.*-Plain.*:Passes.Long) echo "[  PASSED  ] 1 test." ;;
  *) exit 2 ;;
esac
PROGRAM
chmod +x "$work/tests/fake_test"
cat >"$work/configure.cmake" <<CMAKE
set(PROJECT_BINARY_DIR $work)
set(name fake_test)
set(left_out Plain.*:Passes.Long)
set(ATTEST_TEST_PREFIX address.)
set(labels core.fake)
set(properties TIMEOUT 10)
configure_file($source/harness/cmake/suites.cmake.in $work/CTestTestfile.cmake @ONLY)
CMAKE
"$cmake" -P "$work/configure.cmake"
# expect RESULT ...: what the last run says of each suite, in this order.
expect() {
  "${cmake%cmake}ctest" --test-dir "$work" -L core.fake >"$work/said" 2>&1 || true
  sed -nE 's/^ *[0-9]+\/.*: ([^ ]+) \.*[* ]*([A-Za-z]+).*/\1=\2/p' "$work/said" >"$work/results"
  if ! diff <(printf '%s\n' "$@") "$work/results"; then
    cat "$work/said"
    echo "FAILED: expected $*"
    exit 1
  fi
}

of=address.fake_test
expect $of.Passes=Passed $of.Skips=Skipped $of.Set/Values=Passed $of.Types/0=Passed \
  $of.Fails=Failed $of.Leaks=Failed $of.Dies=Subprocess
rm "$work/tests/fake_test"
"${cmake%cmake}ctest" --test-dir "$work" >"$work/said" 2>&1 && { cat "$work/said"; exit 1; }
grep -q 'fake_test_NOT_BUILT.*Not Run' "$work/said"
