#!/usr/bin/env bash
# Checks that every source but those of tests compiles by itself: a unity build, in which several
# are compiled at once, hides what one of them does not include.
# usage: sources_alone.sh SOURCE_DIR CMAKE
# Prints what does not compile. Exit code 1 if anything does not.
set -euo pipefail
source=$1 cmake=$2
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

"$cmake" -G Ninja -S "$source" -B "$build" -DATTEST_TESTS=OFF -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_UNITY_BUILD=OFF -DCMAKE_C_COMPILER_LAUNCHER= -DCMAKE_CXX_COMPILER_LAUNCHER= \
  >"$build/log" || { cat "$build/log"; exit 1; }
"$cmake" --build "$build" --target attest_commit >/dev/null
cd "$build"
sed -n 's/^ *"command": "\(.*\)",$/\1/p' compile_commands.json |
  sed 's/\\"/"/g; s/\\\\/\\/g; s/ -o [^ ]* -c / -fsyntax-only /' >commands
[[ -s commands ]] || { echo "no source was found"; exit 1; }
xargs -d '\n' -n 1 -P 2 bash -c <commands || exit 1
