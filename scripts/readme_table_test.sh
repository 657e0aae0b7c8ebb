#!/usr/bin/env bash
# Tests scripts/readme_table.sh: the table of README.md has today's form; one that has not is named;
# a run's lines become the table.
# usage: readme_table_test.sh BUILD_DIR     exit code 77 (skipped): the program has not been built
set -euo pipefail
attest=$1/bin/attest
[[ -x $attest ]] || { echo "bin/attest has not been built"; exit 77; }
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "$*"; exit 1; }

"$scripts/readme_table.sh" --check "$attest"

# stale SED WORDS: a page that is changed so is found, and the line is named.
stale() {
  sed -E "$1" "$scripts/../README.md" >"$work/page.md"
  cmp -s "$work/page.md" "$scripts/../README.md" && die "'$1' changes nothing"
  if "$scripts/readme_table.sh" --check "$attest" "$work/page.md" >"$work/said"; then
    die "it takes a table with $2"
  fi
  grep -qF -e "$2" "$work/said" || { cat "$work/said"; die "it does not name $2"; }
}
stale 's/x197x64$/x196x64/' 'vit/vit_b_16_224/self f32  1x12x196x64'
stale 's/^( +verdict +worst) +rms/\1/' 'verdict'
stale 's/^(after a case: ).*/\1something/' 'after a case: something'
stale '/^worst, rms:/d' "the line 'worst, rms:'"
stale '/^vit\/swin_t/d' 'vit/swin_t_224/stage1_shifted f16'

# Other cases, repro lines and what follows the counts are left out; times are taken over.
mkdir "$work/root" "$work/root/scripts"
cp "$scripts/readme_table.sh" "$work/root/scripts"
cp "$scripts/../README.md" "$work/root/README.md"
{
  sed -n '/This one is shortened/,/^- /p' "$scripts/../README.md" |
    sed -n '/^```/,/^```/{/^```/d;p}' | sed -E '0,/ [0-9]+ us /s// 999 us /; s/^\.\.\.$//'
  printf 'next:\n  attest new mine\npage: p.html\n'
} | sed -e 's,^flash_cpu: declared,results: r.jsonl\n&,' \
  -e 's,^vit/swin_t.*,vit/other f32  1x1x8x8\n  naive           pass\n&,' >"$work/run.txt"
"$work/root/scripts/readme_table.sh" <"$work/run.txt"
diff "$scripts/../README.md" "$work/root/README.md" >"$work/changes" && die "it writes nothing"
if [[ $(grep -c '^[<>]' "$work/changes") != 2 ]] || ! grep -q '^> .* 999 us' "$work/changes"; then
  cat "$work/changes"
  die "it writes more than a time"
fi
if echo nothing | "$work/root/scripts/readme_table.sh" 2>/dev/null; then
  die "it takes an empty run"
fi
