// Whether every key weighs something in some row: where not, a kernel may lose it unseen.
#include <algorithm>
#include <cmath>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"

namespace attest::core::events {
namespace {

constexpr int64_t kTriedKeys = 32;
// Of a sample: fewer say nothing of the rows that it leaves out
constexpr int64_t kSeeingRows = 256;
constexpr double kShare = 16, kEnough = 0.125;
constexpr uint64_t kKeysSeed = 0x6b657973;

bool weighs(const RowSummary& summary, float logit) {
  const double weight = std::exp(double(logit) - double(summary.top)) / summary.sum;
  return weight >= std::min(kShare / double(summary.visible), kEnough);
}

}  // namespace

KeyTrial::KeyTrial(const Unit& unit)
    : places_(sample_places(unit.keys(), std::min(kTriedKeys, unit.keys()), 0, kKeysSeed)) {
  seeing_.resize(places_.size());
  weighing_.resize(places_.size());
}

void KeyTrial::add(const Unit& unit, const RowSet& rows) {
  sampled_ |= rows.sampled;
  for (size_t n = 0; n < places_.size(); ++n) {
    const int64_t j = places_[n];
    for (size_t r = 0; r < rows.places.size() && !(weighing_[n] && seeing_[n] >= kSeeingRows);
         ++r) {
      const RowSummary& summary = rows.summaries[r];
      if (summary.wild || summary.visible < 2 || !rows.places[r].keys.contains(j)) continue;
      const float logit = unit.logit(rows.places[r], j);
      if (logit == -std::numeric_limits<float>::infinity()) continue;
      ++seeing_[n];
      if (!weighing_[n]) weighing_[n] = weighs(summary, logit);
    }
  }
}

void KeyTrial::count(Share& share) const {
  for (size_t n = 0; n < places_.size(); ++n) {
    if (seeing_[n] == 0 || (sampled_ && seeing_[n] < kSeeingRows)) continue;
    ++share.all;
    share.some += weighing_[n];
  }
}

}  // namespace attest::core::events
