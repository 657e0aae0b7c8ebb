// For tests of the codebook fills: problems with memory, long double key by key, and a flash kernel
// that rounds where it is told.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/operations/softmax/closed_form/codebook.hpp"
#include "core/operations/softmax/closed_form/golden/rows.hpp"
#include "core/operations/softmax/softmax.hpp"

namespace attest::core::codebook_trials {

using Params = attest_softmax_params;

// An optional tensor; no dims: in full.
struct Optional {
  Optional(int32_t role_, std::vector<int64_t> dims_ = {}) : role(role_), dims(std::move(dims_)) {}
  int32_t role;
  std::vector<int64_t> dims;
};

// A problem with memory behind every tensor.
struct Case {
  Problem problem;
  Fill fill;
  std::array<std::vector<char>, ATTEST_ROLES> memory;
  Tensors tensors{};

  Case(DType dtype, Fill inputs, const std::function<void(Params&)>& change,
       const std::vector<Optional>& optional = {})
      : problem(blank_problem(softmax_operation(), dtype)), fill(std::move(inputs)) {
    change(problem.as<Params>());
    softmax_operation().complete(problem);
    for (const auto& [role, dims] : optional) {
      const DType own = find_role(softmax_operation(), role)->dtype;
      problem.tensor[size_t(role)] = dense_tensor(
          own != ATTEST_NONE ? own : dtype, find_role(softmax_operation(), role)->access,
          dims.empty() ? softmax_operation().dims(problem, role) : dims);
    }
    finish_problem(problem);
    for (size_t role = 0; role < ATTEST_ROLES; ++role) {
      memory[role].resize(size_t(extent_bytes(problem.tensor[role])));
      tensors[role] = {problem.tensor[role], memory[role].data()};
    }
    softmax_operation().fill(problem, fill, tensors, false);
  }
  const Params& p() const { return problem.as<Params>(); }
  const TensorSpec& spec(size_t role) const { return problem.tensor[role]; }
  std::unique_ptr<Golden> golden() const {
    return softmax_operation().golden(problem, fill, tensors);
  }
  std::vector<double> row(size_t role, int64_t outer, int64_t head, int64_t r) const {
    const TensorSpec& s = spec(role);
    std::vector<double> values(size_t(s.dim[3]));
    load_row(tensors[role].data, s.dtype,
             outer * s.stride[0] + head * s.stride[1] + r * s.stride[2], s.dim[3], s.stride[3],
             values.data());
    return values;
  }
};

// All expectations, unshared, by row.
struct Expectations {
  std::map<int64_t, std::vector<double>> value, sigma;

  Expectations(const Golden& golden, const SoftmaxArithmetic& arithmetic, int32_t role) {
    std::mutex lock;
    golden.expect(arithmetic, [&](const Expected& chunk) {
      if (chunk.role != role || !chunk.value) return;
      const std::lock_guard guard(lock);
      for (size_t r = 0; r < chunk.rows.size(); ++r) {
        const size_t at = chunk.shared ? 0 : r * size_t(chunk.width);
        EXPECT_TRUE(value
                        .emplace(chunk.rows[r],
                                 std::vector(chunk.value + at, chunk.value + at + chunk.width))
                        .second)
            << "row " << chunk.rows[r] << " twice";
        sigma.emplace(chunk.rows[r], std::vector(chunk.sigma + at, chunk.sigma + at + chunk.width));
      }
    });
  }
};

// What is added to the score of a key, and its region on a shifted grid: equal scores of two
// regions are two groups.
struct Term {
  double added = 0;
  int64_t region = 0;
};

// One row from its keys, in long double, key by key; what it needs to know of the layout comes in
// as cells.
struct Brute {
  std::vector<double> o, sigma;
  double lse, lse_sigma;

