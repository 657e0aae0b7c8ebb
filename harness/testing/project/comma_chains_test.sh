#!/usr/bin/env bash
# Checks that no statement of the project is chained by commas. Before that, plants chains and what
# looks like them, and expects comma_chains.py to name each line that ends in the comment `CHAIN`,
# and no other.
# usage: comma_chains_test.sh SOURCE_DIR       exit code 77 (skipped): no python3
set -euo pipefail
source=$1 chains=$1/harness/testing/project/comma_chains.py
command -v python3 >/dev/null || { echo "NOT TESTED: no python3"; exit 77; }
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/harness" "$tree/impls" "$tree/reports"
failures=0

expect() {  # expect FILE: names its lines with CHAIN, and the exit code says whether there are any
  local status=0 lines
  lines=$(cd "$tree" && grep -n '// CHAIN$' "$1" | sed "s|:.*||; s|^|$1:|") || true
  python3 "$chains" "$tree" >"$tree/found" || status=$?
  if ! diff <(echo "$lines") <(sed 's/: .*//' "$tree/found" | grep . || echo) ||
    [[ $status != $([[ -z $lines ]] && echo 0 || echo 1) ]]; then
    echo "comma_chains.py on $1: exit code $status, and the lines above (<: missed, >: no chain)"
    failures=1
  fi
  rm "$tree/$1"
}

cat >"$tree/harness/planted.cpp" <<'CODE'
// a = 1, b = 2;
#define BOTH(a, b) a = 1, b = 2
#include "x.hpp"
const char* text() { return "return a, b; CHAIN"[0] ? "" : R"x(
  a = 1, b = 2;)x"; }
namespace a::b {
template <class T, class... More>
struct Pair : Base<T, int>, Other {
  Pair(int a, int b) : first(a), second(b) {}
  Pair() : first{1}, second{2} { first = 1, second = 2; }  // CHAIN
  int first = 0, second = 0, *third = &first, array[2] = {1, 2};
  std::vector<std::pair<int, std::array<int, 3>>> rows, more;
  static constexpr int kOne = 1, kTwo = kOne << 1;
};
enum class Kind { kOne, kTwo = 2, kThree };
}  // namespace a::b
bool open() { return opened = true, true; }  // CHAIN
bool less() { return a < b; }
Result pair() { return {std::pair<int, int>(a, b >> 1), c}; }
Result type() { return std::is_same_v<T, int> ? f(a, b) : std::is_same_v<T, char> ? 1 : 2; }
void statements(int a, int b) {
  a = 1, b = 2;  // CHAIN
  f(a, b), g(b);  // CHAIN
  (void)a, (void)b;  // CHAIN
  ++a, --b;  // CHAIN
  a <<= 1, b = a < b;  // CHAIN
  x[1, 2] = 1;
  auto [first, second] = f(a, b);
  const auto calls = [=](int* x) { return [x, a] { return ++*x,  // CHAIN
                                                         f(x->y, 1); }; };
  apply([&] { a = 1, b = 2; }, b);  // CHAIN
  first().second(a, b)->third<int, char>(a).fourth = 1, b = 2;  // CHAIN
  std::map<int, int>& map = maps[1], *other = nullptr;
  kernel<<<1, 2, 3>>>(a, b);
  for (int i = 0, j = 1; i < j; ++i, --j) f(i, j);
  for (int i = 0; i < 3; ++i) a = i, b = i;  // CHAIN
  if (a < b) a = b, b = 0;  // CHAIN
  else f(a), g(b);  // CHAIN
  if constexpr (kFast<a, b>) g(a), g(b);  // CHAIN
  do a = 1, b = 2;  // CHAIN
  while (a < b);
  switch (a) {
    case 1: a = 2, b = 3; break;  // CHAIN
    case Kind::kTwo: f(a, b); break;
    default: return f(a), g(b);  // CHAIN
  }
  x = {1, 2}, y = {2, 3};  // CHAIN
  if (a = 1, b) f(a);  // CHAIN
  else if constexpr (a |= 1, b) f(b);  // CHAIN
  while ((a = 1, b)) f(a);  // CHAIN
  do f(a); while (a = 1, b);  // CHAIN
  switch (const int c = 1; a = 1, b) f(c);  // CHAIN
  const int d = (a = 1, 2);  // CHAIN
  f(b, (a += x[1], b));  // CHAIN
  (a = 1, b);  // CHAIN
  if (a) return (a = 1, b);  // CHAIN
  if (auto [p, q] = f(a, b); p < q) f(p, q);
  if (const int p = f(a, b), q = 1; p < q) f(p, q);
  while ((a = f(a, b)) < b) f(a, b);
  return (a = f(a, b));
  auto sum = [=](int p = 1, int q = 2) { return (p + q); };
  std::function<int(int p, std::vector<int>)> g(a = 1, b);
  int declared(int p = 1, std::vector<std::vector<int>> q = {1, 2});
  throw a, b;  // CHAIN
}
#pragma omp parallel for reduction(+ : a, b)
void last() { a *= 1'000, c = ',', b = 0x1.8p-3; }  // CHAIN
CODE
expect harness/planted.cpp
for suffix in h hpp c cu cuh; do
  echo "void f() { a = 1, b = 2; }  // CHAIN" >"$tree/impls/x.$suffix"
  expect impls/x.$suffix
done
echo "void f() { a = 1; }" >"$tree/reports/good.hpp"
expect reports/good.hpp
if python3 "$chains" "$tree" >/dev/null; then
  echo "a tree without sources is no failure"
  failures=1
fi

python3 "$chains" "$source" || failures=1
exit $failures
