#!/usr/bin/env bash
# Tests what scripts/device_mutants.sh says about bugs that are caught and bugs that get away. Then
# it tries some of the bugs in kernels that run on the host.
# usage: device_mutants_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build=$1 script=$2/scripts/device_mutants.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
die() { echo "$*"; cat said; exit 1; }
mkdir planted
touch planted/{flash,linear,window,deformable}_cuda_planted.so

# A judge that sees all bugs but those in the file `blind`. Kernels in `sick` fail without a bug.
# Those in `lacking` do not take their problems.
cat >attest <<'JUDGE'
#!/usr/bin/env bash
if [[ $1 == list ]]; then echo "x@$(basename "$3") sums up ($(basename "$3"), version 1)"; exit; fi
kernel=$(basename "$3" _planted.so)
for word; do if [[ ${last:-} == -o ]]; then records=$word; fi; last=$word; done
printf '{"type":"result","code":"fail:tolerance"}\n' >"${records:-/dev/null}"
[[ $5 == "x@$(basename "$3")" ]] || exit 64
[[ " $(cat lacking) " != *" $kernel "* ]] || exit 4
[[ $ATTEST_CUDA_BUG != 0 ]] || { [[ " $(cat sick) " == *" $kernel "* ]] && exit 1; exit 0; }
[[ " $(cat blind) " == *" $ATTEST_CUDA_BUG "* ]] || exit 1
JUDGE
# A racecheck that sees the bugs in the file `racy`.
cat >checker <<'CHECKER'
#!/usr/bin/env bash
[[ " $(cat racy) " != *" $ATTEST_CUDA_BUG "* ]] || exit 9
CHECKER
chmod +x attest checker
: >blind; : >sick; : >lacking; : >racy
bugs=$(grep -cE '^  "[0-9]+[|]' "$script")
try() { status=0; "$script" "$@" >said 2>&1 || status=$?; }

try ./attest planted ./checker
caught=$(grep -c 'caught by the judge: fail:tolerance' said)
[[ $status == 0 && $caught == "$bugs" && $(wc -l <said) == "$bugs" ]] ||
  die "all are caught: $status"
echo '7' >blind
try ./attest planted ./checker
[[ $status == 1 ]] && grep -q '^mutants: sink dropped (flash_cuda) got away' said ||
  die "one that gets away: $status"
echo '1 2' >blind
try ./attest planted ./checker
[[ $status == 1 && $(grep -c '^mutants: no .* got away' said) == 4 ]] ||
  die "races that nobody sees: $status"
echo '1 2 7' >racy
try ./attest planted ./checker
[[ $status == 0 && $(grep -c 'caught by racecheck' said) == 4 ]] ||
  die "races that racecheck sees: $status"
try ./attest planted
[[ $status == 1 ]] || die "races without racecheck: $status"
echo '14' >blind
try ./attest planted ./checker
[[ $status == 0 ]] && grep -q 'values given back early (flash_cuda): not seen' said ||
  die "a matter of timing: $status"
: >blind; echo linear_cuda >sick
try ./attest planted ./checker
[[ $status == 1 ]] && grep -q '^mutants: linear_cuda without a bug: fail:tolerance' said ||
  die "a kernel that fails by itself: $status"
if grep 'chunk' said; then die "bugs of a kernel that fails by itself are tried"; fi
: >sick; echo window_cuda >lacking
try ./attest planted ./checker
[[ $status == 0 ]] && grep -q 'window_cuda: not tried' said ||
  die "a problem that is not taken: $status"
: >lacking
try --only 8,9 ./attest planted ./checker
[[ $status == 0 && $(wc -l <said) == 3 ]] || die "two bugs alone: $status"
try --seconds 0 ./attest planted
[[ $status == 1 && $(grep -c 'not tried: 0 s are over' said) == "$bugs" ]] ||
  die "no time: $status"
try ./attest
[[ $status == 64 ]] || die "too few arguments: $status"

# Kernels on the host.
plugins=$build/tests/plugins
[[ -e $plugins/flash_cuda_on_host.so && -x $build/bin/attest ]] ||
  { echo "kernels on the host have not been built"; exit 77; }
export ATTEST_CUDA_DRIVER=$build/tests/fake_cuda.so
try --problems
[[ $status == 0 && $(wc -l <said) -ge 10 ]] || die "its problems: $status"
mapfile -t problems <said
# A case limit: none of them is left out as too slow for naive.
"$build/bin/attest" run --dry-run --case-limit 1h "${problems[@]}" --impl naive >said 2>&1 ||
  { cat said; die "its problems: exit $?"; }
for kernel in flash linear deformable; do
  cp "$plugins/${kernel}_cuda_on_host.so" "planted/${kernel}_cuda_planted.so"
done
try --only 5,7,8,33 "$build/bin/attest" planted
[[ $status == 0 && $(grep -c 'caught by the judge: fail:' said) == 4 ]] ||
  die "bugs on the host: $status"
cp "$build/plugins/linear_cpu.so" planted/linear_cuda_planted.so  # has no bug to plant
try --only 8 "$build/bin/attest" planted
[[ $status == 1 ]] && grep -q '^mutants: chunks lack a tile (linear_cuda) got away' said ||
  die "a kernel without the bug: $status"
