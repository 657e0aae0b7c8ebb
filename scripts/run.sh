#!/usr/bin/env bash
# Sets up, builds, and runs the main job: judges and times every implementation on the quick
# selection of the suites.
#   scripts/run.sh                              vit, bev and lidar, and a case each of deformable
#                                               attention and of gradients, each implementation at
#                                               most 3 s a case; results in build/results.jsonl and
#                                               as a page in build/report.html
#   scripts/run.sh suites/lidar.json --quick    any arguments of `attest run`
# The exit codes are those of attest (README.md). It is also 4 if set-up or build fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release
jobs=$(nproc)

clock() { date +%s%N; }
seconds() { printf '%d.%d' $((($2 - $1) / 1000000000)) $((($2 - $1) / 100000000 % 10)); }

started=$(clock)
bash "$root/scripts/setup.sh" || exit 4
bash "$root/scripts/charts.sh" || echo "run.sh: goes on without charts in the page" >&2
set_up=$(clock)

# A build folder that a developer has configured keeps its configuration.
if [[ ! -e $build/build.ninja ]]; then
  mkdir -p "$root/build"
  log=$root/build/release.configure.log
  (cd "$root" && cmake --preset release -DATTEST_TESTS=OFF) >"$log" 2>&1 ||
    { tail -n 40 "$log" >&2; exit 4; }
fi
bash "$root/scripts/build.sh" "$build/build.log" cmake --build "$build" --parallel "$jobs" || exit 4
built=$(clock)

page=
if (($# == 0)); then
  cd "$root"
  page=build/report.html
  # Without the limit, one case of 32,768 tokens takes a minute.
  set -- suites/{vit,bev,lidar,multiscale,backward}.json --quick --case-limit 3 \
    --case 'vit/*,bev/*,lidar/*,multiscale/deformable_detr/decoder,backward/detr/decoder_self' \
    -o build/results.jsonl --overwrite
fi
status=0
"$build/bin/attest" run "$@" || status=$?
finished=$(clock)
if [[ -n $page && -e build/results.jsonl ]]; then
  "$build/bin/attest" report build/results.jsonl -o "$page" && echo "page: $page"
fi
[[ $(command -v attest) -ef $build/bin/attest ]] ||
  echo "to call attest by its name: export PATH=$build/bin:\$PATH"

echo "set-up $(seconds "$started" "$set_up") s, build $(seconds "$set_up" "$built") s," \
  "job $(seconds "$built" "$finished") s"
exit "$status"
