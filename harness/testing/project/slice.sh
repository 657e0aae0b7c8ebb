#!/usr/bin/env bash
# Chooses what a check that takes minutes for all sources takes in one run of CI: one slice of
# SLICES, and of what has changed at most twice as many lines, or 8. A slice is every SLICES-th
# line. Each commit takes the next one. If CI runs at every commit and no line is added, SLICES
# commits in a row take every line once.
# Where git does not count commits (no repository, a shallow clone), each day takes the next slice.
# usage: slice.sh CHECK SOURCE_DIR SLICES <LINES
# LINES: a name and the files, below SOURCE_DIR, that it stands for. They are split at blanks.
# Prints the names chosen; to stderr, which slice CHECK takes.
#   ATTEST_WHOLE=1    takes every line
#   ATTEST_SINCE=REV  what has changed since then; else since the branch left its upstream, or,
#                     where it has not, what the last commit changed. CI that runs once for several
#                     commits sets it to the commit before the first of them.
set -euo pipefail
check=$1 source=$2 slices=$3
lines=$(LC_ALL=C sort -u)
[[ -n $lines ]] || { echo "slice.sh: nothing to choose from" >&2; exit 1; }
if [[ ${ATTEST_WHOLE:-} ]]; then
  echo "$check: slice: all $(wc -l <<<"$lines")" >&2
  cut -d ' ' -f 1 <<<"$lines"
  exit
fi

of_git() { git -C "$source" "$@" 2>/dev/null; }
count=$(of_git rev-list --count HEAD) || count=
changed= since=
if [[ ${ATTEST_SINCE:-} ]]; then
  of_git rev-parse -q --verify "$ATTEST_SINCE^{commit}" >/dev/null ||
    { echo "slice.sh: ATTEST_SINCE: no commit '$ATTEST_SINCE'" >&2; exit 1; }
fi
if [[ $count && $(of_git rev-parse --is-shallow-repository) == false ]]; then
  since=${ATTEST_SINCE:-$(of_git merge-base HEAD '@{upstream}' || true)}
  if [[ -z $since || $(of_git rev-parse "$since^{commit}") == $(of_git rev-parse HEAD) ]]; then
    since=HEAD~1
  fi
  changed=$(of_git diff --name-only --relative "$since" && of_git ls-files -o --exclude-standard) ||
    since=
else
  count=$(($(date +%s) / 86400))
fi
slice=$((count % slices))
most=$((2 * (($(wc -l <<<"$lines") + slices - 1) / slices)))
awk -v slices="$slices" -v slice="$slice" -v changed="$changed" -v check="$check" \
  -v most=$((most > 8 ? most : 8)) -v since="${since:-a time that git does not know}" '
  BEGIN { for (n = split(changed, names, "\n"); n > 0; --n) is_changed[names[n]] }
  {
    taken = (NR - 1) % slices == slice
    in_slice += taken
    has_changed = 0
    for (i = 1; i <= NF && !taken && !has_changed; ++i) has_changed = $i in is_changed
    more += has_changed
    if (taken || (has_changed && more <= most)) print $1
  }
  END {
    printf "%s: slice %d of %d: %d of %d, and %s%d more that changed since %s\n", check, slice + 1,
      slices, in_slice, NR, (more > most ? most " of " : ""), more, since >"/dev/stderr"
  }' <<<"$lines"
