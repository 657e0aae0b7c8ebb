#!/usr/bin/env bash
# Plants headers that rely on the includes of others, and expects headers_alone.sh to name each.
# usage: headers_alone_test.sh headers_alone.sh CC CXX
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/harness/abi" "$tree/harness/core/tensor" "$tree/impls" "$tree/reports"
good='#include <stdint.h>
struct attest_x { int64_t a; int32_t b, c; };'

expect() {  # expect STATUS WHAT [PATTERN]
  local status=0
  "${command[@]}" "$tree" >"$tree/out" 2>&1 || status=$?
  if [[ $status != "$1" ]] || ! grep -q "${3:-}" <(cat "$tree/out"; echo); then
    echo "headers_alone.sh on $2: exit code $status, expected $1 and '${3:-}'"
    cat "$tree/out"
    exit 1
  fi
}
command=("$@")
reset() {
  printf '%s\n' "$good" >"$tree/harness/abi/attest.h"
  printf '#pragma once\n#include <vector>\nstd::vector<int> f();\n' \
    >"$tree/harness/core/tensor/a.hpp"
}

reset
expect 0 "good headers"
printf '#pragma once\nstd::vector<int> f();\n' >"$tree/harness/core/tensor/a.hpp"
expect 1 "a header without its include" 'alone: harness/core/tensor/a.hpp'
reset
printf '#include <stdint.h>\nstruct attest_x { int32_t a; int64_t b; };\n' \
  >"$tree/harness/abi/attest.h"
expect 1 "a hole in the contract" 'alone: harness/abi/attest.h'
printf 'struct attest_x { long a; auto b() { return a; } };\n' >"$tree/harness/abi/attest.h"
expect 1 "a contract that is not C" 'alone: harness/abi/attest.h .*std=c11'
reset
printf '#pragma once\nstd::vector<int> g();\n' >"$tree/impls/b.hpp"
expect 1 "a header of implementations without its include" 'alone: impls/b.hpp .*std=c++17'
mv "$tree/impls/b.hpp" "$tree/reports/b.hpp"
expect 1 "a header of reports without its include" 'alone: reports/b.hpp'
mv "$tree/reports/b.hpp" "$tree/impls/b-inl.hpp"
expect 0 "a part of a kernel file"
reset
printf '#pragma once\nstd::vector<int> f();\n' >"$tree/harness/core/tensor/a.hpp"
printf '// A source.\n#include "core/tensor/a.hpp"\n\n#include <vector>\n' \
  >"$tree/harness/core/tensor/a.cpp"
expect 0 "a header that its source includes first: sources_alone.sh compiles it"
printf '#include <vector>\n\n#include "core/tensor/a.hpp"\n' >"$tree/harness/core/tensor/a.cpp"
expect 1 "a header that its source does not include first" 'alone: harness/core/tensor/a.hpp'
reset
printf '#pragma once\n#include <no_library.h>\n' >"$tree/impls/b.hpp"
expect 1 "a header of a library that is not there" 'alone: impls/b.hpp'
printf '#include "b.hpp"\n' >"$tree/impls/b.cpp"
expect 0 "the same, but its source includes it first and is built only with that library"

# The precompiled header of what many include hides nothing.
reset
rm "$tree"/impls/b.?pp
mkdir -p "$tree/harness/core/record"
printf '#pragma once\n#include <string>\nstd::string f();\n' >"$tree/harness/core/record/record.hpp"
printf '#pragma once\n#include "core/record/record.hpp"\nstd::string g();\n' >"$tree/reports/b.hpp"
printf '#pragma once\n#include "reports/b.hpp"\nstd::string h();\n' >"$tree/reports/c.hpp"
expect 0 "headers that include a large one"
printf '#pragma once\n#include "reports/b.hpp"\nstd::map<int, int> h();\n' >"$tree/reports/c.hpp"
expect 1 "a header that includes a large one, and lacks an include" 'alone: reports/c.hpp'
printf '#pragma once\nstd::string h();\n' >"$tree/reports/c.hpp"
expect 1 "a header that needs a large one without including it" 'alone: reports/c.hpp'
printf '#pragma once\nstd::string h();\n#include "reports/b.hpp"\n' >"$tree/reports/c.hpp"
expect 1 "a header that includes a large one too late" 'alone: reports/c.hpp'
printf '#pragma once\n#include "reports/d.hpp"\n#include "reports/b.hpp"\n' >"$tree/reports/c.hpp"
printf '#pragma once\nstd::string h();\n' >"$tree/reports/d.hpp"
expect 1 "a header whose user includes a large one after it" 'alone: reports/d.hpp'
