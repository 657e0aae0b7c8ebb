#include "core/operations/softmax/fills/top_k.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/operations/fill_rows.hpp"
#include "core/operations/softmax/golden/known_inputs.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

constexpr std::string_view kLevelsName = "top_k_levels", kCloseName = "top_k_close",
                           kWildName = "top_k_wild";

// Scores are -8 .. 7 levels, each kLevel from the next: 0.25 is far beyond the error of bf16 scores
// of that size, and exp(4) small enough for every key to show. What BIAS and REL_BIAS add puts
// logits halfway and a quarter of the way between levels, so that only equal sums are equal.
constexpr int64_t kLevels = 16;
constexpr double kLevel = 0.25;
constexpr float kBias = float(2.5 * kLevel), kRelBias = float(1.25 * kLevel);
constexpr uint64_t kBiasHides = 64;  // one of so many pairs

uint64_t role_seed(uint64_t seed, int32_t role) {
  return random_bits(seed, 0x746f706bULL + uint64_t(role));
}

// A query has one channel that is not 0: the product is exact in every order, and equal where that
// channel of the keys is.
void write_levels(const Problem& problem, uint64_t seed, const Tensors& tensors) {
  const uint64_t of_keys = role_seed(seed, ATTEST_K), of_queries = role_seed(seed, ATTEST_Q);
  fill_rows(tensors[ATTEST_K], [&](int64_t r, std::span<float> values) {
    for (size_t d = 0; d < values.size(); ++d)
      values[d] = float(random_below(of_keys, uint64_t(r) * values.size() + d, kLevels)) -
                  float(kLevels / 2);
  });
  const double scale = std::fabs(double(problem.as<Params>().softmax_scale));
  fill_rows(tensors[ATTEST_Q], [&](int64_t r, std::span<float> values) {
    std::ranges::fill(values, 0.0f);
    const auto channel = size_t(random_below(of_queries, uint64_t(2 * r), values.size()));
    const bool negative = random_below(of_queries, uint64_t(2 * r + 1), 2) == 0;
    values[channel] = float(negative ? -kLevel / scale : kLevel / scale);
  });
}

// A query is one number in all channels: its product with a key is a sum over the channels of the
// key, whatever their order.
void write_close(const Problem& problem, uint64_t seed, const Tensors& tensors) {
  constexpr int64_t kGroup = 4;
  const uint64_t of_keys = role_seed(seed, ATTEST_K), of_queries = role_seed(seed, ATTEST_Q);
  fill_rows(tensors[ATTEST_K], [&](int64_t r, std::span<float> values) {
    const size_t turn = size_t(r % kGroup) * std::max<size_t>(values.size() / kGroup, 1);
    for (size_t d = 0; d < values.size(); ++d)
      values[d] =
          random_normal(of_keys, uint64_t(r / kGroup) * values.size() + (d + turn) % values.size());
  });
  const Params& p = problem.as<Params>();
  const double factor = 1 / (std::fabs(double(p.softmax_scale)) * std::sqrt(double(p.head_dim)));
  fill_rows(tensors[ATTEST_Q], [&](int64_t r, std::span<float> values) {
    const double size = 0.5 + double(random_uniform(of_queries, uint64_t(2 * r)));
    const bool negative = random_below(of_queries, uint64_t(2 * r + 1), 2) == 0;
    std::ranges::fill(values, float(negative ? -size * factor : size * factor));
  });
}

void write_biases(uint64_t seed, const Tensors& tensors) {
  const auto one_of_two = [](uint64_t stream, uint64_t index, float value) {
    return random_below(stream, index, 2) == 0 ? 0.0f : value;
  };
  if (tensors[ATTEST_BIAS])
    fill_rows(tensors[ATTEST_BIAS], [&](int64_t r, std::span<float> values) {
      const uint64_t stream = role_seed(seed, ATTEST_BIAS), hides = random_bits(stream, 1);
      for (size_t j = 0; j < values.size(); ++j) {
        const uint64_t index = uint64_t(r) * values.size() + j;
        values[j] = random_below(hides, index, kBiasHides) == 0
                        ? -std::numeric_limits<float>::infinity()
                        : one_of_two(stream, index, kBias);
      }
    });
  if (tensors[ATTEST_REL_BIAS])
    fill_rows(tensors[ATTEST_REL_BIAS], [&](int64_t r, std::span<float> values) {
      for (size_t j = 0; j < values.size(); ++j)
        values[j] =
            one_of_two(role_seed(seed, ATTEST_REL_BIAS), uint64_t(r) * values.size() + j, kRelBias);
    });
}

// A query of each head is NaN in one channel, so all of its logits are. Three keys of each head
// have one such number each in V, in a channel of its own if there are three.
void write_wild(uint64_t seed, const Tensor& q, const Tensor& v) {
  const TensorSpec& spec = v.spec;
  constexpr double kInfinite = std::numeric_limits<double>::infinity(),
                   kWild[] = {std::numeric_limits<double>::quiet_NaN(), kInfinite, -kInfinite};
  const uint64_t of_queries = random_bits(role_seed(seed, ATTEST_Q), 1),
                 of_values = role_seed(seed, ATTEST_V);
  for (int64_t unit = 0; unit < q.spec.dim[0] * q.spec.dim[1]; ++unit) {
    const auto row = int64_t(random_below(of_queries, uint64_t(unit), uint64_t(q.spec.dim[2])));
    store(q.data, q.spec.dtype, row_offset(q.spec, 3, unit * q.spec.dim[2] + row), kWild[0]);
  }
  for (int64_t unit = 0; unit < spec.dim[0] * spec.dim[1]; ++unit)
    for (int64_t n = 0; n < int64_t(std::size(kWild)); ++n) {
      const auto row =
          int64_t(random_below(of_values, uint64_t(unit * 3 + n), uint64_t(spec.dim[2])));
      store(
          v.data, spec.dtype,
          row_offset(spec, 3, unit * spec.dim[2] + row) + (unit + n) % spec.dim[3] * spec.stride[3],
          kWild[n]);
    }
}

}  // namespace

bool is_top_k_fill(std::string_view fill) {
  return fill == kLevelsName || fill == kCloseName || fill == kWildName;
}

std::vector<std::string> top_k_fills(const Problem& problem) {
  std::vector<std::string> names{std::string(kLevelsName), std::string(kCloseName)};
  if (const Params& p = problem.as<Params>();
      p.softcap == 0 && p.shift_bias == 0 && !problem.has(ATTEST_ALIBI_SLOPES))
    names.emplace_back(kWildName);
  return names;
}

void write_top_k(const Problem& problem, const Fill& fill, const Tensors& tensors) {
  write_biases(fill.seed, tensors);
  if (fill.name == kCloseName) return write_close(problem, fill.seed, tensors);
  write_levels(problem, fill.seed, tensors);
  if (fill.name == kWildName) write_wild(fill.seed, tensors[ATTEST_Q], tensors[ATTEST_V]);
}

// ALiBi and shift_bias may bring keys of different levels to logits that are equal by chance.
// Scores are of few levels all the same.
std::unique_ptr<Golden> top_k_golden(const Problem& problem, const Fill& fill,
                                     const Tensors& tensors) {
  const bool has_levels = fill.name != kCloseName;
  return golden_of(problem, tensors,
                   {.ties_hold = has_levels && !problem.has(ATTEST_ALIBI_SLOPES) &&
                                 problem.as<Params>().shift_bias == 0,
                    .few_scores = has_levels});
}

}  // namespace attest::core
