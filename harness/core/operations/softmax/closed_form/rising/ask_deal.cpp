#include "core/operations/softmax/closed_form/rising/ask_deal.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace attest::core {
namespace {

constexpr int64_t kLeastLanes = 16, kMostLanes = 64;
constexpr int64_t kManyTiles = 3;  // of which a maximum may rise in every one
// Leads from which on a rise is much, beyond 64 and beyond what exp holds. Those between little and
// much count for neither.
constexpr double kSizes[] = {8.5, 64, 88}, kMostLittle = 3;
// What a new step is worth. A lane is worth least: there are many, and a kernel that leaves some
// out leaves out many. A gap is worth much, because it shows best in the first rows, which see the
// most keys.
constexpr int64_t kWorthOfLane = 1, kWorthOfRise = 4, kWorthOfGap = 16;

// The steps of a kernel that an ask shows in one row. Each has a number.
class Steps {
 public:
  Steps(const AskingRow& row, const Ask& ask, std::span<const int64_t> places) {
    if (ask.mark < 0)
      add_stairs(row, ask.mark);
    else
      add_mark(row, ask, places[size_t(ask.mark)]);
  }
  template <typename F>
  void each(F&& f) const {
    for (size_t n = 0; n < count_; ++n) f(number_[n]);
  }
  static int64_t worth(size_t step) {
    return step < kLanes ? kWorthOfRise : step < kGaps ? kWorthOfLane : kWorthOfGap;
  }

 private:
  enum Position { kNever, kSecond, kMiddle, kLast, kTail, kPositions };
  static constexpr size_t kOfSizes = 4, kTiles = std::size(kTileSizes);
  // The first numbers of rises, stairs, lanes and gaps
  static constexpr size_t kStairs = kTiles * kPositions * kOfSizes, kLanes = kStairs + 4 * kTiles,
                          kGaps = kLanes + 2 * size_t(kMostLanes);

  void add(size_t step) { number_[count_++] = step; }

  /// Returns position / kTileSizes[t] for each t. The compiler knows each divisor, so this takes a
  /// fraction of the time of real divisions. Each ask of a row needs five.
  static std::array<int64_t, kTiles> tiles_of(int64_t position) {
    return [position]<size_t... kTile>(std::index_sequence<kTile...>) {
      return std::array{position / kTileSizes[kTile]...};
    }(std::make_index_sequence<kTiles>());
  }

  void add_stairs(const AskingRow& row, int64_t mark) {
    const auto first = tiles_of(row.keys.begin - row.origin),
               last = tiles_of(row.keys.end - 1 - row.origin);
    for (size_t t = 0; t < kTiles; ++t) {
      if (last[t] - first[t] + 1 >= kManyTiles || mark == Ask::kHigh || mark == Ask::kLow)
        add(kStairs + size_t(-1 - mark) * kTiles + t);
    }
  }

  void add_rise(size_t t, Position position, size_t size) {
    add((t * kPositions + position) * kOfSizes + (position == kNever ? 0 : size));
  }

  /// The lane of the mark among 16, 32 and 64, where it is not in the first tile of so many keys.
  template <int64_t kCount>
  void add_lanes(int64_t begin, int64_t at) {
    if (at / kCount > begin / kCount)
      add(kLanes + size_t(kCount + at % kCount) - size_t(kLeastLanes));
    if constexpr (kCount < kMostLanes) add_lanes<2 * kCount>(begin, at);
  }

  void add_mark(const AskingRow& row, const Ask& ask, int64_t place) {
    const auto size =
        size_t(std::ranges::count_if(kSizes, [&](double s) { return ask.lead >= s; }));
    const int64_t begin = row.keys.begin - row.origin, end = row.keys.end - row.origin,
                  at = place - row.origin;
    const bool between = size == 0 && ask.lead > kMostLittle;
    const auto firsts = tiles_of(begin), lasts = tiles_of(end - 1), of_marks = tiles_of(at);
    for (size_t t = 0; t < kTiles; ++t) {
      const int64_t first = firsts[t], last = lasts[t], of_mark = of_marks[t];
      if (last == first) continue;
      if (of_mark == first) add_rise(t, kNever, 0);
      if (between) continue;
      if (of_mark == first + 1) add_rise(t, kSecond, size);
      if (of_mark > first + 1 && of_mark < last) add_rise(t, kMiddle, size);
      if (of_mark > first && of_mark == last)
        add_rise(t, end % kTileSizes[t] == 0 ? kLast : kTail, size);
    }
    if (ask.lead > kSizes[2]) add_lanes<kLeastLanes>(begin, at);
    if (!ask.is_gap) return;
    // Of a few keys the weights may be lost.
    const int64_t enough = std::max<int64_t>(row.keys.size() / 2, 1);
    const size_t gap = kGaps + 2 * size_t(ask.lead);
    if (row.keys.end - 1 - place >= enough) add(gap);
    if (place - row.keys.begin >= enough) add(gap + 1);
  }

  std::array<size_t, 2 * kTiles + 6> number_;
  size_t count_ = 0;
};

}  // namespace

int64_t AskDeal::next(const AskingRow& row, std::span<const int64_t> places) {
  const auto is_seen = [&](const Ask& ask) {
    return ask.mark < 0 || places[size_t(ask.mark)] >= 0;
  };
  size_t best = 0, least = 0;
  int64_t most = 0, fewest = std::numeric_limits<int64_t>::max();
  for (size_t n = 0; n < asks_.size(); ++n) {
    if (!is_seen(asks_[n])) continue;
    int64_t worth = 0;
    Steps(row, asks_[n], places).each([&](size_t step) {
      worth += shown_[step] ? 0 : Steps::worth(step);
    });
    if (worth > most) {
      best = n;
      most = worth;
    }
    if (dealt_[n] < fewest) {
      least = n;
      fewest = dealt_[n];
    }
  }
  const size_t chosen = most > 0 ? best : least;
  new_deals_ += most > 0;
  Steps(row, asks_[chosen], places).each([&](size_t step) { shown_[step] = true; });
  ++dealt_[chosen];
  return int64_t(chosen);
}

}  // namespace attest::core
