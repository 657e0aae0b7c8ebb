#!/usr/bin/env bash
# Moves what a build tree needs to run, and uses it there: suites and attest.h are found beside the
# program, and no library in the working directory.
# usage: moved_build_test.sh BUILD_DIR CC     exit code 77 (skipped): the program has not been built
set -euo pipefail
build=$1 cc=$2
[[ -x $build/bin/attest && -e $build/plugins/naive.so ]] ||
  { echo "bin/attest or plugins/naive.so has not been built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/moved"
cp -r "$build"/{bin,suites,include} "$work/moved"
mkdir "$work/moved/plugins"
cp "$build/plugins/naive.so" "$work/moved/plugins"
cd "$work"
die() { echo "$*"; exit 1; }

# Broken libraries of the names that the programs need.
mkdir broken
for library in $(ldd moved/bin/attest moved/bin/attest-worker | awk '/=>/ {print $1}'); do
  echo "no library" >"broken/$library"
done
[[ $(ls broken) ]] || die "ldd names no library"
(cd broken && ../moved/bin/attest run 'softmax seq_len_q=8 head_dim=8' --impl naive --judge-only) \
  >said 2>&1 || { cat said; die "a library of the working directory is loaded"; }

# The source tree may be there: a suite that only the copy has shows where they are looked for.
[[ -e moved/suites/smoke.json ]] || die "the build tree has no suites"
sed 's/"name": "smoke"/"name": "elsewhere"/' moved/suites/smoke.json >moved/suites/elsewhere.json
moved/bin/attest run elsewhere --impl naive --case softmax/dense --dtype f32 --judge-only \
  --relations none >said 2>&1 || { cat said; die "a suite beside the program is not found"; }
grep -q 'elsewhere/softmax/dense f32' said || { cat said; die "another suite was run"; }

moved/bin/attest new mine --c >said
folder=$(grep -o -e '-I[^ ]*' said | cut -c 3-)
[[ $folder == "$work/moved/include" && -e $folder/attest.h ]] ||
  die "it names '$folder' for attest.h"
"$cc" -O1 -shared -fPIC -fvisibility=hidden -I"$folder" mine.c -o mine.so -lm
rm -r moved/include
moved/bin/attest new again --c >said 2>&1
grep -q 'put its folder in the place of FOLDER' said ||
  die "it does not say that attest.h is not there"
