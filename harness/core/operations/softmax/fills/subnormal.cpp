#include "core/operations/softmax/fills/subnormal.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/fill_rows.hpp"
#include "core/operations/softmax/golden/known_inputs.hpp"
#include "core/tensor/dtype.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

constexpr double kStep = 0x1p-24;       // between subnormal numbers of f16
constexpr uint64_t kSubnormals = 1023;  // above 0
constexpr double kDeviation = 1.4;      // of the scores of either half of the channels
constexpr double kLargest = 40000;      // f16 holds it times log2(e)

// Channels of K that are subnormal. In those behind them, Q is.
size_t subnormal_channels_of_k(const Params& p) { return size_t((p.head_dim + 1) / 2); }

// The standard deviation of scores, where what is multiplied with subnormal numbers is 1.
double deviation_beside_ones(const Params& p) {
  const double root_mean_square = kStep * double(kSubnormals) / std::sqrt(3.0);
  const auto channels = double(std::max<int64_t>(p.head_dim / 2, 1));
  return std::fabs(double(p.softmax_scale)) * root_mean_square * std::sqrt(channels);
}

// The magnitude of what is multiplied with subnormal numbers.
double large_magnitude(const Params& p) {
  const double largest = kLargest / std::max(std::fabs(double(p.softmax_scale)), 1.0);
  return std::min(largest, kDeviation / std::max(deviation_beside_ones(p), 1e-30));
}

float subnormal_above_0(uint64_t seed, uint64_t counter) {
  return float(double(1 + random_below(seed, counter, kSubnormals)) * kStep);
}
float with_random_sign(uint64_t seed, uint64_t counter, float magnitude) {
  return random_bits(seed, counter) % 2 == 0 ? magnitude : -magnitude;
}

void fill_operand(const Tensor& tensor, uint64_t seed, double large, bool is_k, size_t of_k) {
  const uint64_t signs = random_bits(seed, 1);
  fill_rows(tensor, [&](int64_t r, std::span<float> values) {
    for (size_t c = 0; c < values.size(); ++c) {
      const uint64_t counter = uint64_t(r) * values.size() + c;
      const bool subnormal = is_k == (c < of_k);
      values[c] = with_random_sign(signs, counter,
                                   subnormal ? subnormal_above_0(seed, counter) : float(large));
    }
  });
}

void fill_values(const Tensor& v, uint64_t seed) {
  fill_rows(v, [&](int64_t r, std::span<float> values) {
    for (size_t c = 0; c < values.size(); ++c) {
      const uint64_t counter = uint64_t(r) * values.size() + c;
      values[c] = c % 2 == 0 ? subnormal_above_0(seed, counter) : random_normal(seed, counter);
    }
  });
}

}  // namespace

void write_subnormal(const Problem& problem, uint64_t seed, const Tensors& tensors) {
  const auto& p = problem.as<Params>();
  const double large = large_magnitude(p);
  const size_t of_k = subnormal_channels_of_k(p);
  fill_operand(tensors[ATTEST_Q], random_bits(seed, uint64_t(ATTEST_Q)), large, false, of_k);
  fill_operand(tensors[ATTEST_K], random_bits(seed, uint64_t(ATTEST_K)), large, true, of_k);
  fill_values(tensors[ATTEST_V], random_bits(seed, uint64_t(ATTEST_V)));
}

std::unique_ptr<Golden> subnormal_golden(const Problem& problem, const Tensors& tensors,
                                         const GoldenDevice* device) {
  const double large = large_magnitude(problem.as<Params>());
  return golden_of(problem, tensors, {.beside_subnormals = large, .budget = kFewRowsBudget},
                   device);
}

}  // namespace attest::core
