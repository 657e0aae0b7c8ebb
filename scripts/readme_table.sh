#!/usr/bin/env bash
# Writes the table that README.md shows under "What a run prints" anew, from what a run printed:
#   scripts/run.sh | scripts/readme_table.sh
# Some cases are enough, and lines are cut at 97 columns.
#   scripts/readme_table.sh --check build/release/bin/attest [README]
# says whether the form of the table is what that attest prints: headings of cases and their sizes,
# columns, the lines below. Times and errors may differ. Exit codes: 0 it is; 1 it is stale.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readme=$root/README.md
# With suite and dtype, as the table has them, without the sizes.
cases="vit/vit_b_16_224/self f32
vit/vit_b_16_224/self f16
vit/swin_t_224/stage1_shifted f16
lidar/full_32768/self f32
lidar/ptv3_stage0/patch_hilbert f16"

# The lines of a run that the table shows.
shorten() {
  awk -v cases="$cases" '
    BEGIN { count = split(cases, names, "\n"); for (i = 1; i <= count; ++i) wanted[names[i]] = 1 }
    function show(text) { print (length(text) > 97 ? substr(text, 1, 93) " ..." : text) }
    /^ +verdict +worst/ { show($0); next }
    /^[a-z]+\/[^ ]+ [a-z0-9]+(  |$)/ { shown = ($1 " " $2) in wanted; if (shown) show($0); next }
    /^  [a-z_0-9]+ +[a-z]+/ && shown { if ($1 != "attest") show($0); next }
    /^$/ { shown = 0; next }
    /^[0-9]+ pass/ { print "..."; below = 1 }
    /^(results|table):/ { next }
    /^next:/ { below = 0 }
    below { show($0) }'
}

# The block of code after the words of `$1`, without its fences.
table_of() {
  awk '/This one is shortened/ { near = 1 } near && /^```/ { if (inside) exit; inside = 1; next }
       inside' "$1"
}

check() {
  local attest=$1 page=$2 stale=0 line dry columns table
  table=$(table_of "$page")
  dry=$("$attest" run "$root"/suites/{vit,bev,lidar}.json --quick --dry-run 2>/dev/null)
  columns=$("$attest" report "$root/reports/golden/results.jsonl" 2>/dev/null)
  squeeze() { tr -s ' '; }
  say() { echo "$page: the table is stale: $*"; stale=1; }
  while IFS= read -r line; do
    case $line in
      *' verdict '*)
        grep -qxF -e "$(squeeze <<<"$line")" <<<"$(squeeze <<<"$columns")" || say "$line" ;;
      'worst, rms:'* | 'after a case:'*)
        grep -qF -e "${line% ...}" <<<"$columns" || say "$line" ;;
      [a-z]*/*) grep -qxF -e "$line" <<<"$dry" || say "$line" ;;
    esac
  done <<<"$table"
  while IFS= read -r line; do
    grep -qE "^$line(  |$)" <<<"$table" || say "it lacks $line"
  done <<<"$cases"
  for line in 'verdict +worst' 'worst, rms:' 'after a case:'; do
    grep -qE "$line" <<<"$table" || say "it lacks the line '$line'"
  done
  return "$stale"
}

if [[ ${1:-} == --check ]]; then
  check "${2:?the program attest}" "${3:-$readme}"
  exit
fi
table=$(shorten)
[[ $table == *worst* && $table == *after\ a\ case* ]] ||
  { echo "standard input is not what attest run prints" >&2; exit 64; }
TABLE=$table awk '
  /This one is shortened/ { near = 1 }
  near && /^```/ && !inside { print; print ENVIRON["TABLE"]; inside = 1; next }
  inside == 1 { if (/^```/) { inside = 2; near = 0; print } next }
  { print }' "$readme" >"$readme.new"
mv "$readme.new" "$readme"
