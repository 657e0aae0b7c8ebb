#include "core/operations/softmax/closed_form/rising/marks.hpp"

#include <algorithm>

namespace attest::core {
namespace {

constexpr int64_t kFirstTile = Marks::kFirstTile, kLanes = 64;
constexpr int64_t kScatter = 37;  // odd: neighbouring lanes stand in tiles far apart
// Much, and beyond what kernels clamp a difference at: 64, and where exp leaves float32 at 88.
constexpr double kMuch = 30, kOver64 = 72, kOver88 = 104;
// What all other keys together still weigh, and at 40 do no more.
constexpr double kGaps[] = {8, 10, 12, 14, 16, 18, 20, 40};

}  // namespace

Marks::Marks(int64_t length, int64_t most) : length_(length) {
  std::vector<std::pair<int64_t, bool>> found;  // place, whether it is there for its lane alone
  // A window of few keys has no first tile that would need room.
  const int64_t least = length > 2 * kFirstTile ? kFirstTile : 1;
  auto add = [&](int64_t place, bool lane) {
    if ((place != 0 && place < least) || place >= length || int64_t(found.size()) >= most) return;
    const auto same = [place](const auto& known) { return known.first == place; };
    if (std::none_of(found.begin(), found.end(), same)) found.emplace_back(place, lane);
  };
  add(length - 1, false);
  add(0, false);
  for (const int64_t tile : kTileSizes) {
    if (length >= 2 * tile) add(length / tile * tile - 1, false);  // the end of the last full tile
    add(tile + tile / 2, false);                                   // in the second one
  }
  add(length / 2, false);
  add(length / 3, false);
  add(2 * kFirstTile + 5, false);  // so that each of the first tiles has one
  // One in every lane, behind the first tile and evenly over the others; short intervals have as
  // many lanes as they can.
  for (int64_t width = kLanes; width >= kFirstTile; width /= 2) {
    const int64_t tiles = std::max<int64_t>(length / width - 1, 1);
    for (int64_t lane = 0; lane < width && (width == kLanes || length < 2 * kLanes); ++lane)
      add(width * (1 + lane * kScatter % width * tiles / width) + lane, true);
  }
  std::sort(found.begin(), found.end());
  for (const auto& [place, lane] : found) {
    places_.push_back(place);
    lane_.push_back(lane);
  }
}

int64_t Marks::index_of(int64_t place) const {
  const auto at = std::lower_bound(places_.begin(), places_.end(), place);
  return at != places_.end() && *at == place ? at - places_.begin() : -1;
}

std::vector<Ask> asks_for(const Marks& marks, int64_t most, double little) {
  const double rises[] = {little, kMuch, kOver64, kOver88};
  std::vector<Ask> asks{{Ask::kStairs}, {Ask::kLowStairs}};
  auto add = [&](int64_t mark, double lead, bool is_gap = false) {
    if (int64_t(asks.size()) < most) asks.push_back({mark, lead, is_gap});
  };
  const int64_t first = 0, middle = marks.size() / 2, last = marks.size() - 1;
  for (const double rise : rises)
    for (int64_t mark = 0; mark < marks.size(); ++mark)
      if (!marks.is_lane(mark)) add(mark, rise);
  for (const double gap : kGaps)
    for (const int64_t mark : {first, last}) add(mark, gap, true);
  for (int64_t mark = 0; mark < marks.size(); ++mark)
    if (marks.is_lane(mark)) add(mark, kOver88);
  for (const double gap : kGaps) add(middle, gap, true);
  for (int64_t mark = 0; mark < marks.size(); ++mark)
    if (marks.is_lane(mark)) add(mark, rises[mark % 3]);
  return asks;
}

}  // namespace attest::core
