#!/usr/bin/env bash
# Writes the tables of reports/published/events.md: which fills cause which events, on some cases of
# several sizes. Takes a minute or two on two cores. What stands above the marker in the page is
# written by hand and stays.
#   scripts/events.sh [f32|f16|bf16]     default: f16
set -euo pipefail
cd "$(dirname "$0")/.."
attest=build/release/bin/attest
[[ -x $attest ]] || attest=build/test/bin/attest
if [[ ! -x $attest ]]; then
  echo "events.sh: build/release/bin/attest is not there; scripts/run.sh builds it" >&2
  exit 64
fi
page=reports/published/events.md
marker='<!-- scripts/events.sh writes what follows. -->'
cases=tiny/dense,dense/*,causal/1021,mask/197,key_padding/1021,bias/197
cases+=,tiny/window,softcap/197,transfusion_autoware/cross,full_32768/self
cases+=,tiny/linear,tiny/linear_masked,linear/4099

tables=$(mktemp)
trap 'rm -f "$tables"' EXIT
# Exit code 1 of attest: an event is missed without a reason. The tables say which.
"$attest" list --events default bev lidar --case "$cases" --dtype "${1:-f16}" --format markdown \
  >"$tables" || [[ $? == 1 ]]
cpu=$(grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //' || true)
{
  sed "\|^$marker\$|,\$d" "$page"
  printf '%s\n\nMade by commit %s on %s.\n\n' "$marker" \
    "$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" "$cpu"
  cat "$tables"
} >"$page.new"
mv "$page.new" "$page"
