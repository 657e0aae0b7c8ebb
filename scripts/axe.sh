#!/usr/bin/env bash
# Fetches axe-core, which checks that a report's page can be used with a screen reader, from PyPI's
# package axe-core-python to build/axe. Only a test uses it. Does nothing if it is there already.
#   scripts/axe.sh
# Exit codes: 0; 4 if there is no python3 with pip, or PyPI does not answer.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/build/axe
version=0.1.0
hash=f99f6bd674726c631c5e20b876983b44dff2b8f452a0ccf08f3c23ee45d0aac3
[[ ! -e $folder/axe.min.js ]] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stop() { echo "axe.sh: $1: $(tail -n 1 "$work/log")" >&2; exit 4; }

# A python3 of another origin may lack venv where the distribution's has it.
made=no
for python in python3 /usr/bin/python3; do
  if "$python" -m venv --clear "$work/venv" >"$work/log" 2>&1; then made=yes; break; fi
done
[[ $made == yes ]] || stop "python3 -m venv (package python3-venv)"
echo "axe-core-python==$version --hash=sha256:$hash" >"$work/requirements"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
  --only-binary=:all: --retries 1 --timeout 15 --require-hashes -r "$work/requirements" \
  >"$work/log" 2>&1 || stop "pip install axe-core-python==$version"
mkdir -p "$folder"
cp "$work"/venv/lib/python3*/site-packages/axe_core_python/axe.min.js "$folder"
