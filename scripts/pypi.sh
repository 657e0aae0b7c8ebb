# Installs a package from PyPI for a while. charts.sh and axe.sh source it, and copy what they need
# out of $work/venv. The script that sources it ends with exit code 4 if that fails.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stop() { echo "${0##*/}: $1: $(tail -n 1 "$work/log")" >&2; exit 4; }

# install_wheel PACKAGE==VERSION HASH...: the wheel of the package has to have one of these SHA-256
# hashes.
install_wheel() {
  local made=no package=$1 python
  shift
  # A python3 of another origin may lack venv where the distribution's has it.
  for python in python3 /usr/bin/python3; do
    if "$python" -m venv --clear "$work/venv" >"$work/log" 2>&1; then made=yes; break; fi
  done
  [[ $made == yes ]] || stop "python3 -m venv (package python3-venv)"
  echo "$package ${*/#/--hash=sha256:}" >"$work/requirements"
  "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
    --only-binary=:all: --retries 1 --timeout 15 --require-hashes -r "$work/requirements" \
    >"$work/log" 2>&1 || stop "pip install $package"
}
