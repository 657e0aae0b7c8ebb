#!/usr/bin/env bash
# Makes a picture (SVG) of what a command prints, for a page.
#   attest run smoke --plugin ./mine.so | scripts/picture.sh '$ attest run ...' >picture.svg
# Lines are folded at 110 columns. Passes are green, bad verdicts red.
set -euo pipefail
title=${1:-}
{ if [[ -n $title ]]; then printf '%s\n' "$title"; fi; cat; } | fold -s -w 110 |
  sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g' | awk '
  { line[NR] = $0 }
  END {
    height = 20 * NR + 30
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"960\" height=\"%d\" ", height
    printf "viewBox=\"0 0 960 %d\" font-family=\"monospace\" font-size=\"14\">\n", height
    printf "<rect width=\"960\" height=\"%d\" rx=\"8\" fill=\"#1b1f24\"/>\n", height
    for (i = 1; i <= NR; ++i) {
      colour = "#d0d7de"
      if (line[i] ~ /^  [a-z_@.]+ +pass /) colour = "#57ab5a"
      if (line[i] ~ /^  [a-z_@.]+ +(fail|suspect|error|crash|timeout) /) colour = "#ff7b72"
      printf "<text x=\"15\" y=\"%d\" fill=\"%s\" xml:space=\"preserve\">%s</text>\n", 20 * i + 8,
        colour, line[i]
    }
    print "</svg>"
  }'
