// Honest linear attention in any declared arithmetic, on a few rows: it rounds exactly where the
// declaration says.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/operations/linear/linear.hpp"
#include "core/operations/linear/rows.hpp"
#include "core/operations/numerics/rounding.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using LinearParams = attest_linear_params;
// Multiply-adds of one state; beyond it some channels of V are left out
constexpr double kMostWork = 5e7;

class LinearEmulator {
 public:
  LinearEmulator(const Problem& problem, const Tensors& tensors, const LinearArithmetic& arithmetic)
      : p_(problem.as<LinearParams>()), a_(arithmetic), tensors_(tensors) {
    const double work = double(p_.seq_len_kv) * double(p_.head_dim) * double(p_.head_dim_v);
    step_ = std::max<int64_t>(1, int64_t(work / kMostWork));
  }

  /// o [head_dim_v] of row i of query head h in sequence b, NaN where left out.
  std::vector<double> row(int64_t b, int64_t h, int64_t i) {
    const int64_t kv_head = h / (p_.num_heads / p_.num_kv_heads);
    if (a_.has(ATTEST_WEIGHS_PAIRS)) return row_of_pairs(b, h, kv_head, i);
    const State& state = state_of(b, kv_head);
    std::vector<double> o(size_t(p_.head_dim_v), std::numeric_limits<double>::quiet_NaN());
    const std::vector<double> phi = features(ATTEST_Q, b, h, i, counts(ATTEST_QUERY_MASK, b, 2, i));
    double normaliser = 0;
    for (size_t c = 0; c < phi.size(); ++c) normaliser = add(normaliser, phi[c] * state.z[c]);
    normaliser = narrowed(normaliser + double(p_.eps), a_.accumulator);
    for (int64_t e = 0; e < p_.head_dim_v; e += step_) {
      double sum = 0;
      for (size_t c = 0; c < phi.size(); ++c)
        sum = add(sum, phi[c] * state.s[c * size_t(p_.head_dim_v) + size_t(e)]);
      o[size_t(e)] = rounded(narrowed(sum / normaliser, a_.accumulator), a_.output);
    }
    return o;
  }

  // The same without a state.
  std::vector<double> row_of_pairs(int64_t b, int64_t h, int64_t kv_head, int64_t i) const {
    const bool counted = counts(ATTEST_QUERY_MASK, b, 2, i);
    const std::vector<double> q = features(ATTEST_Q, b, h, i, counted);
    const int64_t length = a_.sum_chain > 0 ? a_.sum_chain : p_.seq_len_kv;
    State total(1, size_t(p_.head_dim_v)), part = total;
    for (int64_t j = 0; j < p_.seq_len_kv; ++j) {
      if (j > 0 && j % length == 0) {
        total.add(part, *this);
        part = State(1, part.s.size());
      }
      if (!counts(ATTEST_MASK, b, 3, j)) continue;
      const std::vector<double> k = features(ATTEST_K, b, kv_head, j, true);
      const std::vector<double> v = load(ATTEST_V, b, kv_head, j, p_.head_dim_v);
      double weight = 0;
      for (size_t c = 0; c < q.size(); ++c) weight = add(weight, q[c] * k[c]);
      part.z[0] = add(part.z[0], weight);
      for (size_t e = 0; e < v.size(); ++e)
        part.s[e] = add(part.s[e], kept(weight) * rounded(v[e], a_.state));
    }
    total.add(part, *this);
    const double normaliser = narrowed(total.z[0] + double(p_.eps), a_.accumulator);
    for (double& o : total.s) o = rounded(narrowed(o / normaliser, a_.accumulator), a_.output);
    return total.s;
  }

 private:
  struct State {
    std::vector<double> s, z;  // [head_dim, head_dim_v], [head_dim]
    State(size_t dim, size_t width) : s(dim * width), z(dim) {}
    void add(const State& other, const LinearEmulator& how) {
      for (size_t n = 0; n < s.size(); ++n) s[n] = how.add(s[n], other.s[n]);
      for (size_t n = 0; n < z.size(); ++n) z[n] = how.add(z[n], other.z[n]);
    }
  };

