#include "core/operations/softmax/golden/product_phases.hpp"

#include <algorithm>
#include <cmath>

#include "core/tensor/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/operations/softmax/golden/product_phases.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attest::core::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Numbers = hn::CappedTag<double, 8>;
using Some = hn::Vec<Numbers>;

// The unit circle at `turns`, |turns| <= 1 / 2, by the series that sum_phases has.
HWY_INLINE void Turn(Numbers d, Some turns, Some& real, Some& imaginary) {
  const Some angle = hn::Mul(turns, hn::Set(d, M_PI)), square = hn::Mul(angle, angle);
  const auto step = [&](Some tail, double factor) HWY_ATTR {
    return hn::NegMulAdd(hn::Mul(square, hn::Set(d, 1 / factor)), tail, hn::Set(d, 1.0));
  };
  Some sine = hn::Set(d, 1.0), cosine = sine;
  for (const double factor : {110.0, 72.0, 42.0, 20.0, 6.0}) sine = step(sine, factor);
  for (const double factor : {90.0, 56.0, 30.0, 12.0, 2.0}) cosine = step(cosine, factor);
  sine = hn::Mul(sine, angle);
  const Some twice = hn::Add(sine, sine);
  real = hn::NegMulAdd(twice, sine, hn::Set(d, 1.0));
  imaginary = hn::Mul(twice, cosine);
}

// Adds p v of `count` keys to the sums of phases of all channels: of share^2, and of share times
// the real and imaginary parts of each harmonic. What is far below an ulp errs by no more than
// itself, so it has a smaller share. The sawtooth is odd, so the share of negative products is
// negative.
void AddPhases(const double* p, const double* values, int64_t count, int64_t stride,
               const double* factors, double* sums) {
  const Numbers d;
  for (int64_t c = 0; c < stride; c += int64_t(hn::Lanes(d))) {
    const Some factor = hn::LoadU(d, factors + c);
    Some alone = hn::Zero(d), re1 = alone, re2 = alone, re3 = alone, re4 = alone, im1 = alone,
         im2 = alone, im3 = alone, im4 = alone;
    for (int64_t key = 0; key < count; ++key) {
      if (p[key] == 0) continue;
      const Some value = hn::LoadU(d, values + key * stride + c);
      const Some turns = hn::Abs(hn::Mul(hn::Mul(hn::Set(d, p[key]), value), factor));
      const Some share =
          hn::CopySign(hn::Min(hn::Mul(turns, hn::Set(d, std::sqrt(12))), hn::Set(d, 1.0)), value);
      Some real, imaginary;
      Turn(d, hn::Sub(turns, hn::Round(turns)), real, imaginary);
      const Some two_real = hn::Add(real, real);
      // Each harmonic is twice the real part of the first times the last, less the one before it.
      const Some x1 = hn::Mul(share, real), y1 = hn::Mul(share, imaginary),
                 x2 = hn::MulSub(two_real, x1, share), y2 = hn::Mul(two_real, y1),
                 x3 = hn::MulSub(two_real, x2, x1), y3 = hn::MulSub(two_real, y2, y1),
                 x4 = hn::MulSub(two_real, x3, x2), y4 = hn::MulSub(two_real, y3, y2);
      alone = hn::MulAdd(share, share, alone);
      re1 = hn::Add(re1, x1);
      im1 = hn::Add(im1, y1);
      re2 = hn::Add(re2, x2);
      im2 = hn::Add(im2, y2);
      re3 = hn::Add(re3, x3);
      im3 = hn::Add(im3, y3);
      re4 = hn::Add(re4, x4);
      im4 = hn::Add(im4, y4);
    }
    double* to = sums + c;
    const auto add = [&](Some sum) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, to), sum), d, to);
      to += stride;
    };
    add(alone);
    add(re1);
    add(im1);
    add(re2);
    add(im2);
    add(re3);
    add(im3);
    add(re4);
    add(im4);
  }
}

}  // namespace attest::core::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attest::core {
namespace kernels {

HWY_EXPORT(AddPhases);
void add_phases(const double* p, const double* values, int64_t count, int64_t stride,
                const double* factors, double* sums) {
  HWY_DYNAMIC_DISPATCH(AddPhases)(p, values, count, stride, factors, sums);
}

}  // namespace kernels

namespace {

constexpr int64_t kPhaseSums = 1 + 2 * Phases::kHarmonics;

}  // namespace

ProductPhases::ProductPhases(int64_t stride) : stride_(stride) {
  for (auto& weights : sums_)
    for (Sums& sums : weights) {
      sums.factors.resize(size_t(stride));
      sums.phases.resize(size_t(kPhaseSums * stride));
    }
  channels_.resize(size_t(stride));
}

void ProductPhases::start(const RowScores& row, const RowSums& sums, const SigmaModel& model) {
  const double all = std::max(std::exp(row.lse - row.top()), 1.0),  // the sum of undivided weights
      length = model.chain(row.keys), share = length / double(row.keys),
               largest_part =
                   sums.largest_v * std::min(1.0, length * std::exp(row.top() - row.lse));
  keys_ = row.keys;
  added_ = 0;
  least_ = model.unsummed_below(row.top(), row.lse, row.keys);
  in_parts_ = share < 1;
  for (auto& weights : sums_)
    for (Sums& of : weights) std::ranges::fill(of.phases, 0.0);
  for (int64_t c = 0; c < stride_; ++c) {
    const double reach = sums.reach[c], squares = sums.p2v2[c];
    channels_[size_t(c)] = {.reach = reach,
                            .size = std::min(sums.largest_v, std::sqrt(double(keys_) * squares))};
    const double part = std::min({reach, largest_part, std::sqrt(length * squares)});
    for (const auto& [sum, size] :
         {std::pair(kWhole, reach), {kPart, part}, {kLane, reach * share}})
      for (const auto& [weights, scale] : {std::pair(kDivided, 1.0), {kUndivided, all}})
        sums_[sum][weights].factors[size_t(c)] =
            size > 0 && std::isfinite(size) ? scale / ulp_of(model.u_acc, scale * size) : 0;
  }
}

void ProductPhases::add(const double* p, const double* values, int64_t count) {
  kept_.assign(p, p + count);
  for (double& x : kept_) {
    if (!(x >= least_)) x = 0;
    added_ += x > 0;
  }
  for (int sum = 0; sum < (in_parts_ ? kSums : kPart); ++sum)
    for (Sums& to : sums_[sum])
      kernels::add_phases(kept_.data(), values, count, stride_, to.factors.data(),
                          to.phases.data());
}

double ProductPhases::chance(Sum sum, int64_t channel) const {
  double chance = 0;
  for (const Sums& of : sums_[sum]) {
    const double* at = of.phases.data() + channel;
    double norms[Phases::kHarmonics];
    for (int n = 0; n < Phases::kHarmonics; ++n) {
      const double real = at[(2 * n + 1) * stride_], imaginary = at[(2 * n + 2) * stride_];
      norms[n] = real * real + imaginary * imaginary;
    }
    chance = std::max(chance, Phases::alike(norms, at[0], added_));
  }
  return chance * added_ > kAlikeByChance ? chance : 0;
}

void ProductPhases::write(const SigmaModel& model, double* variances) const {
  for (int64_t c = 0; c < stride_; ++c) {
    AlikeProducts products = channels_[size_t(c)];
    products.whole = chance(kWhole, c);
    if (in_parts_) {
      products.part = chance(kPart, c);
      products.lane = chance(kLane, c);
    }
    variances[c] = model.alike_products_variance(products, keys_);
  }
}

}  // namespace attest::core
#endif
