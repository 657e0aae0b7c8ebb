#!/usr/bin/env bash
# Installs the whole build into an empty place, moves it, and uses it there: the program finds its worker, its plugins and its suites
# beside itself, whoever calls it from wherever.
# usage: installed_test.sh BUILD_DIR CMAKE      exit code 77 (skipped) where the program has not been built
set -euo pipefail
build=$1 cmake=$2
if [[ ! -x $build/bin/attest ]]; then
  echo "bin/attest has not been built"
  exit 77
fi
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$cmake" --install "$build" --prefix "$place/first" >/dev/null
mv "$place/first" "$place/prefix"
mkdir "$place/elsewhere"
cd "$place/elsewhere"

attest() { env -i HOME="$place/elsewhere" "$place/prefix/bin/attest" "$@"; }

attest list >list
for plugin in "$place"/prefix/lib*/attest/plugins/*.so "$place"/prefix/lib/*/attest/plugins/*.so; do
  [[ -e $plugin ]] || continue
  name=$(basename "$plugin" .so)
  if ! grep -qE "(^|[^a-z_])$name" list; then
    echo "attest list does not name $name:"
    cat list
    exit 1
  fi
done

attest run smoke --impl 'naive*' --dtype f32 --budget 0.1 -o results.jsonl
grep -q '"pass"' results.jsonl
if grep -F -e "$build" -e "$place" results.jsonl; then
  echo "the lines above name a folder of this machine"
  exit 1
fi
