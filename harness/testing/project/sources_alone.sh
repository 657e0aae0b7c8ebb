#!/usr/bin/env bash
# Checks that every source but those of tests compiles by itself: a unity build, in which several
# are compiled at once, hides what one of them does not include. It takes the slice of the sources
# that slice.sh chooses; ATTEST_WHOLE=1 takes all of them.
# usage: sources_alone.sh SOURCE_DIR CMAKE
# Prints the slice, and what does not compile. Exit code 1 if anything does not.
set -euo pipefail
source=$(realpath "$1") cmake=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

"$cmake" -G Ninja -S "$source" -B "$build" -DATTEST_TESTS=OFF -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_UNITY_BUILD=OFF -DCMAKE_C_COMPILER_LAUNCHER= -DCMAKE_CXX_COMPILER_LAUNCHER= \
  >"$build/log" || { cat "$build/log"; exit 1; }
"$cmake" --build "$build" --target attest_commit >/dev/null
cd "$build"
sed -n 's/^ *"command": "\(.*\)",$/\1/p' compile_commands.json |
  sed 's/\\"/"/g; s/\\\\/\\/g; s/ -o [^ ]* -c / -fsyntax-only /' >commands
# Each command ends with its source. What the build writes lies in $build. A source that includes
# its header first compiles the header alone, too.
sed "s:.* ::; s:^$source/::; s:^$build/::" commands >sources
sed 's:\(.*\)\.cpp$:& \1.hpp:' sources | bash "$here/slice.sh" sources_alone "$source" 31 >slice
awk 'NR == FNR { wanted[$1]; next } FNR in wanted' \
  <(grep -nxFf slice sources | cut -d : -f 1) commands >wanted
[[ $(wc -l <wanted) -ge $(wc -l <slice) ]] || { echo "sources of the slice are lost"; exit 1; }
xargs -r -d '\n' -n 1 -P 2 bash -c <wanted || exit 1
