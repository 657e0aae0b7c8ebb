#!/usr/bin/env bash
# Checks that every header compiles alone: the contract as C11 and as C++17, those of plugins as
# C++17, all others as C++20. A file that is included once for each instruction set (*-inl.hpp) is
# not a header of its own. One that its own source includes first (x.cpp begins with x.hpp) is
# compiled alone with that, by sources_alone.sh.
# usage: headers_alone.sh CC CXX SOURCE_DIR [INCLUDE_DIR...]
# Prints what does not compile. Exit code 1 if anything does not.
set -uo pipefail
cc=$1 cxx=$2 source=$3
shift 3
includes=()
for folder; do includes+=(-I"$folder"); done
warnings=(-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror)

# alone HEADER COMPILER...: compiles an empty file that includes the header. As the main file, a
# header would give a warning about its #pragma once.
alone() {
  local header=$1
  shift
  "$@" "${warnings[@]}" -I"$source/harness" -I"$source/harness/abi" -I"$source" "${includes[@]}" \
    -fopenmp -fsyntax-only -include "$header" /dev/null ||
    { echo "does not compile alone: ${header#"$source"/} ($*)"; return 1; }
}

# Whether the source beside HEADER includes it before anything else.
first_in_its_source() {
  local source=${1%.hpp}.cpp first
  [[ -e $source ]] || return 1
  first=$(grep -m1 '^#include' "$source") || return 1
  first=${first#*[\"<]}
  [[ $1 == */${first%[\">]*} ]]
}

status=0
# -Wpadded: a hole in a struct of the contract is a byte whose meaning nobody can add later.
alone "$source/harness/abi/attest.h" "$cc" -x c -std=c11 -Wpadded -pedantic || status=1
alone "$source/harness/abi/attest.h" "$cxx" -x c++ -std=c++17 -pedantic || status=1
if [[ -e $source/harness/abi/attest.hpp ]]; then
  alone "$source/harness/abi/attest.hpp" "$cxx" -x c++ -std=c++17 || status=1
  alone "$source/harness/abi/attest.hpp" "$cxx" -x c++ -std=c++20 || status=1
fi
while IFS= read -r header; do
  first_in_its_source "$header" ||
    alone "$header" "$cxx" -x c++ -std=c++20 -I"$source/impls" || status=1
done < <(find "$source/harness" "$source/reports" -name '*.hpp' \
  -not -path "$source/harness/abi/*" | sort)
while IFS= read -r header; do
  first_in_its_source "$header" ||
    alone "$header" "$cxx" -x c++ -std=c++17 -I"$source/impls" || status=1
done < <(find "$source/impls" -name '*.hpp' -not -name '*-inl.hpp' | sort)
exit $status
