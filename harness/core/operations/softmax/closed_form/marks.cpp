#include "core/operations/softmax/closed_form/marks.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace attest::core {
namespace {

constexpr int64_t kFirstTile = Marks::kFirstTile, kLanes = 64;
constexpr int64_t kScatter = 37;  // odd: neighbouring lanes stand in tiles far apart
// Much, and beyond what kernels clamp a difference at: 64, and where exp leaves float32 at 88.
constexpr double kMuch = 30, kOver64 = 72, kOver88 = 104;
// What all other keys together still weigh, and at 40 do no more.
constexpr double kGaps[] = {8, 10, 12, 14, 16, 18, 20, 40};

// A step of a kernel that an ask shows: its kind, the size of tiles or lanes, and the place.
enum class What { kRise, kLane, kGap };
using Step = std::tuple<What, int64_t, int64_t, int64_t>;

std::vector<Step> steps_of(const Marks& marks, const Ask& ask) {
  std::vector<Step> steps;
  if (ask.mark < 0) return steps;
  const int64_t place = marks.place(ask.mark), length = marks.length();
  const auto size = int64_t(ask.lead < kMuch / 4 ? 1 : ask.lead < kOver64 ? kMuch : ask.lead);
  for (const int64_t tile : kTileSizes) {
    const int64_t tiles = (length + tile - 1) / tile, at = place / tile;
    if (tiles < 2) continue;
    if (at == 0) steps.emplace_back(What::kRise, tile, 0, 0);
    if (at == 1) steps.emplace_back(What::kRise, tile, 1, size);
    if (at > 1 && at < tiles - 1) steps.emplace_back(What::kRise, tile, 2, size);
    if (at > 0 && at == tiles - 1) steps.emplace_back(What::kRise, tile, 3, size);
  }
  for (int64_t lanes = kFirstTile; lanes <= kLanes && ask.lead >= kOver88; lanes *= 2)
    if (place >= lanes) steps.emplace_back(What::kLane, lanes, place % lanes, 0);
  if (!ask.is_gap) return steps;
  if (place < length - 1) steps.emplace_back(What::kGap, int64_t(ask.lead), 1, 0);
  if (place >= kFirstTile) steps.emplace_back(What::kGap, int64_t(ask.lead), 0, 0);
  return steps;
}

// Returns what the steps that are not shown yet are worth. A lane is worth least: there are many,
// and a kernel that leaves some out leaves out many.
size_t worth(const std::vector<Step>& steps, const std::set<Step>& shown) {
  constexpr size_t kWorth = 4;
  size_t sum = 0;
  for (const Step& step : steps)
    if (!shown.contains(step)) sum += std::get<What>(step) == What::kLane ? 1 : kWorth;
  return sum;
}

}  // namespace

Marks::Marks(int64_t length, int64_t most) : length_(length) {
  std::vector<std::pair<int64_t, bool>> found;  // place, whether it is there for its lane alone
  auto add = [&](int64_t place, bool lane) {
    if ((place != 0 && place < kFirstTile) || place >= length || int64_t(found.size()) >= most)
      return;
    const auto same = [place](const auto& known) { return known.first == place; };
    if (std::none_of(found.begin(), found.end(), same)) found.emplace_back(place, lane);
  };
  add(length - 1, false), add(0, false);
  for (const int64_t tile : kTileSizes) {
    if (length >= 2 * tile) add(length / tile * tile - 1, false);  // the end of the last full tile
    add(tile + tile / 2, false);                                   // in the second one
  }
  add(length / 2, false), add(length / 3, false);
  add(2 * kFirstTile + 5, false);  // so that each of the first tiles has one
  // One in every lane, behind the first tile and evenly over the others; short intervals have as
  // many lanes as they can.
  for (int64_t width = kLanes; width >= kFirstTile; width /= 2) {
    const int64_t tiles = std::max<int64_t>(length / width - 1, 1);
    for (int64_t lane = 0; lane < width && (width == kLanes || length < 2 * kLanes); ++lane)
      add(width * (1 + lane * kScatter % width * tiles / width) + lane, true);
  }
  std::sort(found.begin(), found.end());
  for (const auto& [place, lane] : found) places_.push_back(place), lane_.push_back(lane);
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

size_t sort_for_few_rows(const Marks& marks, std::vector<Ask>& asks) {
  std::vector<std::vector<Step>> steps;
  for (const Ask& ask : asks) steps.push_back(steps_of(marks, ask));
  std::set<Step> shown;
  const auto begin = size_t(
      std::ranges::find_if(asks, [](const Ask& ask) { return ask.mark >= 0; }) - asks.begin());
  for (size_t n = begin; n < asks.size(); ++n) {
    size_t best = n, most = 0;
    for (size_t k = n; k < asks.size(); ++k)
      if (const size_t more = worth(steps[k], shown); more > most) best = k, most = more;
    if (most == 0) return n;
    shown.insert(steps[best].begin(), steps[best].end());
    std::rotate(asks.begin() + std::ptrdiff_t(n), asks.begin() + std::ptrdiff_t(best),
                asks.begin() + std::ptrdiff_t(best) + 1);
    std::rotate(steps.begin() + std::ptrdiff_t(n), steps.begin() + std::ptrdiff_t(best),
                steps.begin() + std::ptrdiff_t(best) + 1);
  }
  return asks.size();
}

}  // namespace attest::core
