#!/usr/bin/env bash
# Every header compiles alone: the contract as C11 and as C++17, those of plugins as C++17, all others as C++20. What is included
# once for each instruction set (*-inl.hpp) is no header of its own.
# usage: headers_alone.sh CC CXX SOURCE_DIR [INCLUDE_DIR...]      prints what does not compile; exit code 1 if anything does not
set -uo pipefail
cc=$1 cxx=$2 source=$3
shift 3
includes=()
for folder; do includes+=(-I"$folder"); done
warnings=(-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror)

alone() {  # alone HEADER COMPILER...; the header is not the main file, where #pragma once would be a warning
  local header=$1
  shift
  "$@" "${warnings[@]}" -I"$source/harness" -I"$source/harness/abi" -I"$source" "${includes[@]}" -fopenmp -fsyntax-only -include "$header" /dev/null ||
    { echo "does not compile alone: ${header#"$source"/} ($*)"; return 1; }
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
  alone "$header" "$cxx" -x c++ -std=c++20 || status=1
done < <(find "$source/harness" "$source/reports" -name '*.hpp' -not -path "$source/harness/abi/*" | sort)
while IFS= read -r header; do
  alone "$header" "$cxx" -x c++ -std=c++17 -I"$source/impls" || status=1
done < <(find "$source/impls" -name '*.hpp' -not -name '*-inl.hpp' | sort)
exit $status
