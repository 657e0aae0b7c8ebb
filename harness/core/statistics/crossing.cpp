#include "core/statistics/crossing.hpp"

#include <algorithm>

namespace attest::core {
namespace {

// -1: the first is less; 1: the second; 0: not told apart.
int order(const Sized& first, const Sized& second, double tie) {
  if (first.value <= 0 || second.value <= 0 || first.low <= 0 || second.low <= 0) return 0;
  if (first.high * (1 + tie) < second.low) return -1;
  return second.high * (1 + tie) < first.low ? 1 : 0;
}

}  // namespace

Crossings find_crossings(std::span<const Sized> first, std::span<const Sized> second, double tie) {
  Crossings found;
  double told_at = 0;  // the last size that told them apart
  for (const Sized& one : first) {
    const auto other = std::ranges::find(second, one.size, &Sized::size);
    if (other == second.end()) continue;
    found.sizes.push_back(one.size);
    const int now = order(one, *other, tie);
    if (now == 0) continue;
    if (found.at_end == -now) found.crossings.push_back({told_at, one.size, now == 1});
    found.at_end = now;
    told_at = one.size;
  }
  return found;
}

}  // namespace attest::core
