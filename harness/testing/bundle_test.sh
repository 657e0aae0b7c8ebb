#!/usr/bin/env bash
# Packs a bundle of this build, moves it, and uses it without anything of this machine but glibc; then what scripts/device.sh says where
# there is no GPU, and where one of its steps fails.
# usage: bundle_test.sh BUILD_DIR SOURCE_DIR FAKE_CUDA     exit code 77 (skipped) where the program has not been built
set -euo pipefail
build=$1 source=$2 fake_cuda=$3
[[ -x $build/bin/attest ]] || { echo "bin/attest has not been built"; exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
die() { echo "$*"; exit 1; }

"$source/scripts/bundle.sh" --from "$build" --no-sanitizer -o "$place/first" | tee "$place/said"
grep -qE 'MiB, needs glibc 2\.[0-9]+ or newer' "$place/said" || die "it does not say which glibc it needs"
mv "$place/first" "$place/bundle"
mkdir "$place/elsewhere"
cd "$place/elsewhere"
clean() { env -i HOME="$PWD" PATH=/usr/bin:/bin "$@"; }

# Whatever is not glibc's comes from the bundle, and needs no build folder.
for program in "$place"/bundle/bin/attest "$place"/bundle/libexec/attest/attest-worker; do
  clean env LD_TRACE_LOADED_OBJECTS=1 "$program" | awk '$2 == "=>" { print $3 }' >libraries
  if grep -vE "^$place/bundle/|/(libc|libm|libdl|libpthread|librt)\.so" libraries; then die "$program takes the libraries above from this machine"; fi
  [[ $(grep -c "^$place/bundle/" libraries) -ge 3 ]] || die "$program takes no libraries from the bundle"
done
clean "$place/bundle/bin/attest" run smoke --impl naive --dtype f32 --judge-only >/dev/null

# A folder that is no bundle is not written over, be it an installation.
mkdir -p taken/bin && touch taken/bin/attest
if "$source/scripts/bundle.sh" --from "$build" --no-sanitizer -o "$PWD/taken" 2>said; then die "it wrote over a folder of somebody's"; fi
[[ -e taken/bin/attest ]] && grep -q 'is no bundle' said

status=0
clean env ATTEST_CUDA_DRIVER=/nowhere/libcuda.so.1 "$place/bundle/scripts/device.sh" -o results 2>said || status=$?
[[ $status == 4 ]] && grep -q 'no GPU' said || { cat said; die "without a GPU it exits with $status"; }
status=0
clean "$place/bundle/scripts/device.sh" --fast 2>/dev/null || status=$?
[[ $status == 64 ]] || die "an unknown argument is taken"
# A device, and no implementation for it: each step that fails is named. The checker is one that finds something in one problem.
mkdir "$place/bundle/sanitizer"
cat >"$place/bundle/sanitizer/compute-sanitizer" <<'CHECKER'
#!/bin/sh
for problem; do :; done
case "$2 $problem" in
  *linear*) exit 4 ;;
  "racecheck "*cu_seqlens*) echo "race"; exit 9 ;;
esac
CHECKER
chmod +x "$place/bundle/sanitizer/compute-sanitizer"
status=0
clean env ATTEST_CUDA_DRIVER="$fake_cuda" "$place/bundle/scripts/device.sh" -o results conformance sanitizer benchmark >said 2>&1 || status=$?
[[ $status == 1 ]] && grep -q 'failed: conformance' said && grep -q 'failed: benchmark' said || { cat said; die "failures end with $status"; }
grep -q "failed: racecheck of '.*cu_seqlens" said && grep -q '^race$' results/sanitizer.txt || { cat said; die "what the checker found is not named"; }
[[ $(grep -c '^failed' said) == 3 ]] || { cat said; die "more is named than failed"; }
