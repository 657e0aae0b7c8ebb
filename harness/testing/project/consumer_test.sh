#!/usr/bin/env bash
# Installs the contract into an empty folder, builds a project against it there, and checks what its
# plugins export. The README's C++ example is one of them.
# usage: consumer_test.sh BUILD_DIR CMAKE CC CXX README
set -euo pipefail
build=$1 cmake=$2 cc=$3 cxx=$4 readme=$5
consumer=$(cd "$(dirname "${BASH_SOURCE[0]}")/consumer" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/first" --component abi >/dev/null
mv "$work/first" "$work/prefix"  # a package works wherever it is unpacked
if grep -rlF -e "$build" -e "$work" "$work/prefix"; then
  echo "the files above name a folder of this machine"
  exit 1
fi
plugins=(in_c in_cxx) example=()
awk '/^```cpp$/ {on = 1; next} /^```$/ {on = 0} on' "$readme" >"$work/in_readme.cpp"
if [[ -s $work/in_readme.cpp ]]; then
  plugins+=(in_readme)
  example=(-DREADME_EXAMPLE="$work/in_readme.cpp")
fi
"$cmake" -G Ninja -S "$consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" \
  "${example[@]}" >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
"$cmake" --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# The header alone is enough too, without CMake, with one command.
"$cc" -std=c11 -shared -fPIC -fvisibility=hidden -I"$work/prefix/include" "$consumer/in_c.c" \
  -o "$work/build/one_line.so"

for plugin in "${plugins[@]}"; do
  exported=$(nm -D --defined-only "$work/build/$plugin.so" | awk '{print $3}')
  if [[ $exported != attest_plugin_v1 ]]; then
    printf '%s.so exports more or less than attest_plugin_v1:\n%s\n' "$plugin" "$exported"
    exit 1
  fi
done
nm -D --defined-only "$work/build/one_line.so" | grep -q ' attest_plugin_v1$'
