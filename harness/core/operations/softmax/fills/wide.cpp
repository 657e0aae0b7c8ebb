#include "core/operations/softmax/fills/wide.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/operations/fill_rows.hpp"
#include "core/operations/softmax/golden/known_inputs.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/tensor/constants.hpp"
#include "core/tensor/dtype.hpp"
#include "core/tensor/random.hpp"

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
// The same beyond what f16 holds, in two rounds of four.
constexpr Scores kScoresBeyondF16[kKinds] = {{2000, 0, 120000}, {1000}, {100, -120000}, {100}};
// Beside a softcap, in softcaps. An operand of 16 bits may round larger scores to the other side
// of 0, and so from one end of the cap to the other.
constexpr Scores kScoresInCaps[kKinds] = {{3}, {3}, {0.5, -2.5}, {1}};
constexpr double kLargestQuery = 60000;  // f16 holds it

// Keys have numbers in common in the first channels: one that is the same in all of them, and one
// that climbs from -kCommonKey to kCommonKey. With 32, a query that f16 holds reaches 120,000 up
// to a head_dim of 256, whose softmax_scale is 1/16.
constexpr double kCommonKey = 32;
constexpr size_t kCommon = 2;

size_t common_channels(int64_t head_dim) { return head_dim > int64_t(2 * kCommon) ? kCommon : 0; }

// Every other row that would climb falls: its maximum is in the first tile, and all keys of others
// are far below it.
Scores scores_of(int64_t turn, const Params& p) {
  const auto kind = size_t(turn % kKinds);
  const int64_t round = turn / kKinds;
  const double sign = round % 2 == 0 ? 1 : -1;
  const double unit = p.softcap == 0 ? 1 : double(p.softcap);
  const Scores uncapped = round % 4 < 2 ? kScores[kind] : kScoresBeyondF16[kind];
  const Scores wanted = p.softcap == 0 ? uncapped : kScoresInCaps[kind];
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

// Far rows have biases that are all below what f16 holds, or so far below 0 that float32 loses the
// scores. With an order, the bias of a far row meets any query; so even the largest of the scores
// above leaves logits that f16 does not hold. bf16 holds the two numbers below f16.
enum class Far { kNot, kBelowF16, kBelowScores };
constexpr double kBiasesBelowF16[] = {-262144, -264192}, kBiasBelowScores = -1e8;
constexpr int64_t kFarPeriod = 16, kFarPeriodOfFew = 8, kFewFarRows = 32;
constexpr double kValuesFrom = 1, kValuesSpan = 1.0 / 16;
constexpr size_t kFarRowsJudged = 8;  // of a sequence and head, if not all rows are judged

bool has_far_rows(const Tensor& bias) {
  return bias && bias.spec.dim[2] > 1 && largest_finite(bias.spec.dtype) > -kBiasBelowScores;
}

Far far_kind(int64_t token, int64_t rows) {
  const int64_t period = rows < kFewFarRows ? kFarPeriodOfFew : kFarPeriod, at = token % period;
  return at == 1 ? Far::kBelowF16 : at == period - 3 ? Far::kBelowScores : Far::kNot;
}

// Keys that -inf hides stay hidden.
void write_far_rows(const Tensor& bias) {
  const TensorSpec& spec = bias.spec;
  const int64_t rows = spec.dim[2];
#pragma omp parallel for schedule(static) if (row_count(spec, 4) > kThreadedElements)
  for (int64_t r = 0; r < spec.dim[0] * spec.dim[1] * rows; ++r) {
    const Far kind = far_kind(r % rows, rows);
    if (kind == Far::kNot) continue;
    const int64_t first = row_offset(spec, 3, r);
    for (int64_t j = 0; j < spec.dim[3]; ++j) {
      const int64_t at = first + j * spec.stride[3];
      if (load(bias.data, spec.dtype, at) == kHidden) continue;
      store(bias.data, spec.dtype, at,
            kind == Far::kBelowF16 ? kBiasesBelowF16[j % 2] : kBiasBelowScores);
    }
  }
}

// In channel 0, of all keys that sequences have.
void write_values_around_one(const Geometry& geometry, uint64_t seed, const Tensor& v) {
  const TensorSpec& spec = v.spec;
  for (int64_t b = 0; b < geometry.batch(); ++b)
    for (int64_t j = 0; j < geometry.length_kv(b); ++j) {
      const Cell cell = geometry.key(b, j);
      for (int64_t h = 0; h < spec.dim[1]; ++h) {
        const int64_t row = (cell.outer * spec.dim[1] + h) * spec.dim[2] + cell.row;
        store(v.data, spec.dtype,
              cell.outer * spec.stride[0] + h * spec.stride[1] + cell.row * spec.stride[2],
              kValuesFrom + kValuesSpan * double(random_uniform(seed, uint64_t(row))));
      }
    }
}

// Positions of some far rows of sequence b, evenly spread.
std::vector<int64_t> far_places(const Geometry& geometry, int64_t rows, int64_t b) {
  std::vector<int64_t> all, some;
  for (int64_t i = 0; i < geometry.length_q(b); ++i)
    if (far_kind(geometry.token(i), rows) != Far::kNot) all.push_back(i);
  const size_t count = std::min(all.size(), kFarRowsJudged);
  for (size_t n = 0; n < count; ++n) some.push_back(all[(n + 1) * all.size() / count - 1]);
  return some;
}

}  // namespace

void write_wide(const Problem& problem, uint64_t seed, const Tensors& tensors) {
  const Geometry geometry(problem, tensors);
  fill_queries(tensors[ATTEST_Q], random_bits(seed, uint64_t(ATTEST_Q)), problem.as<Params>());
  fill_common_channels(geometry, tensors[ATTEST_K]);
  if (!has_far_rows(tensors[ATTEST_BIAS])) return;
  write_far_rows(tensors[ATTEST_BIAS]);
  write_values_around_one(geometry, random_bits(seed, uint64_t(ATTEST_V)), tensors[ATTEST_V]);
}

std::unique_ptr<Golden> wide_golden(const Problem& problem, const Tensors& tensors,
                                    const GoldenDevice* device) {
  KnownInputs known{.scores_spread = true, .budget = kFewRowsBudget};
  const Tensor& bias = tensors[ATTEST_BIAS];
  if (has_far_rows(bias))
    known.wanted = [geometry = std::make_shared<Geometry>(problem, tensors),
                    rows = bias.spec.dim[2]](int64_t b, int64_t /*h*/) {
      return far_places(*geometry, rows, b);
    };
  return golden_of(problem, tensors, known, device);
}

}  // namespace attest::core
