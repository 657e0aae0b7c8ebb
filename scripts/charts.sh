#!/usr/bin/env bash
# Fetches from PyPI what draws the charts of a report's page: Vega, Vega-Lite and Vega-Embed in one
# script, from the package vl-convert-python. It goes to build/charts, where CMake looks. Does
# nothing if it is there already.
#   scripts/charts.sh
# Exit codes: 0; 4 if there is no python3 with venv, or PyPI does not answer.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/build/charts
version=1.9.0.post1
# The wheels of x86-64 and of aarch64.
wheels=(3c1558fa0055e88c465bd3d71760cde9fa2c94a95f776a0ef9178252fd820b1f
  e6ecfe4b7e2ea9e8c30fd6d6eaea3ef85475be1ad249407d9796dce4ecdb5b32)
[[ $(cat "$folder/version" 2>/dev/null) != "$version" ]] || exit 0

source "$root/scripts/pypi.sh"
install_wheel "vl-convert-python==$version" "${wheels[@]}"
mkdir -p "$folder"
"$work/venv/bin/python" - "$folder" >"$work/log" 2>&1 <<'PYTHON' || stop "javascript_bundle()"
import importlib.metadata
import pathlib
import sys

import vl_convert

folder = pathlib.Path(sys.argv[1])
folder.joinpath("vega.js").write_text(vl_convert.javascript_bundle(), encoding="utf-8")
licence = [file for file in importlib.metadata.files("vl-convert-python")
           if file.name == "LICENSE"][0]
folder.joinpath("vl-convert.txt").write_text(licence.read_text(), encoding="utf-8")
PYTHON
echo "$version" >"$folder/version"
