# What programs and libraries need of a machine: versions of the symbols of glibc and libstdc++, and
# libraries. It is sourced. Files of another processor are read too.

# The newest symbols that Ubuntu 22.04 has, on which JetPack 6 stands; and Ubuntu 24.04, on which
# JetPack 7.2 stands.
# shellcheck disable=SC2034
ubuntu_22_04=(GLIBC_2.35 GLIBCXX_3.4.30 CXXABI_1.3.13)
# shellcheck disable=SC2034
ubuntu_24_04=(GLIBC_2.39 GLIBCXX_3.4.33 CXXABI_1.3.15)

# newest_symbol KIND FILE...: e.g. GLIBC_2.34, where KIND is GLIBC, GLIBCXX or CXXABI; nothing if
# the files need none.
newest_symbol() {
  local kind=$1
  shift
  { objdump -T "$@" 2>/dev/null || true; } | { grep -F '*UND*' || true; } |
    { grep -oE "\b${kind}_[0-9.]+" || true; } | sort -Vu | tail -1
}

# newer_than LIMIT FILE...: whether the files need a symbol newer than LIMIT (GLIBC_2.35); then it
# says which.
newer_than() {
  local needs
  needs=$(newest_symbol "${1%%_*}" "${@:2}")
  [[ $(printf '%s\n' "$needs" "$1" | sort -V | tail -1) != "$1" ]] && echo "$needs"
}

# lacking FOLDER FILE...: lines "FILE needs LIBRARY" for each library that a file needs, and that is
# neither in FOLDER nor one of glibc's and g++'s: every board has both, and for other machines
# bundle.sh packs those of g++.
lacking() {
  local folder=$1 file library
  shift
  for file; do
    for library in $(objdump -p "$file" 2>/dev/null | awk '$1 == "NEEDED" { print $2 }'); do
      [[ $library =~ ^(lib(c|m|mvec|dl|pthread|rt|resolv|stdc[+][+]|gcc_s)|ld-linux.*)[.]so ||
        -e $folder/$library ]] || echo "${file##*/} needs $library"
    done
  done
}
