#!/usr/bin/env bash
# Fetches oneDNN, with which onednn_primitives and onednn_graph are built, from PyPI: into a virtual
# environment of its own, build/onednn, where CMake looks. Does nothing if it is there already, or
# if the machine has one that is new enough.
#   scripts/onednn.sh
# Exit codes: 0 if there is one; 4 if there is none: then the message says why, and a build leaves
# the implementations on oneDNN out.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/build/onednn
packages=(onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0)  # oneDNN 3.2, 60 MB
least="3 2"

# Whether a folder of headers has oneDNN of that version or a newer one. ATTEST_INCLUDE_PATH as in
# setup.sh.
new_enough() {
  local header=$1/oneapi/dnnl/dnnl_version.h found
  [[ -e $header ]] || return 1
  found=$(sed -nE 's/^#define DNNL_VERSION_(MAJOR|MINOR) ([0-9]+).*/\2/p' "$header" | paste -sd' ')
  [[ $(printf '%s\n' "$found" "$least" | sort -V | head -n 1) == "$least" ]]
}
IFS=: read -ra folders <<<"${ATTEST_INCLUDE_PATH:-${CPATH:-}:/usr/local/include:/usr/include}"
for include in "${folders[@]}"; do
  if [[ -n $include ]] && new_enough "$include"; then exit 0; fi
done
[[ $(cat "$folder/packages" 2>/dev/null) != "${packages[*]}" ]] || exit 0

stop() { echo "onednn.sh: $1; the build leaves out what needs oneDNN" >&2; exit 4; }
[[ $(uname -m) == x86_64 ]] || stop "PyPI has oneDNN for x86-64 only"
command -v python3 >/dev/null || stop "there is no python3"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rm -rf "$folder"
python3 -m venv "$folder" >"$log" 2>&1 || stop "python3 -m venv: $(tail -n 1 "$log")"
"$folder/bin/python3" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 \
  --no-deps --only-binary=:all: "${packages[@]}" >"$log" 2>&1 ||
  stop "pip install ${packages[*]}: $(tail -n 1 "$log")"
# Wheels have no links, so the library is in them three times.
for link in "$folder"/lib/libdnnl.so{,.3}; do ln -sf libdnnl.so.3.2 "$link"; done
echo "${packages[*]}" >"$folder/packages"