  Brute(const Case& c, const SigmaModel& model, int64_t h, Cell query,
        const std::vector<Cell>& keys, const std::vector<Term>& terms)
      : o(size_t(c.p().head_dim_v)), sigma(o.size()), lse(-INFINITY), lse_sigma(0) {
    using Real = long double;
    const Params& p = c.p();
    const int64_t hk = h / (p.num_heads / p.num_kv_heads);
    const std::vector<double> q = c.row(ATTEST_Q, query.outer, h, query.row);
    std::vector<Real> s;
    std::vector<double> magnitude, dot2, kept2, added2;
    std::vector<bool> at_cap;
    std::vector<std::vector<double>> v, k_rows;
    for (const Cell& key : keys) {
      const std::vector<double> k = c.row(ATTEST_K, key.outer, hk, key.row);
      Real dot = 0, a = 0, b2 = 0;
      for (size_t d = 0; d < q.size(); ++d) {
        const Real product = Real(q[d]) * Real(k[d]) * Real(p.softmax_scale);
        dot += product;
        a += std::fabs(product);
        b2 += product * product;
      }
      const Real bent = p.softcap > 0 ? std::tanh(dot / Real(p.softcap)) : 0,
                 slope = 1 - bent * bent;
      s.push_back((p.softcap > 0 ? Real(p.softcap) * bent : dot) + Real(terms[s.size()].added));
      magnitude.push_back(double(model.squares() ? b2 * slope * slope : a * slope));
      dot2.push_back(double(dot * dot * slope * slope));
      at_cap.push_back(model.is_at_cap(double(slope)));
      const Real capped = p.softcap > 0 ? Real(p.softcap) * bent : 0,
                 added = terms[s.size() - 1].added != 0 ? s.back() : Real(0);
      kept2.push_back(dot2.back() + double(capped * capped));
      added2.push_back(double(added * added));
      k_rows.push_back(k);
      v.push_back(c.row(ATTEST_V, key.outer, hk, key.row));
    }
    Real top = -INFINITY, total = 0;
    for (const Real x : s) top = std::max(top, x);
    for (const Real x : s) total += std::exp(x - top);
    if (!keys.empty()) lse = double(top + std::log(total));
    const double kappa = keys.empty() ? 0 : model.kappa(double(top), lse);
    std::vector<Real> weight;
    std::map<std::pair<double, int64_t>, std::vector<size_t>> groups;  // keys of one score
    std::map<std::vector<double>, std::vector<size_t>> codes;          // equal keys
    for (size_t j = 0; j < s.size(); ++j) {
      weight.push_back(std::exp(s[j] - top) / total);
      groups[{double(s[j]), terms[j].region}].push_back(j);
      codes[k_rows[j]].push_back(j);
    }
    LseSums lse_sums{.lse = lse};
    std::vector<double> p_of, count_of;
    for (const auto& [key, members] : groups) {
      p_of.push_back(double(weight[members[0]]));
      count_of.push_back(double(members.size()));
    }
    const auto n = int64_t(keys.size());
    const double repeated =
        n == 0 ? 0
               : codebook::repeated_variance(p_of, count_of, model.u_acc, model.chain(n), double(n),
                                             double(total));
    lse_sums.score = repeated;
    for (size_t j = 0; j < s.size(); ++j) lse_sums.at_cap += at_cap[j] ? double(weight[j]) : 0;
    for (size_t j = 0; j < s.size() && model.scale_bias > 0; ++j)
      lse_sums.mean_dot += double(weight[j]) * std::sqrt(dot2[j]);
    for (size_t e = 0; e < o.size(); ++e) {
      Real sum = 0;
      for (size_t j = 0; j < s.size(); ++j) sum += weight[j] * Real(v[j][e]);
      o[e] = double(sum);
      double flushed = 0, zone = 0;
      ElementSums sums{.o = o[e],
                       .score = repeated * o[e] * o[e],
                       .at_cap = lse_sums.at_cap,
                       .lse = keys.empty() ? 0 : lse};
      const double u_s2 = model.u_s * model.u_s;
      for (const auto& [key, members] : groups) {
        double rounded = 0, apart = 0, moved = 0, share = 0, whole = 0, squares = 0;
        for (const size_t j : members) {
          const auto w = double(weight[j]);
          const double a = model.u_p * w + model.eta_p * kappa, from = v[j][e] - model.theta * o[e];
          rounded += a * from;
          apart += a * a * from * from;
          moved += w * (v[j][e] - o[e]);
          share += w;
          whole += w * v[j][e];
          squares += w * w * v[j][e] * v[j][e];
          sums.p2 += w * w;
        }
        sums.p2v2 += squares;
        const double kept =
            double(weight[members[0]]) * (model.normalised_first ? 1 : double(total));
        const double margin = model.flush_apart, at = kept / std::max(model.flush_below, 1e-300);
        if (at < 1 - margin) {
          flushed += whole;
          sums.unsure += model.flushed_apart * squares;
        } else if (at < 1 + margin) {
          zone += whole;
          sums.unsure += whole * whole;
        }
        const double alike = model.u_p * share + model.eta_p * kappa * double(members.size());
        sums.rounding += std::max(rounded * rounded, apart);
        sums.score += moved * moved * u_s2 / 3 * added2[members[0]];
        if (e == 0) {
          lse_sums.rounding += alike * alike;
          lse_sums.score += share * share * u_s2 * added2[members[0]];
        }
      }
      for (const auto& [key, members] : codes) {
        double moved = 0, share = 0, apart = 0;
        for (const size_t j : members) {
          const auto w = double(weight[j]);
          moved += w * (v[j][e] - o[e]);
          share += w;
          apart += w * w * (v[j][e] - o[e]) * (v[j][e] - o[e]);
        }
        const size_t j = members[0];
        sums.score +=
            moved * moved *
                model.score_variance(model.staged_square(dot2[j], kept2[j]), magnitude[j]) +
            apart * model.accumulation_variance(dot2[j], magnitude[j]);
        if (e == 0)
          lse_sums.score +=
              share * share *
              (u_s2 * kept2[j] + model.growth() * dot2[j] + model.qk_variance(magnitude[j]));
      }
      sums.flushed = std::max(std::fabs(flushed), std::fabs(flushed + zone));
      sigma[e] = model.element_sigma(sums, int64_t(keys.size()));
    }
    if (!keys.empty()) lse_sigma = model.lse_sigma(lse_sums, int64_t(keys.size()));
  }
};

// A flash kernel in float32 with the probabilities of a tile kept in `probability`; keys
// [lost_begin, lost_end) are forgotten.
struct Kernel {
  DType probability = ATTEST_F32, score = ATTEST_F32, sum = ATTEST_F32;
  bool declares = true;  // what it computes in; else float32
  float exp_error = 0;   // relative, of its exp, as a polynomial has it; never declared
  int64_t tile = 64, lost_begin = 0, lost_end = 0;
  int64_t unscaled = -1;    // the tile at which the sum is not rescaled
  float flushed_below = 0;  // probabilities that become 0
};

inline float rounded(float value, DType dtype) {
  if (dtype == ATTEST_F32) return value;
  uint16_t half = 0;
  double wide = 0;
  store_row(&half, dtype, 0, 1, 1, &value);
  load_row(&half, dtype, 0, 1, 1, &wide);
  return float(wide);
}

struct Ratios {
  double largest = 0, rms = 0;  // in sigmas
  bool pass() const { return largest <= 6 && rms <= 1.5; }
};

// One head: scores of all rows once, with what MASK and BIAS add, then one pass a kernel.
class Flash {
 public:
  explicit Flash(const Case& c)
      : c_(c),
        rows_(c.p().seq_len_q),
        keys_(c.p().seq_len_kv),
        dim_(c.p().head_dim),
        v_(read(ATTEST_V)),
        scores_(size_t(rows_ * keys_)) {
    const std::vector<float> q = read(ATTEST_Q), k = read(ATTEST_K);
#pragma omp parallel for
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < keys_; ++j) {
        float part[8] = {};
        for (int64_t d = 0; d < dim_; d += 8)
          for (int64_t l = 0; l < 8; ++l)
            part[l] += q[size_t(i * dim_ + d + l)] * k[size_t(j * dim_ + d + l)];
        scores_[size_t(i * keys_ + j)] = (((part[0] + part[1]) + (part[2] + part[3])) +
                                          ((part[4] + part[5]) + (part[6] + part[7]))) *
                                         c.p().softmax_scale;
      }
    const Geometry geometry(c.problem, c.tensors);
    if (!geometry.pair_terms()) return;
#pragma omp parallel for
    for (int64_t i = 0; i < rows_; ++i) {
      std::vector<double> terms(size_t(keys_), 0.0);
      geometry.add_pair_terms(0, 0, i, {0, keys_}, terms.data());
      for (int64_t j = 0; j < keys_; ++j) {
        float& score = scores_[size_t(i * keys_ + j)];
        score = terms[size_t(j)] == -INFINITY
                    ? -INFINITY
                    : score + float(terms[size_t(j)]);  // hidden keys may hold NaN
      }
    }
  }

