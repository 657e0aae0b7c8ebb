# Prints FILE:LINE of every statement `return x, y;`: such a comma hides what is done before the
# return. Relies on clang-format: `a<b` opens the arguments of a template, `a < b` compares.
# usage: awk -f chained_returns.awk FILE...
FNR == 1 { check(); file = FILENAME; text = "\n"; raw = 0 }
raw && !sub(/^.*\)[A-Za-z]*"/, "\"\"") { text = text "\n"; next }  # inside of R"(...)"
{
  raw = 0
  gsub(/R"[A-Za-z]*\(([^)]|\)[^A-Za-z"])*\)[A-Za-z]*"/, "\"\"")
  raw = sub(/R"[A-Za-z]*\(.*/, "")
  gsub(/"([^"\\]|\\.)*"/, "\"\"")
  gsub(/'([^'\\]|\\.)'/, "' '")
  sub(/\/\/.*/, "")
  gsub(/ >> /, " + ")
  text = text $0 "\n"
}
END { check() }

function check(   rest, line, passed) {
  rest = text
  line = 0
  while (match(rest, /[^A-Za-z0-9_]return[^A-Za-z0-9_]/)) {
    passed = substr(rest, 1, RSTART)
    rest = substr(rest, RSTART + RLENGTH - 1)
    line += gsub(/\n/, "", passed)
    if (is_chained(rest)) print file ":" line
  }
}

# Whether the expression that `rest` begins with has a comma outside of all brackets.
function is_chained(rest,   i, depth, c, before) {
  depth = 0
  for (i = 1; i <= length(rest); ++i) {
    c = substr(rest, i, 1)
    before = substr(rest, i - 1, 1)
    if (c ~ /[({[]/ || (c == "<" && before ~ /[A-Za-z0-9_]/)) ++depth
    else if (c ~ /[])}]/ || (c == ">" && before !~ /[- ]/)) --depth
    else if (c == ";" && depth == 0) return 0
    else if (c == "," && depth == 0) return 1
    if (depth < 0) return 0
  }
  return 0
}
