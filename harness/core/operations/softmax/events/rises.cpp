// Where a row's running maximum rises, how far its logits spread, and in which lane its largest
// score stands alone.
#include <fmt/format.h>

#include <algorithm>

#include "core/operations/softmax/events/events.hpp"

namespace attest::core::events {
namespace {

constexpr float kNoKey = -std::numeric_limits<float>::infinity();
constexpr float kStill = 1.0f / 16;  // a maximum that has risen by no more is what it was
constexpr int64_t kManyRises = 24;

// "" where the rise is none of those that have a name.
const char* size_of(float rise) {
  if (rise >= 0.5f && rise <= 3) return "little";
  if (rise >= 8 && rise <= 60) return "much";
  if (rise > 64 && rise <= 88) return "over_64";
  return rise > 88 ? "over_88" : "";
}

// The largest logit of each tile, from the first that the interval touches.
std::vector<float> tile_maxima(const Row& row, int64_t tile) {
  const TileRange tiles = tiles_of(row.keys, row.origin, tile);
  std::vector<float> maxima(size_t(tiles.count()), kNoKey);
  int64_t k = 0;
  for (int64_t t = 0; t < tiles.count(); ++t) {
    const int64_t end =
        std::min(row.keys.size(), row.origin + (tiles.first + t + 1) * tile - row.keys.begin);
    for (; k < end; ++k) maxima[size_t(t)] = std::max(maxima[size_t(t)], row.logits[size_t(k)]);
  }
  return maxima;
}

// Maxima of tiles twice as large.
std::vector<float> joined(const std::vector<float>& maxima, bool first_is_odd) {
  std::vector<float> pairs((maxima.size() + (first_is_odd ? 2 : 1)) / 2, kNoKey);
  for (size_t t = 0; t < maxima.size(); ++t) {
    float& pair = pairs[(t + (first_is_odd ? 1 : 0)) / 2];
    pair = std::max(pair, maxima[t]);
  }
  return pairs;
}

void find_tile_rises(int64_t tile, const std::vector<float>& maxima, bool full, Found& found) {
  const auto count = int64_t(maxima.size());
  int64_t seen = -1;  // the first tile with a key that is not hidden
  int64_t first_rise = -1, rises = 0, later = 0;
  float running = kNoKey, rise = 0;
  for (int64_t t = 0; t < count; ++t) {
    const float top = maxima[size_t(t)];
    if (top == kNoKey) continue;
    if (seen < 0) {
      seen = t;
      running = top;
      continue;
    }
    ++later;
    if (top > running + kStill) {
      if (first_rise < 0) {
        first_rise = t;
        rise = top - running;
      }
      ++rises;
    }
    running = std::max(running, top);
  }
  if (later == 0) return;
  const std::string group = fmt::format("rise/{}/", tile);
  if (rises == 0) found.insert(group + "never");
  if (later >= 2 && rises >= std::min(later, kManyRises)) found.insert(group + "always");
  const std::string size = size_of(rise);
  if (rises == 0 || size.empty()) return;
  if (first_rise == seen + 1) found.insert(group + "second/" + size);
  if (first_rise == count - 1) found.insert(group + (full ? "last/" : "tail/") + size);
  if (first_rise > seen + 1 && first_rise < count - 1) found.insert(group + "middle/" + size);
}

// The logits of one tile that are not hidden.
struct Extremes {
  float most = kNoKey, least = -kNoKey;
  bool any() const { return most != kNoKey; }
};

Extremes extremes_of(std::span<const float> logits) {
  Extremes found;
  for (const float logit : logits) {
    found.most = std::max(found.most, logit);
    found.least = std::min(found.least, logit == kNoKey ? -kNoKey : logit);
  }
  return found;
}

// Whether a logit lies so far below the largest one.
bool has_gap(std::span<const float> logits, float most, const FarGap& gap) {
  const auto least_gap = float(gap.least), most_gap = float(gap.most);
  int any = 0;
#pragma omp simd reduction(| : any)
  for (size_t k = 0; k < logits.size(); ++k) {
    const float below = most - logits[k];
    any |= int(below > least_gap) & int(below < most_gap);
  }
  return any != 0;
}

// `sink` is -inf where there is none. It is a maximum, too, but no tile's.
void find_in_tiles(const Row& row, int64_t tile, float sink, Found& found) {
  const TileRange tiles = tiles_of(row.keys, row.origin, tile);
  float running = kNoKey;
  int64_t k = 0;
  for (int64_t t = 0; t < tiles.count(); ++t) {
    const int64_t end =
        std::min(row.keys.size(), row.origin + (tiles.first + t + 1) * tile - row.keys.begin);
    const Extremes of = extremes_of(row.logits.subspan(size_t(k), size_t(end - k)));
    k = end;
    if (!of.any()) continue;
    if (running != kNoKey)
      for (const int rise : kLargeRises)
        if (double(of.most) - double(running) > rise)
          found.insert(fmt::format("spread/{}/rise/{}", tile, rise));
    if (of.most < 0 && of.most > std::max(running, sink) &&
        double(of.most) - double(of.least) > kBeyondExp)
      found.insert(fmt::format("spread/{}/negative", tile));
    running = std::max(running, of.most);
  }
}

}  // namespace

void find_rises(const Row& row, Found& found) {
  std::vector<float> maxima = tile_maxima(row, kEventTiles.front());
  for (size_t t = 0; t < kEventTiles.size(); ++t) {
    static_assert(kEventTiles[1] == 2 * kEventTiles[0] && kEventTiles[4] == 16 * kEventTiles[0]);
    if (t > 0)
      maxima = joined(maxima, tiles_of(row.keys, row.origin, kEventTiles[t - 1]).first % 2 != 0);
    if (maxima.size() < 2) break;
    find_tile_rises(kEventTiles[t], maxima, tiles_of(row.keys, row.origin, kEventTiles[t]).full,
                    found);
  }
}

void find_spreads(const Row& row, float sink, Found& found) {
  const Extremes of = extremes_of(row.logits);
  if (!of.any() || double(of.most) - double(of.least) <= kBeyondExp) return;
  for (const FarGap& gap : kFarGaps)
    if (has_gap(row.logits, of.most, gap))
      found.insert(fmt::format("spread/gap/{}", int(gap.least)));
  for (const int64_t tile : kEventTiles) find_in_tiles(row, tile, sink, found);
}

void find_lanes(const RowPlace& place, const RowSummary& summary, Found& found) {
  if (summary.visible < 2 || !(double(summary.top) - double(summary.second) > kBeyondExp)) return;
  for (const int64_t width : kEventLanes) {
    const int64_t at = summary.top_at - place.origin;
    if (at / width > tiles_of(place.keys, place.origin, width).first)
      found.insert(fmt::format("lane/{}/{}", width, at % width));
  }
}

}  // namespace attest::core::events
