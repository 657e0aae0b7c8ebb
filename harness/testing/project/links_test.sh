#!/usr/bin/env bash
# Checks that every relative link of every Markdown page leads to a file of the tree, and every
# anchor of such a link to a heading of that page.
# usage: links_test.sh SOURCE_DIR
set -euo pipefail
cd "$1"
broken=0 links=0

anchors() {  # anchors PAGE: those of its headings, as GitHub makes them
  sed -n '/^```/,/^```/d; s/^##* *//p' "$1" | tr '[:upper:]' '[:lower:]' |
    sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

while IFS= read -r page; do
  while IFS= read -r link; do
    case $link in http://* | https://* | mailto:*) continue ;; esac
    links=$((links + 1))
    file=${link%%#*} anchor=
    if [[ $link == *#* ]]; then anchor=${link#*#}; fi
    target=$page
    if [[ -n $file ]]; then target=$(dirname "$page")/$file; fi
    if [[ ! -e $target ]]; then
      echo "$page: no file for the link $link"
      broken=1
    elif [[ -n $anchor && $target == *.md ]] && ! grep -qxF -- "$anchor" <(anchors "$target"); then
      echo "$page: no heading for the link $link"
      broken=1
    fi
  done < <(sed '/^```/,/^```/d' "$page" | sed 's/`[^`]*`//g' | tr '\n' ' ' |
    grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//')
done < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*' | sort)
((links > 0)) || { echo "found no link"; broken=1; }
exit $broken
