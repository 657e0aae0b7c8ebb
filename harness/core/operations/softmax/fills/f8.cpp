#include "core/operations/softmax/fills/f8.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/operations/fill_rows.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

// So that outputs stay in the range of theirs: factors, and what sums exceed a value by.
constexpr double kRoom = 8;
constexpr double kLargestFactor = 1.6;
constexpr int64_t kPositive = 4;  // of values, all but one of so many: they do not cancel

uint64_t role_seed(uint64_t seed, int32_t role) {
  return random_bits(seed, 0x6638ULL + uint64_t(role));
}

// The largest code stands for so many standard deviations; larger numbers are saturated. 448 and
// 57,344 are 3.5 times a power of two, so that multiplying keeps the codes of numbers that are
// rounded already: rounding twice would leave a quarter of the codes out.
constexpr double kLargestNumber = 3.5;

void multiply(const Tensor& tensor, double by) {
  const DType dtype = tensor.spec.dtype;
  edit_elements(tensor, [&](int64_t, int64_t, double x) {
    const auto product = float(x * by);
    return double(is_f8(dtype) ? saturated(product, dtype) : product);
  });
}

// What all numbers of a channel have in common.
struct Band {
  int exponent;  // of the binade; of subnormal numbers, that of the smallest normal one
  bool subnormal;
};

class Bands {
 public:
  /// The binades of `dtype` that begin at or below `most`.
  Bands(DType dtype, double most)
      : least_(std::ilogb(smallest_normal(dtype))),
        count_(std::ilogb(std::min(largest_finite(dtype), most)) - least_ + 2) {}

  /// The band `binades` below, or the subnormal numbers.
  Band lowered(const Band& band, int binades) const {
    const bool subnormal = band.subnormal || band.exponent - binades < least_;
    return {subnormal ? least_ : band.exponent - binades, subnormal};
  }
  /// Of `channels` channels, these have all bands, or, where they are fewer, the first, the last
  /// and some between them.
  Band of(int64_t channel, int64_t channels) const {
    const int64_t band = channels >= count_ ? channel % count_
                         : channels > 1     ? channel * (count_ - 1) / (channels - 1)
                                            : 0;
    return {least_ + int(std::max<int64_t>(band - 1, 0)), band == 0};
  }

 private:
  int least_;
  int64_t count_;
};

// A number of the band, from 1/16 of it where it is subnormal. Rounding to the dtype makes a code
// of it, saturated where it is the largest.
float number_in(const Band& band, uint64_t seed, uint64_t index) {
  const double mantissa = double(random_below(seed, index, 16)) / 16;
  return float(std::ldexp(band.subnormal ? mantissa : 1 + mantissa, band.exponent));
}

void write_keys(const Tensor& k, const Bands& bands, uint64_t seed) {
  fill_rows(k, [&](int64_t r, std::span<float> values) {
    for (size_t d = 0; d < values.size(); ++d) {
      const uint64_t index = uint64_t(r) * values.size() + d;
      const float size = number_in(bands.of(int64_t(d), int64_t(values.size())), seed, 2 * index);
      values[d] = random_below(seed, 2 * index + 1, 2) == 0 ? size : -size;
    }
  });
}

// So that q.k times softmax_scale is of size 1 or so. No number exceeds `most`.
void write_queries(const Problem& problem, const Tensor& q, const Bands& bands, float most,
                   uint64_t seed) {
  const Params& p = problem.as<Params>();
  const double size = 1 / (std::fabs(double(p.softmax_scale)) * std::sqrt(double(p.head_dim)));
  fill_rows(q, [&](int64_t r, std::span<float> values) {
    for (size_t d = 0; d < values.size(); ++d) {
      const uint64_t index = uint64_t(r) * values.size() + d;
      const Band band = bands.of(int64_t(d), int64_t(values.size()));
      const float x =
          float(size * double(random_normal(seed, index))) * std::ldexp(1.0f, -band.exponent);
      values[d] = std::clamp(x, -most, most);
    }
  });
}

