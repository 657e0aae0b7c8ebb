// What MASK and BIAS hide in single rows.
#include <fmt/format.h>

#include <algorithm>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/events/pairs.hpp"

namespace attest::core::events {
namespace {

constexpr int64_t kRows = 512;  // of a head
constexpr uint64_t kHiddenSeed = 0x68696464656e;

// Places of a row's interval that one tensor hides.
struct HiddenRow {
  Interval keys;
  int64_t origin;
  std::vector<bool> hidden;
  bool at(int64_t j) const { return hidden[size_t(j - keys.begin)]; }
};

void find_tiles(const HiddenRow& row, const std::string& name, Found& found) {
  for (const int64_t tile : kEventTiles) {
    const TileRange tiles = tiles_of(row.keys, row.origin, tile);
    if (tiles.count() < 2) return;
    for (int64_t t = tiles.first; t <= tiles.last; ++t) {
      const int64_t begin = std::max(row.keys.begin, row.origin + t * tile);
      const int64_t end = std::min(row.keys.end, row.origin + (t + 1) * tile);
      int64_t j = begin;
      while (j < end && row.at(j)) ++j;
      const char* position = t == tiles.first ? "first" : t == tiles.last ? "last" : "middle";
      if (j == end) found.insert(fmt::format("hidden/{}/{}/{}", name, tile, position));
    }
  }
}

void find_runs(const HiddenRow& row, const std::string& name, Found& found) {
  for (int64_t begin = row.keys.begin, end; begin < row.keys.end; begin = end) {
    end = begin + 1;
    if (!row.at(begin)) continue;
    while (end < row.keys.end && row.at(end)) ++end;
    const bool unaligned =
        (begin - row.origin) % kEventTiles[0] != 0 && (end - row.origin) % kEventTiles[0] != 0;
    for (const int64_t run : kRuns)
      if (unaligned && end - begin >= run)
        found.insert(fmt::format("hidden/{}/unaligned/{}", name, run));
  }
}

void find_scattered(const HiddenRow& row, const std::string& name, Found& found) {
  int64_t seen = -1, hidden = -1;  // the last ones
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    if (row.at(j)) {
      hidden = j;
      continue;
    }
    const bool one_tile =
        seen >= 0 && (seen - row.origin) / kEventTiles[0] == (j - row.origin) / kEventTiles[0];
    if (one_tile && hidden > seen) {
      found.insert(fmt::format("hidden/{}/scattered", name));
      return;
    }
    seen = j;
  }
}

void find_of_row(const PairTensors& pairs, const PairRow& at, Found& found) {
  for (const PairTensors::Which which : pairs.present()) {
    HiddenRow row{at.keys, at.origin, std::vector<bool>(size_t(at.keys.size()))};
    for (int64_t j = at.keys.begin; j < at.keys.end; ++j)
      row.hidden[size_t(j - at.keys.begin)] = pairs.hides(which, at.b, at.h, at.i, j);
    const std::string name = PairTensors::name(which);
    find_tiles(row, name, found);
    find_runs(row, name, found);
    find_scattered(row, name, found);
  }
}

}  // namespace

void find_hidden(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                 const std::vector<bool>& judged, Found& found) {
  const PairTensors pairs(problem, tensors, geometry);
  if (pairs.present().empty()) return;
  each_sampled_row(problem, geometry, judged, pairs, kRows, kHiddenSeed, [&](const PairRow& row) {
    if (pairs.sees_any(row)) find_of_row(pairs, row, found);
  });
}

}  // namespace attest::core::events