  /// The key from `first` on that row 0 weighs most.
  int64_t best_key(int64_t first) const {
    return std::max_element(scores_.begin() + first, scores_.begin() + keys_) - scores_.begin();
  }

  Ratios judge(const Kernel& kernel) const {
    std::vector<double> got(size_t(rows_ * dim_));
#pragma omp parallel for
    for (int64_t i = 0; i < rows_; ++i) row(kernel, i, &got[size_t(i * dim_)]);
    const SoftmaxArithmetic arithmetic{
        .score = kernel.declares ? kernel.score : ATTEST_F32,
        .probability = kernel.declares ? kernel.probability : ATTEST_F32,
        .accumulator = kernel.declares ? kernel.sum : ATTEST_F32,
        .output = c_.problem.dtype,
        .sum_chain = std::max(std::min(kernel.tile, keys_), keys_ / kernel.tile)};
    const Expectations expected(*c_.golden(), arithmetic, ATTEST_O);
    Ratios ratios;
    for (const auto& [r, value] : expected.value)
      for (size_t e = 0; e < value.size(); ++e) {
        const double ratio =
            std::fabs(got[size_t(r * dim_) + e] - value[e]) / expected.sigma.at(r)[e];
        ratios.largest = std::max(ratios.largest, ratio);
        ratios.rms += ratio * ratio;
      }
    ratios.rms = std::sqrt(ratios.rms / double(got.size()));
    return ratios;
  }

