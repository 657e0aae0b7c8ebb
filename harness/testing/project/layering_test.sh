#!/usr/bin/env bash
# Plants one violation of each kind in a small tree, and expects layering.sh to name its file and
# line, and to name nothing in a good tree.
# usage: layering_test.sh layering.sh
set -euo pipefail
layering=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

write() { mkdir -p "$tree/$(dirname "$1")"; printf '%s\n' "${@:2}" >"$tree/$1"; }
reset() {
  rm -rf "${tree:?}"/*
  write harness/core/tensor/a.hpp '#pragma once' '#include <vector>' '#include "attest.h"' \
    '/// As in `suites/x.json`.'
  write harness/core/judge/b.cpp '#include "core/judge/b.hpp"' '#include "core/tensor/a.hpp"'
  write harness/core/run/c_test.cpp '#include "core/judge/b.hpp"' \
    'const char* example = "flash_cpu";'
  write harness/cli/main.cpp '#include "core/run/plugins/registry.hpp"'
  write impls/flash_cpu.cpp '#include "attest.hpp"' '#include "hwy/highway.h"'
  write reports/table.cpp '#include "core/record/record.hpp"' '#include "reports/table.hpp"'
  write suites/vit.json '{}'
}
expect_good() {
  if ! "$layering" "$tree" >"$tree/out"; then
    echo "a good tree is refused:"
    cat "$tree/out"
    failures=1
  fi
}
expect() {  # expect FILE:LINE PLANTED_FILE LINE...
  reset
  write "${@:2}"
  if "$layering" "$tree" >"$tree/out" || ! grep -q "^$1:" "$tree/out"; then
    echo "not reported: $1 in:"
    printf '  %s\n' "${@:3}"
    cat "$tree/out"
    failures=1
  fi
}

reset
expect_good
expect harness/core/tensor/a.hpp:2 harness/core/tensor/a.hpp '' '#include "core/judge/b.hpp"'
expect harness/core/tensor/a.hpp:1 harness/core/tensor/a.hpp '  #  include "core/run/runner.hpp"'
softmax=harness/core/operations/softmax
expect $softmax/s.cpp:1 $softmax/s.cpp '#include "core/inputs/points.hpp"'
expect $softmax/events/e.cpp:1 $softmax/events/e.cpp \
  '#include "core/operations/softmax/fills/wild.hpp"'
expect $softmax/events/e.cpp:1 $softmax/events/e.cpp \
  '#include "core/operations/softmax/closed_form/tiles.hpp"'
expect $softmax/fills/f.cpp:1 $softmax/fills/f.cpp \
  '#include "core/operations/softmax/events/shape.hpp"'
expect $softmax/golden/passes/g.cpp:2 $softmax/golden/passes/g.cpp \
  '#include "core/operations/softmax/golden/row_plan.hpp"' \
  '#include "core/operations/softmax/fills/wild_ends.hpp"'
expect harness/core/judge/b.cpp:1 harness/core/judge/b.cpp '#include "core/nowhere/x.hpp"'
expect harness/core/run/c.cpp:1 harness/core/run/c.cpp '#include "cli/table.hpp"'
expect harness/core/run/c.cpp:1 harness/core/run/c.cpp '#include "../../impls/flash_cpu.hpp"'
expect harness/core/run/c.cpp:2 harness/core/run/c.cpp '' 'if (name == "flash_cpu") slow();'
expect harness/core/run/c.cpp:1 harness/core/run/c.cpp 'auto path = "share/suites/vit.json";'
expect harness/core/judge/b.cpp:1 harness/core/judge/b.cpp 'if (suite == "vit") looser();'
expect harness/frontends/a.cpp:1 harness/frontends/a.cpp '#include "cli/run.hpp"'
expect impls/flash_cpu.cpp:1 impls/flash_cpu.cpp '#include "core/tensor/a.hpp"'
expect impls/mutants/drop.cpp:1 impls/mutants/drop.cpp '#include "core/judge/b.hpp"'
expect reports/table.cpp:1 reports/table.cpp '#include "core/run/runner.hpp"'
expect reports/table.cpp:1 reports/table.cpp '#include "core/measure/machine/environment.hpp"'
# Two components that include each other.
reset
write harness/core/judge/b.hpp '#include "core/judge/c.hpp"'
write harness/core/judge/c.hpp '#pragma once'
write harness/core/judge/c.cpp '#include "core/judge/b.hpp"'
if "$layering" "$tree" >"$tree/out" || ! grep -q '^harness/core/judge/c$' "$tree/out"; then
  echo "a circle is not reported:"; cat "$tree/out"; failures=1
fi
exit $failures
