#!/usr/bin/env bash
# Packs the build as cpack does, unpacks it elsewhere, and uses it without anything of this machine
# but glibc and libstdc++, of which it needs nothing newer than what Ubuntu 22.04 has.
# usage: package_test.sh BUILD_DIR CPACK      exit code 77 (skipped): the program is not built
set -euo pipefail
build=$1 cpack=$2
. "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/symbols.sh"
[[ -x $build/bin/attest ]] || { echo "bin/attest has not been built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "$*"; exit 1; }

"$cpack" -G TGZ --config "$build/CPackConfig.cmake" -B "$work/packed" >"$work/said" 2>&1 ||
  { cat "$work/said"; die "cpack failed"; }
mkdir "$work/unpacked"
tar -xzf "$work"/packed/attest-*.tar.gz -C "$work/unpacked"
package=$(echo "$work"/unpacked/attest-*)
cd "$work"

clean() { env -i HOME="$work" PATH=/usr/bin:/bin "$@"; }
adapter=$(find "$package" -name 'libattest_conformance.so.*' -type f)
for program in "$package/bin/attest" "$package/libexec/attest/attest-worker" "$adapter"; do
  clean ldd "$program" | awk '$2 == "=>" { print $3 }' >libraries
  if grep -vE "^$package/|/(libc|libm|libstdc\+\+|libgcc_s)\.so" libraries; then
    die "$program takes the libraries above from this machine"
  fi
  grep -q "^$package/" libraries || die "$program takes no library from the package"
done
mapfile -t files < <(find "$package" -type f \( -name '*.so*' -o -path '*/bin/*' -o \
  -path '*/libexec/*' \))
for limit in "${ubuntu_22_04[@]}"; do
  needs=$(newest_symbol "${limit%%_*}" "${files[@]}")
  echo "${#files[@]} files need $needs"
  if newer_than "$limit" "${files[@]}"; then die "Ubuntu 22.04 has $limit only"; fi
  newer_than "${limit%%_*}_1" "${files[@]}" >/dev/null || die "it sees no symbol that is too new"
done

clean "$package/bin/attest" run smoke --impl naive --case softmax/dense --dtype f32 --judge-only |
  grep -q '^1 pass' || die "it does not judge"
