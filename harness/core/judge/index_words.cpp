#include "core/judge/index_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace attest::core {
namespace {

constexpr size_t kTileSizesInWords[] = {16, 32, 64, 128, 256};
constexpr size_t kLongestPeriod = 256, kMostClasses = 4, kMostNamed = 6;

std::vector<size_t> indices_of(const std::vector<bool>& chosen) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) indices.push_back(i);
  return indices;
}

// ", the last tile of 16" where the indices from `begin` to the end of the dim are one.
std::string last_tile(size_t begin, size_t size) {
  for (const size_t tile : kTileSizesInWords)
    if (begin > 0 && begin % tile == 0 && size - begin <= tile)
      return fmt::format(", the last tile of {}", tile);
  return "";
}

// ", a tile of 64" where the indices begin .. end - 1 are one.
std::string whole_tiles(size_t begin, size_t end) {
  for (const size_t tile : kTileSizesInWords)
    if (begin % tile == 0 && end - begin == tile) return fmt::format(", a tile of {}", tile);
  return "";
}

// The wrong indices as a run of the judged ones; "" if they are none.
std::string as_run(const std::vector<size_t>& judged, const std::vector<size_t>& wrong,
                   size_t size) {
  const auto begin = std::ranges::find(judged, wrong.front());
  if (!std::equal(wrong.begin(), wrong.end(), begin)) return "";
  const size_t first = wrong.front(), last = wrong.back();
  if (last == judged.back()) return fmt::format("{} and up{}", first, last_tile(first, size));
  const std::string tiles = whole_tiles(first, last + 1);
  if (first == judged.front()) return fmt::format("up to {}{}", last, tiles);
  return fmt::format("{} to {}{}", first, last, tiles);
}

// The classes modulo `period` that hold all wrong indices and no right one; none if there are no
// such classes.
std::vector<size_t> classes_of(const std::vector<size_t>& judged, const std::vector<bool>& wrong,
                               size_t period) {
  enum : char { kUnseen, kRight, kWrong };
  std::vector<char> seen(period, kUnseen);
  for (const size_t i : judged) {
    const char is = wrong[i] ? kWrong : kRight;
    char& known = seen[i % period];
    if (known != kUnseen && known != is) return {};
    known = is;
  }
  std::vector<size_t> classes;
  for (size_t c = 0; c < period; ++c)
    if (seen[c] == kWrong) classes.push_back(c);
  return classes;
}

// "1, 5, 9, ... (every 4)".
std::string every(size_t first, size_t period, size_t size) {
  std::string text = fmt::format("{}, {}", first, first + period);
  if (first + 2 * period < size) text += fmt::format(", {}", first + 2 * period);
  if (first + 3 * period < size) text += ", ...";
  return text + fmt::format(" (every {})", period);
}

std::string as_period(const std::vector<size_t>& judged, const std::vector<bool>& wrong) {
  const size_t longest = std::min(kLongestPeriod, judged.size() / 2);
  for (size_t period = 2; period <= longest; ++period) {
    const std::vector<size_t> classes = classes_of(judged, wrong, period);
    if (classes.empty()) continue;
    const bool run = classes.back() - classes.front() + 1 == classes.size();
    if (classes.size() == 1) return every(classes[0], period, wrong.size());
    if (run) return fmt::format("{} to {} of every {}", classes.front(), classes.back(), period);
    if (classes.size() <= kMostClasses)
      return fmt::format("{} of every {}", fmt::join(classes, ", "), period);
    return "";
  }
  return "";
}

// "0 to 2, 4, 5, 8 to 10, ...": two neighbours are named, more are a range.
std::string first_ranges(const std::vector<size_t>& indices) {
  std::vector<std::string> named;
  size_t at = 0;
  while (at < indices.size() && named.size() < kMostNamed) {
    size_t last = at;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    if (last - at < 2) {
      named.push_back(fmt::to_string(indices[at++]));
      continue;
    }
    named.push_back(fmt::format("{} to {}", indices[at], indices[last]));
    at = last + 1;
  }
  return fmt::format("{}{}", fmt::join(named, ", "), at < indices.size() ? ", ..." : "");
}

}  // namespace

std::string describe_indices(const std::vector<bool>& judged, const std::vector<bool>& wrong) {
  const std::vector<size_t> all = indices_of(judged), some = indices_of(wrong);
  if (some.empty() || some.size() == all.size()) return "";
  if (some.size() == 1) return fmt::to_string(some[0]);
  if (std::string run = as_run(all, some, judged.size()); !run.empty()) return run;
  if (std::string period = as_period(all, wrong); !period.empty()) return period;
  return fmt::format("{} of {}: {}", some.size(), all.size(), first_ranges(some));
}

}  // namespace attest::core
