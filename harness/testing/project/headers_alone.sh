#!/usr/bin/env bash
# Checks that every header compiles alone: the contract as C11 and as C++17, those of plugins as
# C++17, all others as C++20. A file that is included once for each instruction set (*-inl.hpp) is
# not a header of its own. One that its own source includes first (x.cpp begins with x.hpp) is
# compiled alone with that, by sources_alone.sh.
#
# Many headers include one of a few large ones. A precompiled header spares these the time to parse
# it. That hides no missing include: what a header includes is checked by itself, and below its
# includes a header sees the same with and without the precompiled one. So only a header whose
# includes stand above everything else gets it.
#
# If ccache is there, what has not changed is not compiled again. All paths are relative to a folder
# of this script, so that they are the same in each run.
# usage: headers_alone.sh CC CXX SOURCE_DIR
# Prints what does not compile. Exit code 1 if anything does not.
set -uo pipefail
cc=$1 cxx=$2 source=source
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$(realpath "$3")" "$work/$source"
cd "$work" || exit 1
: >empty
cache=$(command -v ccache || true)
# ccache is told by the compiler what a header includes, so it need not preprocess, and takes a sum
# instead of the 120 MB of a precompiled header.
export CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
flags=(-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror -fopenmp
  -I"$source/harness" -I"$source/harness/abi" -I"$source")

# alone HEADER COMPILER...: compiles an empty file that includes the header. As the main file, a
# header would give a warning about its #pragma once.
alone() {
  local header=$1
  shift
  ${cache:+"$cache"} "$@" "${flags[@]}" -O0 -MD -c -o object -include "$header" empty ||
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

# including NAME: the headers that include NAME, by themselves or through others.
including() {
  find "$source/harness" "$source/reports" -name '*.hpp' -exec awk -v source="$source/" \
    -v name="$1" '
      FNR == 1 {
        file = substr(FILENAME, length(source) + 1)
        sub(/^harness\//, "", file)
        below = 0
      }
      /^#include/ && below { unordered[file] }
      /^#include "/ { from[++count] = file; split($0, parts, "\""); to[count] = parts[2] }
      !/^(#include|#pragma once|\/\/|$)/ { below = 1 }
      END {
        found[name]
        do {
          grows = 0
          for (i = 1; i <= count; ++i)
            if ((to[i] in found) && !(from[i] in found) && !(from[i] in unordered)) {
              found[from[i]]
              grows = 1
            }
        } while (grows)
        delete found[name]
        for (file in found) print file
      }' {} +
}

declare -A precompiled  # of a header without harness/: what to include before it
for large in core/operations/operation.hpp core/record/record.hpp; do  # the larger one last
  [[ -e $source/harness/$large ]] || continue
  stub=$(basename "$large")
  echo "#include \"$large\"" >"$stub"
  ${cache:+"$cache"} "$cxx" -x c++-header -std=c++20 -I"$source/impls" "${flags[@]}" -MD "$stub" \
    -o "$stub.gch" 2>/dev/null || continue
  b2sum "$stub.gch" >"$stub.gch.sum"
  while IFS= read -r header; do precompiled[$header]=$stub; done < <(including "$large")
done

status=0
# -Wpadded: a hole in a struct of the contract is a byte whose meaning nobody can add later.
alone "$source/harness/abi/attest.h" "$cc" -x c -std=c11 -Wpadded -pedantic || status=1
alone "$source/harness/abi/attest.h" "$cxx" -x c++ -std=c++17 -pedantic || status=1
if [[ -e $source/harness/abi/attest.hpp ]]; then
  alone "$source/harness/abi/attest.hpp" "$cxx" -x c++ -std=c++17 || status=1
  alone "$source/harness/abi/attest.hpp" "$cxx" -x c++ -std=c++20 || status=1
fi
while IFS= read -r header; do
  name=${header#"$source"/}
  stub=${precompiled[${name#harness/}]:-}
  first_in_its_source "$header" ||
    alone "$header" "$cxx" -x c++ -std=c++20 -I"$source/impls" ${stub:+-include "$stub"} ||
    status=1
done < <(find "$source/harness" "$source/reports" -name '*.hpp' \
  -not -path "$source/harness/abi/*" | sort)
while IFS= read -r header; do
  first_in_its_source "$header" ||
    alone "$header" "$cxx" -x c++ -std=c++17 -I"$source/impls" || status=1
done < <(find "$source/impls" -name '*.hpp' -not -name '*-inl.hpp' | sort)
exit $status
