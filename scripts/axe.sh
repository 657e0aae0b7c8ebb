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

source "$root/scripts/pypi.sh"
install_wheel "axe-core-python==$version" "$hash"
mkdir -p "$folder"
cp "$work"/venv/lib/python3*/site-packages/axe_core_python/axe.min.js "$folder"
