// Events of single rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/operations/softmax_backward/events/events.hpp"

namespace attest::core::backward {
namespace {

constexpr double kLateRise = 4, kCancelled = 1.0 / 8, kLargeGradient = 16;
constexpr double kShownTogether = 0.02, kShownGradient = 1e-6;
constexpr double kBands = 0x1p-6;
constexpr int kEqualClasses = 4;

}  // namespace

void RowEvents::note_blind(int64_t b, int64_t h, int64_t i, Found& found) const {
  if (!notes_hidden(in_.problem)) return;
  found.insert("row/nothing");
  const Cell cell = in_.geometry.query(b, i);
  note(in_.is_nan(ATTEST_Q, cell, h), "hidden_nan/q", found);
  note(in_.is_nan(ATTEST_DO, cell, h), "hidden_nan/do", found);
}

void RowEvents::note_row(const Unit& unit, const RowPlace& place, const Row& row, Found& found) {
  const Cell cell = in_.geometry.query(unit.b(), place.i);
  int64_t visible = 0;
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) visible += row.sees(j);
  if (visible == 0) return note_blind(unit.b(), place.h, place.i, found);
  const bool q_is_nan = in_.is_nan(ATTEST_Q, cell, place.h),
             do_is_nan = in_.is_nan(ATTEST_DO, cell, place.h);
  note(q_is_nan, "nan/q", of_nan_);
  note(do_is_nan, "nan/do", of_nan_);
  const RowGradients of = row_gradients(in_, unit, place, row);
  if (q_is_nan || do_is_nan || !std::isfinite(of.weight) || !std::isfinite(of.largest_ds)) return;
  calm_ = true;
  note(of.nan_below, "nan/below_edge", found);
  note_sizes(of, found);
  note_logits(unit, row, of, found);
  note_weights(unit, place, row, of, found);
  note(is_zero(cell, place.h), "do/zero", found);
  if (of.largest_ds > kShownGradient)
    note_tail("queries", in_.geometry.length_q(unit.b()), place.i, found);
  if (is_f8(in_.problem.tensor[ATTEST_V].dtype)) note_bands(unit, row, found);
}

void RowEvents::finish(Found& found) const {
  if (calm_) found.insert(of_nan_.begin(), of_nan_.end());
}

bool RowEvents::is_zero(Cell cell, int64_t head) const {
  for (int64_t c = 0; c < in_.p.head_dim_v; ++c)
    if (in_.stored[ATTEST_DO].at({cell.outer, head, cell.row, c}) != 0) return false;
  return true;
}

void RowEvents::note_sizes(const RowGradients& of, Found& found) const {
  note(of.top < 0.5 * of.weight && of.mean_g < kCancelled * std::fabs(of.delta), "delta/cancels",
       found);
  note(of.largest_ds > kLargeGradient, "ds/above_16", found);
  note(of.largest_ds > 0 && of.largest_ds < 0x1p-14, "ds/below_f16", found);
  note(notes_hidden(in_.problem) && of.visible == 1, "row/one_key", found);
  note(of.lse > events::kBeyondExp, "lse/+88", found);
  note(of.lse < -kSmallExp, "lse/-80", found);
  for (const double low : kLowLse) note(of.lse < -low, fmt::format("lse/-{:.0f}", low), found);
}

void RowEvents::note_logits(const Unit& unit, const Row& row, const RowGradients& of,
                            Found& found) const {
  const int64_t late = row.keys.end - row.keys.size() / 4;
  float before = -std::numeric_limits<float>::infinity(), after = before;
  int64_t top = late;
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    if (of.p[size_t(j - row.keys.begin)] == 0) continue;
    if (j >= late && row.logit(j) > after) top = j;
    (j < late ? before : after) = std::max(j < late ? before : after, row.logit(j));
  }
  if (row.keys.size() < kLateRow || !std::isfinite(before) ||
      !(double(after) > double(before) + kLateRise))
    return;
  int64_t equal = 0;
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j)
    equal += row.sees(j) && unit.key_class(j) == unit.key_class(top);
  note(equal == 1, "row/late", found);
}

void RowEvents::note_weights(const Unit& unit, const RowPlace& place, const Row& row,
                             const RowGradients& of, Found& found) const {
  std::map<int32_t, std::pair<int, double>> classes;  // how many keys show, and their weight
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    const double p = of.p[size_t(j - row.keys.begin)];
    if (p < kShown / double(of.visible)) continue;
    auto& [keys, weight] = classes[unit.key_class(j)];
    ++keys;
    weight += p;
    const double slope = slope_of(unit, place, j);
    note(in_.p.softcap > 0 && slope > 0.25 && slope < 0.75, "softcap/bends", found);
    note(in_.p.softcap > 0 && slope < 1.0 / 16, "softcap/flat", found);
  }
  note(of.visible > 1 && 1 - of.top / of.weight < 0x1p-24, "row/one_weight", found);
  double most = 0;
  int shown = 0;
  for (const auto& [key_class, of_class] : classes) {
    shown += of_class.first > 1 && of_class.second > kShownTogether * of.weight;
    if (of_class.first > 1) most = std::max(most, of_class.second);
  }
  note(most > 0.99 * of.weight && of.visible > 1, "equal/one_weight", found);
  note(shown >= kEqualClasses, "equal/several", found);
  if (!in_.geometry.has_sinks()) return;
  const double sink = std::exp(in_.geometry.sink(place.h) - of.lse);
  note(sink > 0.5, "sink/leads", found);
  note(sink < 0.01, "sink/trails", found);
}

void RowEvents::note_bands(const Unit& unit, const Row& row, Found& found) const {
  if (found.contains("f8/bands")) return;
  const Tensor& v = in_.stored[ATTEST_V];
  double least = std::numeric_limits<double>::infinity(), most = 0;  // of the channels' largest
  for (int64_t c = 0; c < in_.p.head_dim_v; ++c) {
    double largest = 0;
    for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
      if (!row.sees(j)) continue;
      const Cell cell = in_.geometry.key(unit.b(), j);
      largest = std::max(largest, std::fabs(v.at({cell.outer, unit.kv_head(), cell.row, c})));
    }
    least = std::min(least, largest);
    most = std::max(most, largest);
  }
  note(least < kBands * most, "f8/bands", found);
}

}  // namespace attest::core::backward
