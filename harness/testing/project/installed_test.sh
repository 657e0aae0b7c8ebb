#!/usr/bin/env bash
# Installs the whole build into an empty folder, moves it, and uses it there. The program finds its
# worker, its plugins and its suites beside itself, wherever it is called from. So does a program of
# another project that judges its own implementation.
# usage: installed_test.sh BUILD_DIR CMAKE CXX      exit code 77 (skipped): the program is not built
set -euo pipefail
build=$1 cmake=$2 cxx=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ ! -x $build/bin/attest ]]; then
  echo "bin/attest has not been built"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if cache=$(command -v ccache); then
  export CMAKE_CXX_COMPILER_LAUNCHER=$cache CCACHE_BASEDIR=$work
fi
"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"
mkdir "$work/elsewhere"
cd "$work/elsewhere"

# Threads that wait sleep, as in other tests.
clean() { env -i HOME="$PWD" OMP_WAIT_POLICY=passive "$@"; }
attest() { clean "$work/prefix/bin/attest" "$@"; }

attest list >list
for plugin in "$work"/prefix/lib*/attest/plugins/*.so "$work"/prefix/lib/*/attest/plugins/*.so; do
  [[ -e $plugin ]] || continue
  name=$(basename "$plugin" .so)
  if ! grep -qE "(^|[^a-z_])$name" list; then
    echo "attest list does not name $name:"
    cat list
    exit 1
  fi
done

for file in man/man1/attest.1 man/man1/attest-run.1 bash-completion/completions/attest \
  zsh/site-functions/_attest fish/vendor_completions.d/attest.fish; do
  [[ -s $work/prefix/share/$file ]] || { echo "share/$file is not installed"; exit 1; }
done

attest run smoke --case softmax/dense,deformable/levels,backward/masked --impl 'naive*' \
  --dtype f32 --budget 0.1 -o results.jsonl
grep -q '"pass"' results.jsonl
if grep -F -e "$build" -e "$work" results.jsonl; then
  echo "the lines above name a folder of this machine"
  exit 1
fi

# A project that knows nothing but the prefix. Its own plugin, as `attest new` writes it, is judged
# by its own GoogleTest program.
cp -r "$here/consumer_gtest" project
(cd project && attest new mine >../new)
grep -q -e "-I$work/prefix/include " new && [[ -e $work/prefix/include/attest.h ]] ||
  { cat new; echo "attest new does not name the folder of attest.h"; exit 1; }
"$cmake" -G Ninja -S project -B project/build -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >log 2>&1 &&
  "$cmake" --build project/build >log 2>&1 || { cat log; exit 1; }
clean project/build/mine_conformance --gtest_filter='smoke/softmax/dense/*' \
  --gtest_output=xml:judged.xml >log || { cat log; exit 1; }
grep -q '\[       OK \] smoke/softmax/dense/bf16.mine' log || { cat log; exit 1; }
grep -q 'testcase name="mine"' judged.xml
discovered=$(cd project/build && "${cmake%cmake}ctest" -N)
[[ $(grep -c 'smoke/softmax/dense/f32.mine' <<<"$discovered") == 1 ]] ||
  { echo "gtest_discover_tests does not find the tests"; exit 1; }
