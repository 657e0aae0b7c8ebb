// What the weights of rows come to: their sum, how many count, what they make of the values.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/operations/softmax/events/events.hpp"

namespace attest::core::events {
namespace {

// Rows of a head whose weights or values are looked at one by one: enough to find what a fill does
// in all of its rows.
constexpr size_t kClosely = 32;
constexpr double kHeavyWeight = 0.25, kHeavyValue = 100, kCancelled = 1.0 / 3;
constexpr double kBends = 2, kNearlyFlat = 4, kFlat = 10;  // of scores, in softcaps
constexpr float kGradedBelow = 4;                          // of logits under the largest
constexpr double kGradedShare = 0.002;
constexpr int64_t kGradedWeights = 8;
// Beyond it the rounding of logits hides what else is wrong with their weights
constexpr float kPlainLogit = 256;

// Every how manieth of so many rows.
size_t stride_of(size_t rows, size_t wanted) {
  return std::max<size_t>(1, (rows + wanted - 1) / wanted);
}

bool has_heavy_value(const Unit& unit, int64_t j) {
  const float* value = unit.value(j);
  return std::any_of(value, value + unit.params().head_dim_v,
                     [](float x) { return std::isfinite(x) && std::fabs(x) >= kHeavyValue; });
}

bool is_heavy(const Unit& unit, const Row& row, const RowSummary& summary) {
  const auto least = float(double(summary.top) + std::log(kHeavyWeight * summary.sum));
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j)
    if (row.logit(j) > least && has_heavy_value(unit, j)) return true;
  return false;
}

// Of independent values the output would be about the root of the sum of squares.
bool cancels(const Unit& unit, const Row& row, const RowSummary& summary) {
  const auto width = size_t(unit.params().head_dim_v);
  std::vector<double> sums(width), squares(width);
  double *sum = sums.data(), *square = squares.data();
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    const double weight = std::exp(double(row.logit(j)) - double(summary.top));
    if (weight == 0) continue;
    const float* value = unit.value(j);
#pragma omp simd
    for (size_t c = 0; c < width; ++c) {
      const double term = weight * double(value[c]);
      sum[c] += term;
      square[c] += term * term;
    }
  }
  double output = 0, all = 0;  // over all channels
  for (size_t c = 0; c < width; ++c) {
    output += sum[c] * sum[c];
    all += square[c];
  }
  return output < kCancelled * kCancelled * all;
}

bool is_distinct(const Unit& unit, const Row& row) {
  std::unordered_set<int32_t> seen;
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j)
    if (row.sees(j) && !seen.insert(unit.key_class(j)).second) return false;
  return seen.size() >= 2;
}

bool is_graded(const Row& row, const RowSummary& summary) {
  std::vector<float> near;
  for (const float logit : row.logits)
    if (logit >= summary.top - kGradedBelow) near.push_back(logit);
  std::sort(near.begin(), near.end());
  int64_t weights = 0;
  for (size_t begin = 0, end = 0; begin < near.size(); begin = end) {
    while (end < near.size() && near[end] == near[begin]) ++end;
    const double share =
        double(end - begin) * std::exp(double(near[begin]) - double(summary.top)) / summary.sum;
    weights += share >= kGradedShare;
  }
  return weights >= kGradedWeights;
}

void note_sink(double sink, const RowSummary& summary, Found& found) {
  if (sink - double(summary.top) > kBeyondExp) found.insert("sink/leads");
  if (double(summary.top) - sink > kBeyondExp) found.insert("sink/trails");
}

void note_softcap(const Unit& unit, const RowPlace& row, const RowSummary& summary, Found& found) {
  const double score =
      double(unit.plain_score(row, summary.top_at)) / double(unit.params().softcap);
  if (score > kBeyondExp) found.insert("softcap/+88");
  if (score < -kBeyondExp) found.insert("softcap/-88");
}

// Whether tanh bends scores that the row sees: of some it is nearly 1, of others more nearly.
bool is_bent(const Unit& unit, const RowPlace& place, const Row& row) {
  bool bent = false, flat = false;
  for (int64_t j = row.keys.begin; j < row.keys.end && !(bent && flat); ++j) {
    if (!row.sees(j)) continue;
    const double score = double(unit.plain_score(place, j)) / double(unit.params().softcap);
    bent |= score > kBends && score <= kNearlyFlat;
    flat |= score > kNearlyFlat && score <= kFlat;
  }
  return bent && flat;
}

bool usable(const RowSummary& summary) { return !summary.wild && summary.visible > 0; }

void note_summary(const Unit& unit, const RowPlace& place, const RowSummary& summary,
                  Found& found) {
  if (summary.sum >= kManyEqual) found.insert("equal/65504");
  if (unit.geometry().has_sinks()) note_sink(unit.geometry().sink(place.h), summary, found);
  if (unit.params().softcap > 0) note_softcap(unit, place, summary, found);
  if (double(summary.top) > kHugeLogit) found.insert("logit/+30000");
  if (double(summary.top) < -kHugeLogit) found.insert("logit/-30000");
}

// Whether values cancel is asked once, for two events: it takes longer than all the rest.
void note_values(const Unit& unit, const Row& row, const RowSummary& summary, Found& found,
                 Share& graded) {
  const bool may_cancel = summary.visible >= kCancellingKeys && !found.contains("cancels"),
             has_grades = summary.visible >= kGradedKeys && std::fabs(summary.top) <= kPlainLogit &&
                          is_graded(row, summary);
  const bool cancelling = (may_cancel || has_grades) && cancels(unit, row, summary);
  if (may_cancel && cancelling) found.insert("cancels");
  graded.some += has_grades && !cancelling;
}

}  // namespace

void find_weights(const Unit& unit, const RowSet& rows, Found& found, Share& graded) {
  Unit::Buffer buffer;
  const size_t stride = stride_of(rows.places.size(), kClosely);
  size_t tried_heavy = 0;
  int64_t last_heavy = -1;
  const bool may_be_distinct = !found.contains("distinct");
  for (size_t r = 0; r < rows.places.size(); ++r) {
    const RowSummary& summary = rows.summaries[r];
    const bool closely = r % stride == 0;
    graded.all += closely && (summary.visible >= kGradedKeys || summary.wild);
    if (!usable(summary)) continue;
    note_summary(unit, rows.places[r], summary, found);
    // Its values are looked at only where some key has the weight, and no row before it had the
    // same one.
    if (!found.contains("heavy") && summary.sum * kHeavyWeight < 1 &&
        summary.top_at != last_heavy && tried_heavy < kClosely) {
      ++tried_heavy;
      last_heavy = summary.top_at;
      if (is_heavy(unit, unit.row(rows.places[r], buffer), summary)) found.insert("heavy");
    }
    if (!closely) continue;
    const Row row = unit.row(rows.places[r], buffer);
    note_values(unit, row, summary, found, graded);
    if (unit.params().softcap > 0 && !found.contains("softcap/bends") &&
        is_bent(unit, rows.places[r], row))
      found.insert("softcap/bends");
    if (unit.in_f16()) find_subnormals(unit, rows.places[r], row, found);
    if (may_be_distinct && !found.contains("distinct") && is_distinct(unit, row))
      found.insert("distinct");
  }
}

}  // namespace attest::core::events
