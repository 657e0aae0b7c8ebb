#include "core/operations/linear/linear_sigma.hpp"

#include <algorithm>
#include <cmath>

namespace attest::core::linear {
namespace {

// What is flushed is known but for sums at the edge, whose own errors decide.
constexpr double kNearlyFlushed = 1.02;
// A sum of alike addends stops growing when each is below half its ulp, after 1 / u of them; from
// here on not all are added in full.
constexpr double kStalls = 0.5;

double square(double x) { return x * x; }
double factor(Term term) { return ScopedTermFactor<Term>::of(term); }

}  // namespace

Moments::Moments(Sizes s, const Variances& u)
    : S(size_t(s.matrix())),
      A1(S.size()),
      A2(S.size()),
      P1(S.size()),
      P2(S.size()),
      z(size_t(s.head_dim)),
      A0(z.size()),
      P0(z.size()),
      most(S.size()),
      least(S.size()),
      rounding_z(u.key_step.matters() ? z.size() : 0),
      small_z(rounding_z.size()),
      rounding(u.key_step.matters() ? S.size() : 0),
      small(rounding.size()),
      V1(u.pair_step.matters() || u.weight_step.matters() ? size_t(s.width) : 0),
      V2(V1.size()) {}

void Moments::add(const Moments& next) {
  for (size_t i = 0; i < S.size(); ++i) {
    most[i] = std::max(most[i], S[i] + next.most[i]);
    least[i] = std::min(least[i], S[i] + next.least[i]);
  }
  auto sum = [](std::vector<double>& to, const std::vector<double>& from) {
    std::transform(to.begin(), to.end(), from.begin(), to.begin(), std::plus<>());
  };
  sum(S, next.S);
  sum(A1, next.A1);
  sum(A2, next.A2);
  sum(P1, next.P1);
  sum(P2, next.P2);
  sum(z, next.z);
  sum(A0, next.A0);
  sum(P0, next.P0);
  sum(rounding_z, next.rounding_z);
  sum(small_z, next.small_z);
  sum(rounding, next.rounding);
  sum(small, next.small);
  sum(V1, next.V1);
  sum(V2, next.V2);
  keys += next.keys;
}

void Moments::note_reach() {
  for (size_t i = 0; i < S.size(); ++i) {
    most[i] = std::max(most[i], S[i]);
    least[i] = std::min(least[i], S[i]);
  }
}

Variances::Variances(const LinearArithmetic& arithmetic, const attest_linear_params& p,
                     DType stored_v) {
  // phi is kept in the operand dtype of the first product; S and z enter the second one in that of
  // PV.
  u_phi = std::max(unit_roundoff(arithmetic.features), arithmetic.exp_error);
  const double rounding = square(unit_roundoff(arithmetic.features)),
               exp = square(factor(Term::kExp) * arithmetic.exp_error);
  query = (square(factor(Term::kQueryFeatures)) * rounding + exp) / 3;
  key = (square(factor(Term::kKeyFeatures)) * rounding + exp) / 3;
  equal = square(factor(Term::kEqualKeys)) * (rounding + exp) / 3;
  const double u_state = unit_roundoff(arithmetic.state),
               u_accumulator = unit_roundoff(arithmetic.accumulator);
  const bool flushes = arithmetic.has(ATTEST_FLUSHES_SUBNORMALS);
  auto eta = [&](DType dtype) { return flushes ? smallest_normal(dtype) : half_subnormal(dtype); };
  state = square(factor(Term::kState) * u_state) / 3;
  state_small = square(factor(Term::kSmallState) * half_subnormal(arithmetic.state)) / 3;
  flush_below = flushes ? kNearlyFlushed * smallest_normal(arithmetic.state)
                        : half_subnormal(arithmetic.state);
  lost = factor(Term::kFlushed);
  const int64_t chain =
      arithmetic.sum_chain > 0 ? std::min(arithmetic.sum_chain, p.seq_len_kv) : p.seq_len_kv;
  keys = square(factor(Term::kKeySum) * u_accumulator) * double(chain) / 3;
  reach = factor(Term::kReach);
  const double shares = u_accumulator * double(chain);
  stall = shares > kStalls ? factor(Term::kStalled) * shares : 0;
  step = square(factor(Term::kRepeated) * u_accumulator * double(chain) / 4);
  length = double(p.seq_len_kv) / double(chain);
  channels = square(factor(Term::kChannelSum) * u_accumulator) * double(p.head_dim) / 3;
  const double weighs_pairs = arithmetic.has(ATTEST_WEIGHS_PAIRS) ? factor(Term::kPairs) : 0;
  pairs = square(weighs_pairs * u_accumulator * double(p.head_dim) / 2);
  one_sum = weighs_pairs * std::sqrt(keys);
  out = square(factor(Term::kOutput) * unit_roundoff(arithmetic.output)) / 3;
  eta_squared = square(factor(Term::kOutputSubnormal) * eta(arithmetic.output)) / 3;
  const double least_step = 2 * half_subnormal(arithmetic.accumulator);
  if (arithmetic.has(ATTEST_WEIGHS_PAIRS)) {
    pair_step = {least_step, factor(Term::kSmallPairs)};
    weight_step = {2 * half_subnormal(arithmetic.state), factor(Term::kSmallPairs)};
  } else {
    key_step = {least_step, factor(Term::kSmallSums)};
    channel_step = {least_step, factor(Term::kSmallChannels)};
  }
  value = u_state > unit_roundoff(stored_v) ? square(factor(Term::kValues) * u_state) / 3 : 0;
}

Variances Variances::of_key_features() const {
  Variances own = *this;
  own.query = own.state = own.state_small = own.keys = own.channels = own.pairs = own.one_sum = 0;
  own.key_step = {};
  return own;
}

Variances Variances::of_state() const {
  Variances own = *this;
  own.query = own.key = own.equal = own.channels = own.pairs = 0;
  if (one_sum > 0) own.state = own.state_small = own.keys = 0;
  return own;
}

Quadratic::Quadratic(Sizes s, const Moments& m, const Variances& u)
    : X(m.S.size()), Y(X), S2(X), Sz(X), Z(m.z.size()), z2(Z), root(X) {
  const bool equal = !m.E0.empty();
  auto reach_of = [&](size_t i) {
    return std::max(std::fabs(m.S[i]), u.reach * std::max(m.most[i], -m.least[i]));
  };
  auto summed = [&](double reach, double squares, const std::vector<double>& small, size_t i) {
    return u.keys * square(reach + std::sqrt(squares)) + u.state_small +
           (u.key_step.matters() ? small[i] : 0);
  };
  for (int64_t c = 0; c < s.head_dim; ++c) {
    const double z = m.z[size_t(c)];
    Z[size_t(c)] = u.key * m.A0[size_t(c)] + u.state * z * z +
                   summed(z, m.P0[size_t(c)], m.small_z, size_t(c)) + u.pairs * m.P0[size_t(c)] +
                   (equal ? (u.equal + u.pairs) * m.E0[size_t(c)] : 0);
    z2[size_t(c)] = u.query * z * z;
    for (int64_t v = 0; v < s.width; ++v) {
      const auto i = size_t(c * s.width + v);
      const double S = m.S[i], reach = reach_of(i);
      X[i] = u.key * m.A2[i] + u.state * S * S + summed(reach, m.P2[i], m.small, i) +
             2 * u.channels * S * S + u.pairs * m.P2[i] +
             (equal ? (u.equal + u.pairs) * m.E2[i] : 0);
      Y[i] = u.key * m.A1[i] + u.pairs * m.P1[i] + (equal ? (u.equal + u.pairs) * m.E1[i] : 0);
      S2[i] = u.query * S * S;
      Sz[i] = u.query * S * z;
      root[i] = std::sqrt(m.P2[i]);
    }
  }
  // What a sum of repeated numbers leans by, next to nothing beside its other roundings; what is
  // lost of it.
  auto leans = [&](double repeated, double sum) {
    const double gone = std::fabs(sum) < u.flush_below ? u.lost : 0;
    return (std::sqrt(repeated > 0.01 * u.keys ? repeated : 0) + u.stall + gone) * std::fabs(sum);
  };
  lean.resize(m.S.size());
  lean_z.resize(m.z.size());
  for (size_t i = 0; i < lean.size(); ++i) {
    lean[i] = leans(i < m.repeated.size() ? m.repeated[i] : 0, m.S[i]) + u.one_sum * reach_of(i);
  }
  if (std::all_of(lean.begin(), lean.end(), [](double x) { return x == 0; })) lean.clear();
  for (size_t c = 0; c < lean_z.size(); ++c) {
    const double repeated = c < m.repeated_z.size() ? m.repeated_z[c] : 0;
    lean_z[c] = (std::sqrt(repeated) + u.one_sum) * m.z[c] + leans(0, m.z[c]);
  }
}

}  // namespace attest::core::linear