/// Of a channel whose numbers might sum to more than f16 holds, the binade is that of one row in
/// 2^`binades`; the others are so many binades smaller.
int binades_of_others(const Band& band, int64_t rows) {
  const double most = largest_finite(ATTEST_F16) / kLargestFactor,
               largest = std::ldexp(1.0, band.exponent + 1);
  // One number may be nearly as large as f16 holds.
  const double all = largest > most / 4 ? most / 16 : most / 4;
  return std::max(0, int(std::ceil(std::log2(largest * double(rows) / all))));
}

void write_values(const Tensor& v, const Bands& bands, uint64_t seed) {
  const int64_t rows = v.spec.dim[2], channels = v.spec.dim[3];
  std::vector<Band> bands_of(static_cast<size_t>(channels));
  std::vector<int> fewer_of(bands_of.size());
  for (size_t d = 0; rows > 0 && d < bands_of.size(); ++d) {
    bands_of[d] = bands.of(int64_t(d), channels);
    fewer_of[d] = binades_of_others(bands_of[d], rows);
  }
  fill_rows(v, [&](int64_t r, std::span<float> values) {
    for (size_t d = 0; d < values.size(); ++d) {
      const uint64_t index = uint64_t(r) * values.size() + d;
      const Band whole = bands_of[d];
      const int fewer = fewer_of[d];
      const int64_t every = fewer < 62 ? std::min(int64_t(1) << fewer, rows) : rows;
      const bool is_whole = (r + r / rows + int64_t(d)) % every == 0;
      const float size = number_in(is_whole ? whole : bands.lowered(whole, fewer), seed, 2 * index);
      values[d] = random_below(seed, 2 * index + 1, kPositive) == 0 ? -size : size;
    }
  });
}

}  // namespace

void fill_factors(uint64_t seed, const Tensors& tensors) {
  for (const StoredRole& stored : kStoredRoles) {
    const Tensor& factors = tensors[size_t(stored.factors)];
    if (!factors) continue;
    const uint64_t of_role = role_seed(seed, stored.factors);
    // Seven sizes a quarter of a binade apart, in turn from block to block, from head to head, from
    // sequence to sequence and from tensor to tensor, each with some noise.
    const int64_t heads = factors.spec.dim[1];
    fill_rows(factors, [&](int64_t r, std::span<float> values) {
      for (size_t n = 0; n < values.size(); ++n) {
        const int64_t turn = (2 * int64_t(n) + 3 * (r % heads) + 5 * (r / heads) + stored.role) % 7;
        const double noise =
            0.05 * double(random_uniform(of_role, uint64_t(r) * values.size() + n));
        values[n] = float(std::exp2(0.25 * double(turn) - 0.9 + noise));
      }
    });
  }
}

void scale_to_codes(const Tensors& tensors) {
  for (const StoredRole& stored : kStoredRoles) {
    const Tensor &numbers = tensors[size_t(stored.role)],
                 &factors = tensors[size_t(stored.factors)];
    if (!factors || !is_f8(numbers.spec.dtype)) continue;
    const double scale = largest_finite(numbers.spec.dtype) / kLargestNumber;
    multiply(numbers, scale);
    multiply(factors, 1 / scale);
  }
}

void write_f8_bands(const Problem& problem, const Fill& fill, const Tensors& tensors) {
  const DType stored = tensors[ATTEST_K].spec.dtype;
  const double largest = largest_finite(stored), most_f16 = largest_finite(ATTEST_F16),
               most_o = largest_finite(problem.tensor[ATTEST_O].dtype);
  // Numbers times their factors stay in the range of f16, in which a kernel may keep them. The last
  // binade of keys reaches twice as far as it begins.
  const bool has_factors = problem.has(ATTEST_Q_DESCALE) || problem.has(ATTEST_K_DESCALE);
  const double most = has_factors ? most_f16 / (2 * kLargestFactor) : largest;
  const Bands of_keys(stored, most),
      of_values(stored,
                (problem.has(ATTEST_V_DESCALE) ? std::min(most_o, most_f16) : most_o) / kRoom);
  write_keys(tensors[ATTEST_K], of_keys, role_seed(fill.seed, ATTEST_K));
  write_queries(problem, tensors[ATTEST_Q], of_keys, float(most), role_seed(fill.seed, ATTEST_Q));
  write_values(tensors[ATTEST_V], of_values, role_seed(fill.seed, ATTEST_V));
}

}  // namespace attest::core
