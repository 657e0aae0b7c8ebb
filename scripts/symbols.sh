# The versions of glibc's and libstdc++'s symbols that programs and libraries need. It is sourced.

# The newest that Ubuntu 22.04 has, on which JetPack 6 stands.
ubuntu_22_04=(GLIBC_2.35 GLIBCXX_3.4.30)

# newest_symbol KIND FILE...: e.g. GLIBC_2.34, where KIND is GLIBC or GLIBCXX; nothing if the files
# need none. Files of another processor are read too.
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
