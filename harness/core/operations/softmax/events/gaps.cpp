// Gaps between the largest logits and all others, whose weights are small and show in the output
// all the same.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/operations/softmax/events/events.hpp"

namespace attest::core::events {
namespace {

constexpr int64_t kFewTops = 8;
constexpr double kFarLeast = 25, kFarMost = 60, kFlushed = 20;  // a kernel may cut exponents at -20
constexpr size_t kTries = 24;  // of a head and gap: rows whose values are looked at
constexpr double kSeenShare = 0.25, kSeenSums = 0x1p-16;

// Sums over keys for each channel. The tops are the keys within 1 of the largest.
struct Parts {
  struct Part {
    double weight = 0;
    std::vector<double> values;
  };
  Part top, before, between, after;  // before the last top, after the first, or both
  std::vector<double> squares;       // of weight times value, all keys
  int64_t others = 0;
  std::vector<double> plain;  // values of the others, not weighted
};

Parts parts_of(const Unit& unit, const Row& row, const RowSummary& summary) {
  const auto width = size_t(unit.params().head_dim_v);
  Parts parts;
  for (Parts::Part* part : {&parts.top, &parts.before, &parts.between, &parts.after})
    part->values.resize(width);
  parts.squares.resize(width);
  parts.plain.resize(width);
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    const float logit = row.logits[size_t(j - row.keys.begin)];
    if (logit == -std::numeric_limits<float>::infinity()) continue;
    const bool is_top = logit >= summary.top - 1;
    Parts::Part& part = is_top                  ? parts.top
                        : j < summary.first_top ? parts.before
                        : j > summary.last_top  ? parts.after
                                                : parts.between;
    const double weight = std::exp(double(logit) - double(summary.top));
    const float* value = unit.value(j);
    part.weight += weight;
    parts.others += !is_top;
    for (size_t c = 0; c < width; ++c) {
      const double term = weight * double(value[c]);
      part.values[c] += term;
      parts.squares[c] += term * term;
      parts.plain[c] += is_top ? 0 : double(value[c]);
    }
  }
  return parts;
}

// Whether some channel of the output moves by what no rounding explains when `weight` and `values`
// are added to the sums.
class Shown {
 public:
  Shown(const Parts& parts, DType output)
      : parts_(parts), least_(kSeenSubnormals * half_subnormal(output)) {
    total_ = parts.top.weight + parts.before.weight + parts.between.weight + parts.after.weight;
  }
  bool operator()(double weight, const std::function<double(size_t)>& value) const {
    for (size_t c = 0; c < parts_.squares.size(); ++c) {
      const double sum = parts_.top.values[c] + parts_.before.values[c] + parts_.between.values[c] +
                         parts_.after.values[c];
      const double o = sum / total_, moved = std::fabs((sum + value(c)) / (total_ + weight) - o);
      if (moved >= least_ && moved >= kSeenShare * std::fabs(o) &&
          moved >= kSeenSums * std::sqrt(parts_.squares[c]) / total_)
        return true;
    }
    return false;
  }

 private:
  const Parts& parts_;
  double total_, least_;
};

void find_gap(const Unit& unit, const Parts& parts, const std::string& name, bool after,
              Found& found) {
  const Parts::Part& side = after ? parts.after : parts.before;
  const double weight = side.weight + parts.between.weight;
  if (Shown(parts, unit.output_dtype())(
          -weight, [&](size_t c) { return -side.values[c] - parts.between.values[c]; }))
    found.insert(name);
}

void find_far_gap(const Unit& unit, const Parts& parts, Found& found) {
  const double cut = std::exp(-kFlushed);
  if (Shown(parts, unit.output_dtype())(cut * double(parts.others),
                                        [&](size_t c) { return cut * parts.plain[c]; }))
    found.insert("gap/cut/40");
}

}  // namespace

void find_gaps(const Unit& unit, const RowSet& rows, Found& found) {
  Unit::Buffer buffer;
  // The rows of each gap, far ones last.
  std::vector<std::vector<size_t>> candidates(std::size(kGaps) + 1);
  for (size_t r = 0; r < rows.places.size(); ++r) {
    const RowSummary& s = rows.summaries[r];
    if (s.wild || s.tops == 0 || s.tops > kFewTops || s.tops == s.visible) continue;
    const double gap = double(s.top) - double(s.next);
    for (size_t g = 0; g < std::size(kGaps); ++g)
      if (std::fabs(gap - kGaps[g]) <= 1) candidates[g].push_back(r);
    if (gap >= kFarLeast && gap <= kFarMost) candidates.back().push_back(r);
  }
  for (size_t g = 0; g < candidates.size(); ++g) {
    const bool far = g == std::size(kGaps);
    const std::string after = far ? "gap/cut/40" : fmt::format("gap/after_top/{}", kGaps[g]);
    const std::string before = far ? after : fmt::format("gap/before_top/{}", kGaps[g]);
    const size_t stride = std::max<size_t>(1, candidates[g].size() / kTries);
    for (size_t n = 0; n < candidates[g].size(); n += stride) {
      if (found.contains(after) && found.contains(before)) break;
      const size_t r = candidates[g][n];
      const Parts parts = parts_of(unit, unit.row(rows.places[r], buffer), rows.summaries[r]);
      if (far) {
        find_far_gap(unit, parts, found);
        continue;
      }
      find_gap(unit, parts, after, true, found);
      find_gap(unit, parts, before, false, found);
    }
  }
}

}  // namespace attest::core::events
