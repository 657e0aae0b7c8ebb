#!/usr/bin/env bash
# Tests scripts/peers.sh with a python3 that makes environments which pip does not fill: what is
# installed, what is said, what stays of an installation that fails.
# usage: peers_test.sh
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/tree/scripts"
cp "$scripts/peers.sh" "$work/tree/scripts"
die() { cat "$work/said" "$work/calls"; echo "$*"; exit 1; }

# python3 -m venv FOLDER, pip install and pip freeze, which keeps what was installed.
cat >"$work/bin/python3" <<'END'
#!/usr/bin/env bash
echo "$*" >>"$WORK/calls"
case "$2 $3" in
  venv*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python3" ;;
  'pip install')
    [[ " $* " != *" nothing "* ]] || { echo "ERROR: no such package"; exit 1; }
    for word in "${@:4}"; do [[ $word == --* ]] || echo "$word" >>"$WORK/installed"; done
    head -c 3000000 /dev/zero >"${0%/*}/package" ;;
  'pip freeze') cat "$WORK/installed" ;;
esac
END
chmod +x "$work/bin/python3"
peers() { WORK=$work PATH=$work/bin:$PATH "$work/tree/scripts/peers.sh" "$@" >"$work/said" 2>&1; }

peers || die "it fails"
grep -qx 'build/peers: onnxruntime==1.32.0; [34] MB' "$work/said" || die "it says something else"
grep -q '^-m pip install .* onnxruntime==1.32.0 onnx==1.23.2 numpy$' "$work/calls" ||
  die "it installs something else"

peers torch==2.15.0 || die "it fails"
grep -qx 'build/peers: onnxruntime==1.32.0 torch==2.15.0; [34] MB' "$work/said" ||
  die "what was there is gone"
[[ $(grep -c '^-m venv' "$work/calls") == 1 ]] || die "it makes the environment again"

status=0
peers nothing || status=$?
[[ $status == 4 ]] || die "another exit code: $status"
grep -qx 'peers.sh: pip install nothing: ERROR: no such package' "$work/said" || die "it hides why"

rm "$work/tree/build/peers/made"  # as if the first call had been interrupted
peers || die "it fails"
[[ $(grep -c '^-m venv' "$work/calls") == 2 ]] || die "it keeps half an environment"
echo "peers.sh: all as it should be"
