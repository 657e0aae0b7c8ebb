#!/usr/bin/env bash
# Tests aarch64.sh in a tree of its own, with stand-ins for the cross compiler, qemu, apt-get and
# dpkg-deb: when it fetches packages, and that what it made still works in a moved tree.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
machine=$(mktemp -d)
trap 'rm -rf "$machine"' EXIT
export MACHINE=$machine PATH=$machine/bin:$PATH
unset QEMU_CPU
failures=0
fail() { echo "FAILED $*"; failures=1; }

mkdir -p "$machine"/{bin,tree/scripts}
cp "$scripts/aarch64.sh" "$machine/tree/scripts"
stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$machine/bin/$1"; chmod +x "$machine/bin/$1"; }
stand_in aarch64-linux-gnu-g++ :
stand_in qemu-aarch64 'if [[ $* == "-cpu help" ]]; then printf "  %s\n" cortex-a76 max; exit 0; fi
  echo "$QEMU_CPU $QEMU_LD_PREFIX $*"'
# Its packages are two files: libz_1.deb, and one that the cross compiler has.
stand_in apt-get 'printf "%s\n" "$@" | grep -xE "update|install" >>"$MACHINE/calls"
  if [[ -e $MACHINE/offline ]]; then echo "no route to the archive"; exit 100; fi
  for word in "$@"; do
    [[ $word != Dir::Cache=* ]] || : >"${word#*=}/archives/libz_1.deb" \
      >"${word#*=}/archives/libc6-dev_1.deb"
  done'
stand_in dpkg-deb '[[ ! -e $MACHINE/broken ]] || exit 1
  mkdir -p "$3/lib" "$3/usr/lib/deep"
  if [[ $2 == */libc6-dev* ]]; then : >"$3/unwanted"; exit 0; fi
  echo zlib >"$3/lib/libz.so.1"
  ln -s /lib/libz.so.1 "$3/top"
  ln -s /lib/libz.so.1 "$3/usr/lib/libz.so"
  ln -s /usr/lib/libz.so "$3/usr/lib/deep/chain"
  ln -s ../../lib/libz.so.1 "$3/usr/lib/relative"'

# expect WHAT TREE STATUS CALLS PATTERN [ARGUMENT]: CALLS are those of apt-get; PATTERN is in what
# it says.
expect() {
  local status=0 calls
  : >"$machine/calls"
  bash "$machine/$2/scripts/aarch64.sh" "${@:6}" >"$machine/said" 2>&1 || status=$?
  calls=$(paste -sd' ' "$machine/calls")
  if [[ $status != "$3" || $calls != "$4" ]] || ! grep -qE "$5" <(cat "$machine/said"; echo); then
    fail "$1: exit code $status (expected $3), calls \"$calls\" (expected \"$4\"), or no \"$5\" in:"
    cat "$machine/said"
  fi
}
# works WHAT TREE CPU: the links and `run` of that tree work, and name no other folder.
works() {
  local arm=$machine/$2/build/arm64 link said
  for link in top usr/lib/libz.so usr/lib/deep/chain usr/lib/relative; do
    [[ $(cat "$arm/$link" 2>&1) == zlib && $(realpath "$arm/$link") == "$arm/lib/libz.so.1" ]] ||
      fail "$1: $link is $(readlink "$arm/$link")"
  done
  said=$(cd "$arm/.." && arm64/run program "an argument" 2>&1) || true
  [[ $said == "$3 $arm program an argument" ]] || fail "$1: run says $said"
  [[ ! -e $arm/unwanted ]] || fail "$1: it unpacks what the cross compiler has"
}

both='update install'
expect "help" tree 0 "" 'build/arm64/run PROGRAM' --help
expect "an argument" tree 64 "" 'all: unknown' all
: >"$machine/offline"
expect "no archive" tree 4 "$both" 'no route to the archive'
rm "$machine/offline"
: >"$machine/broken"
expect "a package that cannot be unpacked" tree 4 "$both" 'libz_1.deb cannot be unpacked'
rm "$machine/broken"
expect "after a call that was cut" tree 0 "$both" '^$'
works "set up" tree cortex-a76
expect "all is there" tree 0 "" '^$'

cp -a "$machine/tree" "$machine/copy"
mv "$machine/tree" "$machine/moved"
works "a moved tree" moved cortex-a76
works "a copied tree" copy cortex-a76
expect "a moved tree has all" moved 0 "" '^$'
works "a moved tree that was set up" moved cortex-a76

sed -i 's/^cpu=.*/cpu=max/' "$machine/moved/scripts/aarch64.sh"
expect "another CPU needs no packages" moved 0 "" '^$'
works "another CPU" moved max
[[ $(QEMU_CPU=cortex-a76 "$machine/moved/build/arm64/run") == cortex-a76\ * ]] ||
  fail "QEMU_CPU does not name another CPU"
sed -i 's/^packages=(/&libmore-dev /' "$machine/moved/scripts/aarch64.sh"
: >"$machine/offline"
expect "another package, and no archive" moved 4 "$both" 'no route to the archive'
works "what was there stays" moved max
rm "$machine/offline"
expect "another package" moved 0 "$both" '^$'
expect "another package is there" moved 0 "" '^$'
sed -i 's/^cpu=.*/cpu=cortex-a7/' "$machine/moved/scripts/aarch64.sh"
expect "a CPU that qemu does not know" moved 4 "" 'does not know cortex-a7:'
exit $failures
