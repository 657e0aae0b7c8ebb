#!/usr/bin/env bash
# Installs the contract into an empty place, builds a project against it there, and looks at what its plugins export. The README's
# C++ example is one of them.
# usage: consumer_test.sh BUILD_DIR CMAKE CC CXX README
set -euo pipefail
build=$1 cmake=$2 cc=$3 cxx=$4 readme=$5
consumer=$(cd "$(dirname "${BASH_SOURCE[0]}")/consumer" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

"$cmake" --install "$build" --prefix "$place/first" --component abi >/dev/null
mv "$place/first" "$place/prefix"  # a package that is unpacked elsewhere works too
if grep -rlF -e "$build" -e "$place" "$place/prefix"; then
  echo "the files above name a folder of this machine"
  exit 1
fi
plugins=(in_c in_cxx) example=()
awk '/^```cpp$/ {on = 1; next} /^```$/ {on = 0} on' "$readme" >"$place/in_readme.cpp"
if [[ -s $place/in_readme.cpp ]]; then
  plugins+=(in_readme)
  example=(-DREADME_EXAMPLE="$place/in_readme.cpp")
fi
"$cmake" -G Ninja -S "$consumer" -B "$place/build" -DCMAKE_PREFIX_PATH="$place/prefix" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" "${example[@]}" >"$place/log" 2>&1 ||
  { cat "$place/log"; exit 1; }
"$cmake" --build "$place/build" >"$place/log" 2>&1 || { cat "$place/log"; exit 1; }

# The header alone is enough too: no CMake, one line.
"$cc" -std=c11 -shared -fPIC -fvisibility=hidden -I"$place/prefix/include" "$consumer/in_c.c" -o "$place/build/one_line.so"

for plugin in "${plugins[@]}"; do
  exported=$(nm -D --defined-only "$place/build/$plugin.so" | awk '{print $3}')
  if [[ $exported != attest_plugin_v1 ]]; then
    printf '%s.so exports more or less than attest_plugin_v1:\n%s\n' "$plugin" "$exported"
    exit 1
  fi
done
nm -D --defined-only "$place/build/one_line.so" | grep -q ' attest_plugin_v1$'
