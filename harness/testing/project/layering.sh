#!/usr/bin/env bash
# Checks that dependencies point one way. A folder of harness/core includes only itself and the
# folders before it in the list below. The core names no implementation, suite or report. Front
# ends include the core, implementations only the contract, reports only records, statistics and
# data sheets. No two components include each other, directly or through others. In softmax
# attention the folders have an order, too, and the code that counts events does not know the fills.
# usage: layering.sh SOURCE_DIR      prints each violation as file:line; exit code 1 if there is any
set -euo pipefail
cd "$1"
folders=(tensor datasheets operations problem device judge isolation inputs vectors statistics
  measure record worker run session)
violations=$(mktemp)
trap 'rm -f "$violations"' EXIT

sources() { find "$@" -regex '.*\.\(h\|hpp\|cpp\|c\|cu\|cuh\)' -print0 2>/dev/null; }
report() { awk -v why="$1" '{print $0 "   <- " why}' >>"$violations"; }

# includes WHAT FOLDER...: quoted includes there, as file:line:#include "..."
includes() { sources "$@" | xargs -0 -r grep -nH '^ *# *include *"' || true; }

# The folders that may be included, as a regular expression for grep -v.
allowed=""
for folder in "${folders[@]}"; do
  allowed+="${allowed:+|}$folder"
  if [[ -d harness/core/$folder ]]; then
    includes "harness/core/$folder" | grep '"core/' | grep -vE "\"core/($allowed)/" |
      report "$folder may include only core/($allowed)" || true
  fi
done

softmax=harness/core/operations/softmax
allowed="[a-z_]*\\.hpp\"|testing/"
for folder in problem sigma golden closed_form fills relations events; do
  allowed+="|$folder/"
  includes $softmax/$folder | grep '"core/operations/softmax/' |
    grep -vE "\"core/operations/softmax/($allowed)" |
    report "$folder comes before that folder (the order is in harness/core/README.md)" || true
done
includes $softmax/events | grep -E '"core/operations/softmax/(closed_form|fills)/' |
  report "events are counted by code that does not know the fills" || true

includes harness/core | grep -E '"([^"]*/)?(impls|suites|reports|cli|frontends)/|"\.\./' |
  report "the core includes nothing that is built on it" || true
if [[ -d reports ]]; then
  includes reports | grep '"core/' | grep -vE '"core/(tensor|datasheets|statistics|record)/' |
    report "reports know records, statistics and data sheets, no machine" || true
fi
includes harness/frontends | grep -E '"(cli|impls|suites|reports)/|"\.\./' |
  report "front ends include only the core" || true
if [[ -d impls ]]; then
  includes impls | grep -E '"(core|cli|frontends|reports)/|"[^"]*harness/|"\.\./\.\.' |
    report "an implementation includes only the contract" || true
fi

# Names of implementations and suites: the stems of their files. Tests may name them as examples.
# "lidar" is a kind of inputs too, and "gpu" a part of a Jetson board.
names=$(find impls suites -maxdepth 1 -type f \
  \( -name '*.cpp' -o -name '*.c' -o -name '*.cu' -o -name '*.json' \) \
  -not -name '*_test.cpp' -not -name '*.schema.json' -printf '%f\n' 2>/dev/null |
  sed 's/\..*//; /^lidar$/d; /^gpu$/d' | sort -u | paste -sd'|')
if [[ -n $names && -d harness/core ]]; then
  sources harness/core -not -name '*_test.cpp' |
    xargs -0 -r grep -nHE "\"($names)(\.(so|json))?\"|(impls|suites|reports)/[a-z]" |
    grep -vE '^[^:]*:[0-9]+: *//' |
    report "the core names no implementation, suite or report" || true
fi

# A component is x.hpp with x.cpp, or x.cuh with x.cu.
# includes_of_components: the pairs "a b" where component a includes component b.
includes_of_components() {
  local file include root
  sources harness/core harness/cli harness/frontends reports impls \
    -not -name '*_test.cpp' -not -name '*_fuzz.cpp' | while IFS= read -r -d '' file; do
    grep -oE '^ *# *include *"[^"]+"' "$file" | sed -E 's/.*"(.*)"/\1/' |
      while IFS= read -r include; do
        for root in harness/ impls/ ''; do
          [[ -e $root$include && ${file%.*} != "$root${include%.*}" ]] || continue
          echo "${file%.*} $root${include%.*}"
          break
        done
      done
  done || true
}
includes_of_components | sort -u | tsort 2>&1 >/dev/null |
  sed 's/^tsort: //; s/^-: input contains a loop:$/circle of components:/' >>"$violations" || true

if [[ -s $violations ]]; then
  cat "$violations"
  exit 1
fi
