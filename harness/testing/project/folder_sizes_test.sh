#!/usr/bin/env bash
# Plants folders with one source too many in a small tree, and expects folder_sizes.sh to name each
# with its count, and to count neither tests nor what is for tests. A tree without sources fails.
# usage: folder_sizes_test.sh folder_sizes.sh
set -euo pipefail
folder_sizes=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

write() {  # write FOLDER SUFFIX NUMBER...: an empty file FOLDER/xNUMBER.SUFFIX each
  local number
  mkdir -p "$tree/$1"
  for number in "${@:3}"; do : >"$tree/$1/x$number$2"; done
}
expect() {  # expect LINES
  local found
  found=$("$folder_sizes" "$tree") || true
  [[ $found == "$1" ]] || { echo "expected '$1', found '$found'"; failures=1; }
}

mkdir "$tree"/{harness,impls,reports}
expect 'folder_sizes.sh: no sources'
if "$folder_sizes" "$tree" >/dev/null; then
  echo "a tree without sources is no failure"
  failures=1
fi

write harness/core/judge .cpp {01..13}
write harness/core/judge .hpp {01..12}
write harness/core/judge/parts .hpp {01..25}
write harness/core/judge _test.cpp {01..13}
write harness/core/judge _fuzz.cpp 01
write harness/core/judge .md {01..13}
write harness/core/judge .py {01..13}
write harness/core/judge/testing .hpp {01..30}
write harness/testing .cpp {01..30}
write harness/core/judge/corpus/one .c {01..30}
write impls .cu 01
write reports .cpp 01
expect ''
"$folder_sizes" "$tree" || { echo "a good tree is refused"; failures=1; }

write harness/core/judge .hpp 13
advice='a folder of more than 25 has two jobs: split it'
expect "harness/core/judge: 26 sources; $advice"
write impls .cu {02..20}
write impls .h {01..02}
write impls .c {01..02}
write impls .cuh {01..03}
write impls .js 01
write impls .inl 01
expect "harness/core/judge: 26 sources; $advice"$'\n'"impls: 29 sources; $advice"
if "$folder_sizes" "$tree" >/dev/null; then
  echo "a folder that is too large is no failure"
  failures=1
fi
exit $failures
