#include "core/operations/softmax/sigma.hpp"

#include <algorithm>
#include <cmath>

namespace attest::core {
namespace {

constexpr double kVariance = 0x1p-48;  // float32: u^2

// Roundoff of an operand that comes in `from` and is rounded to `to`; 0 where that changes nothing.
double extra_roundoff(DType from, DType to) { return unit_roundoff(to) > unit_roundoff(from) ? unit_roundoff(to) : 0; }

}  // namespace

SigmaModel::SigmaModel(const Arithmetic& arithmetic, DType storage, int64_t dim)
    : u_out(unit_roundoff(arithmetic.output)),
      eta_out(half_subnormal(arithmetic.output)),
      u_p(unit_roundoff(arithmetic.probability) + extra_roundoff(arithmetic.probability, arithmetic.pv) + arithmetic.probability_rel_error),
      eta_p(half_subnormal(arithmetic.probability)),
      flush_below(0),
      u_v(extra_roundoff(storage, arithmetic.pv)),
      u_s(unit_roundoff(arithmetic.score)),
      u_acc(unit_roundoff(arithmetic.accumulator)),
      u_qk(extra_roundoff(ATTEST_F32, arithmetic.qk)),
      exp_error(arithmetic.probability_rel_error),
      theta(arithmetic.has(ATTEST_SUMS_ROUNDED_P) ? 1 : 0),
      truncated(arithmetic.has(ATTEST_P_TRUNCATED) ? 1 : 0),
      normalised_first(arithmetic.has(ATTEST_P_NORMALISED_FIRST)),
      sum_chain(arithmetic.sum_chain),
      head_dim(dim) {
  // The coarser of the two dtypes that P passes through decides which small ones survive.
  if (half_subnormal(arithmetic.pv) > eta_p) eta_p = half_subnormal(arithmetic.pv);
  if (arithmetic.has(ATTEST_FLUSHES_SUBNORMALS)) eta_p = flush_below = std::max(smallest_normal(arithmetic.probability), smallest_normal(arithmetic.pv));
}

double SigmaModel::kappa(double max, double lse) const { return normalised_first ? 1 : std::exp(max - lse); }

SigmaModel::Quadratic SigmaModel::qk_quadratic() const {
  // By Cauchy and Schwarz, A <= sqrt(head_dim) B.
  const double dim = squares() ? double(head_dim) : 1;
  return {kVariance, 2 * kVariance * std::sqrt(dim), kVariance * dim + u_qk * u_qk * 2 / 3};
}

double SigmaModel::qk_variance(double magnitude) const {
  const double x = squares() ? std::sqrt(magnitude) : magnitude;
  const Quadratic q = qk_quadratic();
  return q.q0 + x * (q.q1 + x * q.q2);
}

double SigmaModel::accumulation_variance(double dot_square, double magnitude) const {
  // By Cauchy and Schwarz, A <= sqrt(head_dim) B.
  const double a = squares() ? std::sqrt(double(head_dim) * magnitude) : magnitude;
  return kVariance * (1 + a) * (1 + a) + growth() * dot_square;
}

double SigmaModel::coherent_variance(double lost, double repeated, int64_t keys) const {
  const double length = chain(keys), again = u_acc * length / 4;  // a quarter of an ulp of the final sum, as the mean over its growth
  return lost * lost + again * again * std::pow(repeated, double(keys) / length);
}

double SigmaModel::element_sigma(const ElementSums& sums, int64_t keys) const {
  const double p_v = std::sqrt(std::max(sums.p2v2, 0.0)), sum = u_acc * (std::max(std::fabs(sums.o), sums.reach) + p_v);
  const double output = u_out * sums.o, value = u_v * u_v * (sums.o * sums.o + sums.p2v2), cut = u_p * sums.o;
  // The rounding of a query moves all scores together. What that does to values that follow from the keys is, to first order, a
  // sum over the same products as o itself, each with its own rounding.
  const double query = u_qk * u_qk * (sums.o * sums.o + sums.mean_o2) / 3;
  const double variance = (output * output + eta_out * eta_out + std::max(sums.rounding, 0.0) + value) / 3 + truncated * cut * cut +
                          sums.flushed * sums.flushed + sum * sum * chain(keys) / 3 + std::max(sums.score, 0.0) + query + sums.coherent * sums.o * sums.o;
  return std::sqrt(variance);
}

double SigmaModel::lse_sigma(const LseSums& sums, int64_t keys) const {
  const double output = 0x1p-24 * sums.lse;
  // The query's rounding is common to all keys; by Jensen's inequality it moves the lse by at most the root of sum p B^2. An exp
  // of a low-degree polynomial may lean to one side.
  const double query = u_qk * u_qk * sums.square / 3;
  return std::sqrt(output * output + theta * u_p * u_p * sums.p2 + exp_error * exp_error + sums.score + query + sums.coherent + u_acc * u_acc * chain(keys) / 3);
}

}  // namespace attest::core
