#include "core/operations/softmax/fills/wide.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/fill_rows.hpp"
#include "core/operations/softmax/golden/known_inputs.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

// Which comes first matters where a problem has a single row.
enum Kind : int64_t { kClimbing, kFar, kNegative, kNear, kKinds };
// Of scores: the deviation, the mean, and how far they climb on either side of it.
struct Scores {
  double deviation, mean = 0, climb = 0;
};
constexpr Scores kScores[kKinds] = {{2000, 0, 22000}, {1000}, {100, -600}, {100}};
// Beside a softcap, in softcaps. An operand of 16 bits may round larger scores to the other side
// of 0, and so from one end of the cap to the other.
constexpr Scores kScoresInCaps[kKinds] = {{3}, {3}, {0.5, -2.5}, {1}};
constexpr double kLargestQuery = 60000;  // f16 holds it

// Keys have numbers in common in the first channels: one that is the same in all of them, and one
// that climbs from -kCommonKey to kCommonKey.
constexpr double kCommonKey = 8;
constexpr size_t kCommon = 2;

size_t common_channels(int64_t head_dim) { return head_dim > int64_t(2 * kCommon) ? kCommon : 0; }

// Every other row that would climb falls: its maximum is in the first tile, and all keys of others
// are far below it.
Scores scores_of(int64_t turn, const Params& p) {
  const auto kind = size_t(turn % kKinds);
  const double sign = turn / kKinds % 2 == 0 ? 1 : -1;
  const double unit = p.softcap == 0 ? 1 : double(p.softcap);
  const Scores wanted = p.softcap == 0 ? kScores[kind] : kScoresInCaps[kind];
  return {wanted.deviation * unit, wanted.mean * unit, sign * wanted.climb * unit};
}

// Each row gets just its deviation, over normal keys.
void fill_queries(const Tensor& q, uint64_t seed, const Params& p) {
  const auto scale = double(p.softmax_scale);
  const size_t first = common_channels(p.head_dim);
  const auto of_common = [&](double score) {
    return float(std::clamp(score / kCommonKey / scale, -kLargestQuery, kLargestQuery));
  };
  fill_rows(q, [&](int64_t r, std::span<float> values) {
    double square = 0, largest = 0;
    for (size_t c = first; c < values.size(); ++c) {
      const auto value = double(random_normal(seed, uint64_t(r) * values.size() + c));
      values[c] = float(value);
      square += value * value;
      largest = std::max(largest, std::fabs(value));
    }
    const Scores wanted = scores_of(turn_of(q, r), p);
    const double factor = square > 0
                              ? std::min(wanted.deviation / std::fabs(scale) / std::sqrt(square),
                                         kLargestQuery / largest)
                              : 0;
    for (size_t c = first; c < values.size(); ++c) values[c] *= float(factor);
    if (first == 0) return;
    values[0] = of_common(wanted.mean);
    values[1] = of_common(wanted.climb);
  });
}

int64_t longest_row(const Geometry& geometry, int64_t b) {
  int64_t longest = 0;
  for (int64_t i = 0; i < geometry.length_q(b); ++i)
    longest = std::max(longest, geometry.keys(b, i).size());
  return longest;
}

// Writes what keys that some query may see have in common. Rows see a whole climb, or parts of two.
void fill_common_channels(const Geometry& geometry, const Tensor& k) {
  const TensorSpec& spec = k.spec;
  if (common_channels(spec.dim[3]) == 0) return;
  for (int64_t b = 0; b < geometry.batch(); ++b) {
    const int64_t climb = std::max<int64_t>(longest_row(geometry, b), 2);
    for (int64_t j = 0; j < geometry.length_kv(b); ++j) {
      const Cell cell = geometry.key(b, j);
      const double height = 2 * double(j % climb) / double(climb - 1) - 1;
      for (int64_t h = 0; h < spec.dim[1]; ++h) {
        const int64_t at =
            cell.outer * spec.stride[0] + h * spec.stride[1] + cell.row * spec.stride[2];
        store(k.data, spec.dtype, at, kCommonKey);
        store(k.data, spec.dtype, at + spec.stride[3], kCommonKey * height);
      }
    }
  }
}

}  // namespace

void write_wide(const Problem& problem, uint64_t seed, const Tensors& tensors) {
  fill_queries(tensors[ATTEST_Q], random_bits(seed, uint64_t(ATTEST_Q)), problem.as<Params>());
  fill_common_channels(Geometry(problem, tensors), tensors[ATTEST_K]);
}

std::unique_ptr<Golden> wide_golden(const Problem& problem, const Tensors& tensors,
                                    const GoldenDevice* device) {
  return golden_of(problem, tensors, {.scores_spread = true, .budget = kFewRowsBudget}, device);
}

}  // namespace attest::core
