#!/usr/bin/env bash
# Checks that no folder of production code has more than 25 sources: a folder is for one job, and
# its listing is read at a glance. Tests, fuzzers and what lies under a folder `testing` or `corpus`
# do not count.
# usage: folder_sizes.sh SOURCE_DIR   prints "FOLDER: N sources" of each such folder; exit code 1
set -euo pipefail
cd "$1"
most=25
find harness impls reports -regex '.*\.\(h\|hpp\|c\|cpp\|cu\|cuh\)' \
  ! -name '*_test.*' ! -name '*_fuzz.*' ! -path '*/testing/*' ! -path '*/corpus/*' \
  -printf '%h\n' | sort | uniq -c | awk -v most="$most" '
    $1 > most { print $2 ": " $1 " sources; more than " most " are two jobs: split it"; failed = 1 }
    END { exit failed }'
