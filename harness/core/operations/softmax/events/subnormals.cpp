// Subnormal numbers of f16 that decide what comes out.
#include <algorithm>
#include <cmath>

#include "core/operations/softmax/events/events.hpp"

namespace attest::core::events {
namespace {

constexpr float kSmallestNormal = 0x1p-14f;  // of f16

bool is_subnormal(float x) { return x != 0 && std::fabs(x) < kSmallestNormal; }

bool has_subnormals(std::span<const float> row) { return std::ranges::any_of(row, is_subnormal); }

// Whether subnormal numbers may add anything to see to a score with this other operand.
bool is_large(const Unit& unit, std::span<const float> other) {
  double most = 0;
  for (const float x : other) most += std::fabs(double(x));
  const double scale = std::fabs(double(unit.params().softmax_scale));
  return 2 * scale * double(kSmallestNormal) * most >= kSeenScore;
}

// What the subnormal numbers of one operand add to a score.
double score_of_subnormals(std::span<const float> subnormal, std::span<const float> other) {
  double sum = 0;
  for (size_t c = 0; c < subnormal.size(); ++c)
    if (is_subnormal(subnormal[c])) sum += double(subnormal[c]) * double(other[c]);
  return sum;
}

// Whether scores of the row differ by what subnormal numbers of `of` add to them.
template <class Of>
bool moves_scores(const Unit& unit, const Row& row, const Of& of) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    if (!row.sees(j)) continue;
    const double score = double(unit.params().softmax_scale) * of(j);
    least = std::min(least, score);
    most = std::max(most, score);
  }
  return most - least >= kSeenScore;
}

// Whether all values in a channel are subnormal or 0, and their mean is not lost in the output.
bool has_subnormal_channel(const Unit& unit, const Row& row) {
  const double seen = kSeenSubnormals * half_subnormal(unit.output_dtype());
  for (size_t c = 0; c < size_t(unit.params().head_dim_v); ++c) {
    double sum = 0;
    int64_t keys = 0;
    bool small = true;
    for (int64_t j = row.keys.begin; j < row.keys.end && small; ++j) {
      if (!row.sees(j)) continue;
      const float value = unit.value(j)[c];
      small = value == 0 || is_subnormal(value);
      sum += double(value);
      ++keys;
    }
    if (small && keys > 0 && std::fabs(sum) / double(keys) >= seen) return true;
  }
  return false;
}

}  // namespace

void find_subnormals(const Unit& unit, const RowPlace& place, const Row& row, Found& found) {
  const std::span<const float> query = unit.query(place.i);
  const auto of_query = [&](int64_t j) { return score_of_subnormals(query, unit.key(j)); };
  const auto of_key = [&](int64_t j) { return score_of_subnormals(unit.key(j), query); };
  if (!found.contains("subnormal/q") && has_subnormals(query) && moves_scores(unit, row, of_query))
    found.insert("subnormal/q");
  if (!found.contains("subnormal/k") && is_large(unit, query) && moves_scores(unit, row, of_key))
    found.insert("subnormal/k");
  if (!found.contains("subnormal/v") && has_subnormal_channel(unit, row))
    found.insert("subnormal/v");
}

}  // namespace attest::core::events
