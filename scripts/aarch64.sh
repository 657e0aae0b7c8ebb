#!/usr/bin/env bash
# Sets up a cross build for 64-bit Arm (preset aarch64), and qemu to run it: a cross compiler and
# qemu, which setup.sh installs, and the distribution's arm64 packages, in a folder of their own,
# build/arm64. This machine's own packages stay as they are. Fetches nothing if all that is there
# already. The folder may be moved or copied with its tree.
#   scripts/aarch64.sh
#   build/arm64/run PROGRAM [ARGUMENT ...]     runs a program of 64-bit Arm
# Exit codes: 0; 4 if something is missing and could not be had (the message says what); 64 for
# wrong arguments.
set -euo pipefail
case ${1:-} in
  '') ;;
  -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "aarch64.sh: $1: unknown; it takes no arguments" >&2; exit 64 ;;
esac
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(dirname "$scripts")/build/arm64
# What harness/cmake/dependencies.cmake looks for, but ONNX and Google Benchmark, and what programs
# load. apt adds what these depend on.
packages=(libfmt-dev libhwy-dev libxxhash-dev liblzf-dev zlib1g-dev libsqlite3-dev libeigen3-dev
  nlohmann-json3-dev libcli11-dev libstb-dev libgtest-dev libgmock-dev libgomp1 libstdc++6 libc6)
# The nearest to an Orin's Cortex-A78AE: armv8.2 with FP16 and dot products, without SVE, BF16 and
# I8MM. The CPU `max` would hide instructions that the board does not have.
cpu=cortex-a76

stop() { printf '%s\n' "aarch64.sh: $1" "${@:2}" >&2; exit 4; }
has_tools() { command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null; }

has_tools || bash "$scripts/setup.sh" --aarch64 || exit 4
has_tools || stop "there is no aarch64-linux-gnu-g++ or no qemu-aarch64 (packages" \
  "g++-aarch64-linux-gnu and qemu-user)"
grep -qw "$cpu" <(qemu-aarch64 -cpu help) || stop "qemu-aarch64 does not know $cpu: it needs 7.1"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt_get() {
  apt-get -q -o Dir::State="$work/state" -o Dir::State::status="$work/status" \
    -o Dir::Cache="$work/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
    -o APT::Sandbox::User=root -o Acquire::Languages=none "$@" >"$work/log" 2>&1
}

# Unpacks the packages into the folder. `fetched` names them when all is done.
fetch() {
  local package link up
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || stop "this machine has no apt"
  mkdir -p "$work"/{state/lists/partial,cache/archives/partial}
  : >"$work/status"  # nothing is installed, so apt fetches all that the packages depend on
  # A source without arm64 makes update fail. Whether the others suffice, install says.
  apt_get update || true
  apt_get install -y --download-only --no-install-recommends "${packages[@]}" ||
    stop "apt-get cannot fetch the arm64 packages:" "$(tail -n 5 "$work/log")" \
      "Their archive has to be among apt's sources; Ubuntu has another one for arm64."

  rm -rf "$folder"
  mkdir -p "$folder"
  for package in "$work"/cache/archives/*.deb; do
    case ${package##*/} in
      libc6-dev_* | linux-libc-dev_* | libcrypt-dev_*) ;;  # the cross compiler has its own
      *) dpkg-deb -x "$package" "$folder" || stop "${package##*/} cannot be unpacked" ;;
    esac
  done
  # Absolute links of the packages begin at the root of a system, which the folder is: /usr/lib/a
  # -> /lib/b becomes ./../../lib/b.
  while IFS= read -r link; do
    up=${link#"$folder"}
    up=$(sed 's:[^/][^/]*:..:g' <<<"${up%/*}")
    ln -sfn ".$up$(readlink "$link")" "$link"
  done < <(find "$folder" -type l -lname '/*')
  echo "${packages[*]}" >"$folder/fetched"
}

[[ $(cat "$folder/fetched" 2>/dev/null) == "${packages[*]}" ]] || fetch
# Written at each call, so that it names the CPU above.
cat >"$folder/run" <<RUN
#!/bin/sh
# Runs a program of 64-bit Arm. QEMU_CPU names another CPU. A program cannot start another one of
# its kind: that has to be called through this script, too.
folder=\$(cd "\$(dirname "\$0")" && pwd)
export QEMU_CPU="\${QEMU_CPU:-$cpu}" QEMU_LD_PREFIX="\$folder"
exec qemu-aarch64 "\$@"
RUN
chmod +x "$folder/run"
