#!/usr/bin/env bash
# Tests slice.sh in a repository of its own: in as many commits as there are slices every file is
# chosen once, and what has changed beside that, up to a limit. Bugs are planted in the script, and
# each has to be noticed.
# usage: slice_test.sh slice.sh
set -euo pipefail
slice=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
unset ATTEST_WHOLE ATTEST_SINCE
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a \
  GIT_COMMITTER_EMAIL=a@b.c

fail() { echo "FAILED $*"; exit 1; }
commit() { git -C "$tree" commit -q --allow-empty -m "$1"; }
chosen() { bash "$work/slice.sh" tidy "$tree" "${1:-5}" <"$work/lines" 2>"$work/said"; }
says() { grep -qx "tidy: $1" "$work/said" || fail "it says $(<"$work/said"), not $1"; }
# says_chosen NAME...: they are chosen, whichever slice it is.
says_chosen() {
  local name
  chosen 1000 >"$work/some"
  for name; do grep -qx "$name" "$work/some" || fail "$name has changed and is not chosen"; done
}

# check SED: of the script with what the sed expression makes of it.
check() {
  local n
  sed -E "$1" "$slice" >"$work/slice.sh"
  rm -rf "$work"/{tree,shallow,bin}
  mkdir -p "$tree/src" "$work/bin"
  seq -f 'src/%g.cpp' 1 23 >"$work/lines"
  git -C "$tree" init -q
  commit first
  touch "$tree"/src/{1..23}.cpp
  git -C "$tree" add src
  commit second
  chosen >"$work/some"
  says 'slice 3 of 5: 5 of 23, and 10 of 18 more that changed since HEAD~1'
  (($(wc -l <"$work/some") == 15)) || fail "of 23 that changed, $(wc -l <"$work/some") are chosen"

  # Nothing changes in five commits.
  : >"$work/all"
  for n in {1..5}; do
    commit "$n"
    chosen >"$work/some"
    (($(wc -l <"$work/some") <= 5)) || fail "a slice has $(wc -l <"$work/some") of 23 files"
    cat "$work/some" >>"$work/all"
  done
  cmp -s <(sort "$work/lines") <(sort "$work/all") || fail "five slices are not every file once"
  says 'slice 3 of 5: 5 of 23, and 0 more that changed since HEAD~1'

  # What has changed comes on top, whether it is committed, and known to git, or not.
  git -C "$tree" rm -q --cached src/1.cpp src/2.cpp
  commit "two are not known"
  commit "nothing changes"
  says_chosen src/1.cpp src/2.cpp
  git -C "$tree" add src
  commit "now they are"
  git -C "$tree" branch known
  echo 'int a;' >"$tree/src/3.cpp"
  says_chosen src/1.cpp src/2.cpp src/3.cpp
  git -C "$tree" commit -qam "a third changes"
  commit "nothing changes"
  ATTEST_SINCE=known says_chosen src/3.cpp
  if ATTEST_SINCE=knwon chosen >"$work/some"; then fail "knwon is a commit"; fi
  grep -qx "slice.sh: ATTEST_SINCE: no commit 'knwon'" "$work/said" ||
    fail "it says $(<"$work/said") of knwon"
  ATTEST_SINCE=HEAD chosen >"$work/some"
  says '.* since HEAD~1'
  git -C "$tree" branch -q --set-upstream-to known
  says_chosen src/3.cpp
  git -C "$tree" branch -q --unset-upstream

  # A name stands for its files.
  echo 'int b;' >"$tree/src/4.cpp"
  awk '{ print "unit" NR, $1 }' "$work/lines" >"$work/units"
  mv "$work/units" "$work/lines"
  says_chosen unit4
  seq -f 'src/%g.cpp' 1 23 >"$work/lines"

  ATTEST_WHOLE=1 chosen >"$work/all"
  cmp -s <(sort "$work/lines") <(sort "$work/all") || fail "all are not all"
  says 'slice: all 23'

  # Where git has no count, days take turns.
  : >"$work/all"
  git clone -q --depth 1 "file://$tree" "$work/shallow"
  rm -rf "$tree/.git"
  for n in {1..5}; do
    printf '#!/bin/sh\necho $((%d * 86400 + 7))\n' "$n" >"$work/bin/date"
    chmod +x "$work/bin/date"
    PATH=$work/bin:$PATH chosen >>"$work/all"
    says "slice $((n % 5 + 1)) of 5: .* since a time that git does not know"
  done
  cmp -s <(sort "$work/lines") <(sort "$work/all") || fail "five days are not every file once"
  tree=$work/shallow PATH=$work/bin:$PATH chosen >/dev/null
  says "slice 1 of 5: .* since a time that git does not know"
  if bash "$work/slice.sh" tidy "$tree" 5 </dev/null >/dev/null 2>&1; then
    fail "nothing is something"
  fi
}

(check '')
while IFS='|' read -r what bug; do
  cmp -s "$slice" <(sed -E "$bug" "$slice") && fail "not planted: $what"
  if (check "$bug") >"$work/noticed" 2>&1; then fail "not noticed: $what"; fi
  echo "$what: $(head -1 "$work/noticed" | cut -c -150)"
done <<'BUGS'
it always takes the same slice|s/count % slices/0/
the last slice is never reached|s/count % slices/count % (slices - 1)/
it takes all|s/== slice$/>= 0/
slices overlap|s/== slice$/<= 1/
what has changed is left out|s/has_changed = \$i in is_changed/has_changed = 0/
what is not committed is left out|s/"\$since" \&\&/"$since" HEAD \&\&/
what git does not know is left out|s/ && of_git ls-files -o --exclude-standard//
only names count as files|s/i = 1; i <= NF/i = 1; i <= 1/
ATTEST_SINCE is not heeded|s/ATTEST_SINCE:-/NO_SUCH:-/
a mistyped ATTEST_SINCE passes|s/of_git rev-parse -q --verify/: &/
HEAD is a time since when something changed|s/ \|\| \$\(of_git rev-parse .*\]\]/ ]]/
ATTEST_WHOLE is not heeded|s/ATTEST_WHOLE:-/NO_SUCH:-/
the upstream is not heeded|s/'@\{upstream\}'/no_such/
a clone without history counts commits|s/ && \$\(of_git rev-parse --is-shallow[^)]*\) == false//
the day is not heeded|s/\(date \+%s\)/(echo 7)/
what has changed has no limit|s/more <= most/more >= 0/
a small slice leaves no room for what has changed|s/most : 8/most : most/
nothing is something|/nothing to choose/s/exit 1/exit 0/
BUGS
