#!/usr/bin/env bash
# Checks that no folder of production code has more than 25 sources: a folder is for one job, and
# its listing is read at a glance. Tests, fuzzers and what lies under a folder `testing` or `corpus`
# do not count, nor does Python, in which tests alone are written.
# usage: folder_sizes.sh SOURCE_DIR   prints "FOLDER: N sources" of each such folder; exit code 1,
# also if there are no sources
set -euo pipefail
cd "$1"
most=25
find harness impls reports -regex '.*\.\(h\|hpp\|inl\|c\|cpp\|cu\|cuh\|js\)' \
  ! -name '*_test.*' ! -name '*_fuzz.*' ! -path '*/testing/*' ! -path '*/corpus/*' \
  -printf '%h\n' | sort | uniq -c | awk -v most="$most" '
    $1 > most {
      print $2 ": " $1 " sources; a folder of more than " most " has two jobs: split it"
      failed = 1
    }
    END {
      if (NR == 0) { print "folder_sizes.sh: no sources"; failed = 1 }
      exit failed
    }'