  double add(double sum, double x) const {
    return rounded(narrowed(sum + x, a_.accumulator), a_.accumulator);
  }

  bool counts(int32_t role, int64_t b, int axis, int64_t index) const {
    return linear::counts(tensors_[size_t(role)], b, axis, index);
  }
  std::vector<double> load(int32_t role, int64_t b, int64_t head, int64_t row,
                           int64_t width) const {
    std::vector<double> values(static_cast<size_t>(width));
    linear::load_one(tensors_[size_t(role)], b, head, row, values.data());
    return values;
  }
  // phi of a row, 0 where masked away.
  std::vector<double> features(int32_t role, int64_t b, int64_t head, int64_t row,
                               bool counted) const {
    if (!counted) return std::vector<double>(size_t(p_.head_dim));
    std::vector<double> phi = load(role, b, head, row, p_.head_dim);
    for (double& x : phi)
      x = rounded(narrowed(x > 0 ? x + 1 : exponential(x), a_.features), a_.features);
    return phi;
  }
  // Its error wanders between both bounds with x, as that of a short polynomial does.
  double exponential(double x) const {
    const double wander = 2 * double(random_uniform(5, hash_bytes(&x, sizeof(x)))) - 1;
    return std::exp(x) * (1 + a_.exp_error * wander);
  }
  double kept(double state) const {
    const double y = rounded(state, a_.state);
    return a_.has(ATTEST_FLUSHES_SUBNORMALS) && std::fabs(y) < smallest_normal(a_.state) ? 0 : y;
  }

  const State& state_of(int64_t b, int64_t kv_head) {
    const auto found = states_.find({b, kv_head});
    if (found != states_.end()) return found->second;
    const size_t dim = size_t(p_.head_dim), width = size_t(p_.head_dim_v);
    State total(dim, width), part(dim, width);
    const int64_t length = a_.sum_chain > 0 ? a_.sum_chain : p_.seq_len_kv;
    for (int64_t j = 0; j < p_.seq_len_kv; ++j) {
      if (j > 0 && j % length == 0) {
        total.add(part, *this);
        part = State(dim, width);
      }
      if (!counts(ATTEST_MASK, b, 3, j)) continue;
      const std::vector<double> phi = features(ATTEST_K, b, kv_head, j, true),
                                v = load(ATTEST_V, b, kv_head, j, p_.head_dim_v);
      for (size_t c = 0; c < dim; ++c) {
        part.z[c] = add(part.z[c], phi[c]);
        for (size_t e = 0; e < width; e += size_t(step_))
          part.s[c * width + e] = add(part.s[c * width + e], phi[c] * rounded(v[e], a_.state));
      }
    }
    total.add(part, *this);
    for (auto* sums : {&total.s, &total.z})
      for (double& x : *sums) x = kept(x);
    return states_.emplace(std::pair{b, kv_head}, std::move(total)).first->second;
  }

  const LinearParams& p_;
  const LinearArithmetic& a_;
  const Tensors& tensors_;
  int64_t step_ = 1;
  std::map<std::pair<int64_t, int64_t>, State> states_;
};

}  // namespace

void emulate_linear(const Problem& problem, const Tensors& tensors,
                    const LinearArithmetic& arithmetic, std::span<const int64_t> rows,
                    const EmulationSink& sink) {
  const auto& p = problem.as<LinearParams>();
  LinearEmulator emulator(problem, tensors, arithmetic);
  for (const int64_t row : rows)
    sink(ATTEST_O, row,
         emulator.row(row / p.seq_len_q / p.num_heads, row / p.seq_len_q % p.num_heads,
                      row % p.seq_len_q));
}

}  // namespace attest::core
