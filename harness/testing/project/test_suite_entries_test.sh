#!/usr/bin/env bash
# harness/cmake/test_suites.cmake.in makes a ctest entry of each test suite of a program. The entry
# fails if one of its tests does, and is shown as skipped if one is and none fails. log_lines.awk
# names the tests that were skipped.
# usage: test_suite_entries_test.sh BUILD_DIR SOURCE_DIR CMAKE
set -euo pipefail
build=$1 source=$2 cmake=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { cat "$work/said"; echo "FAILED: $*"; exit 1; }
# entries FOLDER PROGRAM LEFT_OUT: has ctest read what is made for FOLDER/tests/PROGRAM.
entries() {
  cat >"$work/configure.cmake" <<CMAKE
set(PROJECT_BINARY_DIR $1)
set(name $2)
set(left_out $3)
set(ATTEST_TEST_PREFIX address.)
set(labels core.some)
set(properties TIMEOUT 60)
configure_file($source/harness/cmake/test_suites.cmake.in $work/CTestTestfile.cmake @ONLY)
CMAKE
  "$cmake" -P "$work/configure.cmake"
}
# run ARGUMENT...: ctest; what it says of each entry is in `results`, in this order.
run() {
  local status=0
  "${cmake%cmake}ctest" --test-dir "$work" "$@" >"$work/said" 2>&1 || status=$?
  sed -nE 's/^ *[0-9]+\/.*: ([^ ]+) \.*[* ]*([A-Za-z]+).*/\1=\2/p' "$work/said" >"$work/results"
  return $status
}
log=$work/Testing/Temporary/LastTest.log
log_lines() { awk -f "$source/harness/testing/project/log_lines.awk"; }

# It lists and prints what a program of GoogleTest does. Only the last three test suites fail.
mkdir "$work/tests"
cat >"$work/tests/fake_test" <<'PROGRAM'
#!/usr/bin/env bash
skips() { printf '[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] %s\n' "$1"; }
case $* in
  "--gtest_list_tests --gtest_filter=-Plain.*:Passes.Long")
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
entries "$work" fake_test "Plain.*:Passes.Long"
run -L core.some && die "no test suite fails"
of=address.fake_test
printf '%s\n' $of.Passes=Passed $of.Skips=Skipped $of.Set/Values=Passed $of.Types/0=Passed \
  $of.Fails=Failed $of.Leaks=Failed $of.Dies=Subprocess | diff - "$work/results" ||
  die "other results"

# Without a test suite there is an error, unless all tests may be left out.
printf '#!/bin/sh\necho "Running main()"\necho "Suite:"\necho "  Test"\n' >"$work/tests/fake_test"
entries "$work" fake_test "Plain.*"
run && die "tests of no test suite are an error"
grep -q 'tests/fake_test:' "$work/said" || die "which program?"
printf '#!/bin/sh\n' >"$work/tests/fake_test"
run || die "all tests are left out"
entries "$work" fake_test ""
run && die "an empty list is an error"
rm "$work/tests/fake_test"
run && die "it is not built"
grep -q 'fake_test_NOT_BUILT.*Not Run' "$work/said" || die "not built"

# GoogleTest itself says that it skips in the words that are looked for.
export ATTEST_SHARED_DATA=$work/none
entries "$build" inputs_test ""
run -R RealImage || die "a test suite of inputs_test that skips is no failure"
of=address.inputs_test.All/RealImage
diff <(echo $of=Skipped) "$work/results" || die "a test suite of inputs_test is not skipped"
printf "$of: skipped All/RealImage.BecomesTokens/%s\n" 0 1 2 | diff - <(log_lines <"$log") ||
  die "the skipped tests are not named"
[[ -z $(sed 's/address[.]//' "$log" | log_lines) ]] || die "ctest names those of the plain build"
entries "$build" inputs_test "*"
run || die "all tests of inputs_test are left out"