 private:
  std::vector<float> read(size_t role) const {
    std::vector<float> values;
    for (int64_t j = 0; j < c_.spec(role).dim[2]; ++j)
      for (const double x : c_.row(role, 0, 0, j)) values.push_back(float(x));
    return values;
  }

  void row(const Kernel& kernel, int64_t i, double* out) const {
    std::vector<float> sum(static_cast<size_t>(dim_)), part(sum.size());
    float top = -INFINITY, total = 0;
    for (int64_t begin = 0; begin < keys_; begin += kernel.tile) {
      const int64_t end = std::min(begin + kernel.tile, keys_);
      float peak = top;
      for (int64_t j = begin; j < end; ++j)
        peak = std::max(peak, rounded(scores_[size_t(i * keys_ + j)], kernel.score));
      if (peak == -INFINITY) continue;  // all of it is hidden
      const float keep = std::exp(top - peak);
      for (float& x : sum)
        x = rounded(begin / kernel.tile == kernel.unscaled ? x : x * keep, kernel.sum);
      total *= keep;
      top = peak;
      std::fill(part.begin(), part.end(), 0.0f);
      float part_total = 0;
      for (int64_t j = begin; j < end; ++j) {
        if (j >= kernel.lost_begin && j < kernel.lost_end) continue;
        const float below = rounded(scores_[size_t(i * keys_ + j)], kernel.score) - top;
        if (below == -INFINITY) continue;
        float exact = std::exp(below);
        if (kernel.exp_error != 0) exact *= 1 + kernel.exp_error * std::sin(50 * below);
        const float p = exact < kernel.flushed_below ? 0 : exact,
                    kept = rounded(p, kernel.probability);
        part_total += p;
        const float* value = &v_[size_t(j * dim_)];
        float* added = part.data();
#pragma omp simd
        for (int64_t e = 0; e < dim_; ++e) added[e] += kept * value[e];
      }
      total += part_total;
      for (size_t e = 0; e < sum.size(); ++e) sum[e] = rounded(sum[e] + part[e], kernel.sum);
    }
    for (size_t e = 0; e < sum.size(); ++e)
      out[e] = total > 0 ? double(rounded(sum[e] / total, c_.problem.dtype)) : 0;
  }

  const Case& c_;
  int64_t rows_, keys_, dim_;
  std::vector<float> v_, scores_;
};

}  // namespace attest::core::codebook_trials
