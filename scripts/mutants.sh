#!/usr/bin/env bash
# Tries every planted bug and prints the table "mutant x check x size".
#   scripts/mutants.sh              the quick set: 61 and 197 tokens; each mutant of steps.so once,
#                                   on the smallest case that shows it; a few minutes
#   scripts/mutants.sh --full       up to 262,147 tokens, with few families from 65,551 on; hours.
#                                   Writes reports/published/mutants.md and .jsonl
#   scripts/mutants.sh --resume     continues a full set that was stopped
# Exit code 1: something that should have been caught was not.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/test
sizes=61,197
rows=$build/mutants.jsonl
full=

case ${1:-} in
  '') rm -f "$rows" ;;
  --full) full=1 sizes=61,197,1021,4099,16411 rows=$build/mutants_full.jsonl; rm -f "$rows" ;;
  --resume) full=1 sizes=61,197,1021,4099,16411 rows=$build/mutants_full.jsonl ;;
  *) sed -n '2,8p' "$0" >&2; exit 64 ;;
esac

[[ -e $build/build.ninja ]] || (cd "$root" && cmake --preset test) || exit 4
cmake --build "$build" --parallel "$(nproc)" \
  --target mutants_matrix attest_worker attest_test_plugins || exit 4

# All other test plugins that the build has: they misbehave in other ways, on any problem, or are
# right. Left out are bugs that show on problems of their own alone, of single features (*_bugs,
# flash_top_k_*), arithmetics, repeated runs (state, memories) and devices (device, *_on_host): they
# have tests with such problems. So are plugins of other operations (scale, sketch_cpu), and one
# that is right (onednn_primitives).
plugins=$build/tests/plugins
others=()
for plugin in "$plugins"/*.so; do
  case $(basename "$plugin" .so) in
    mutants | steps | *_bugs | flash_top_k_* | arithmetics | state | memories | device | \
      *_on_host | *_planted | scale | sketch_cpu | onednn_primitives) ;;
    *) others+=(--other "$plugin") ;;
  esac
done
collect() { "$build/tests/mutants_matrix" collect "$rows" "$@"; }
if [[ $full ]]; then
  mutants=(--plugin "$plugins/mutants.so") steps=(--plugin "$plugins/steps.so")
  collect "${mutants[@]}" "${steps[@]}" --sizes "$sizes" "${others[@]}"
  collect "${mutants[@]}" "${steps[@]}" --sizes 65551 --families plain,causal
  collect "${mutants[@]}" --sizes 262147 --families plain,causal
  # A step is a kernel in tiles and takes seconds there, in every dtype the same ones.
  collect "${steps[@]}" --sizes 262147 --families plain --dtypes f32
  # Sums of more than 65,504 keys
  collect "${steps[@]}" --sizes 65551 --families cross_head
  collect "${steps[@]}" --sizes 65551 --dtypes f16,bf16 --families cross
else
  collect --plugin "$plugins/mutants.so" --sizes "$sizes" "${others[@]}"
  collect --plugin "$plugins/steps.so" --each-once
fi
status=0
"$build/tests/mutants_matrix" print "$rows" >"$rows.md" || status=$?
cat "$rows.md"
[[ $status -le 1 ]] || exit $status
if [[ $full ]]; then
  mkdir -p "$root/reports/published"
  cp "$rows" "$root/reports/published/mutants.jsonl"
  cp "$rows.md" "$root/reports/published/mutants.md"
fi
exit $status
