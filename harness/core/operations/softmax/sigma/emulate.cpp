#include "core/operations/softmax/sigma/emulate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "core/operations/numerics/rounding.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;
constexpr size_t kTile = 64;

class Emulator {
 public:
  Emulator(const Problem& problem, const Tensors& tensors, const SoftmaxArithmetic& arithmetic,
           const EmulationStyle& style)
      : p_(problem.as<Params>()),
        a_(arithmetic),
        style_(style),
        tensors_(tensors),
        geometry_(problem, tensors) {}

  struct Place {
    int64_t b, h, i;
  };
  /// By output row; rows that no place stands on are missing.
  std::map<int64_t, Place> places(std::span<const int64_t> rows) const {
    std::map<int64_t, Place> found;
    for (int64_t b = 0; b < geometry_.batch(); ++b)
      for (int64_t h = 0; h < p_.num_heads; ++h)
        for (int64_t i = 0; i < geometry_.length_q(b); ++i)
          if (const int64_t row = geometry_.output_row(b, h, i);
              std::find(rows.begin(), rows.end(), row) != rows.end())
            found[row] = {b, h, i};
    return found;
  }

  /// o [head_dim_v] of one place; returns its lse.
  double row(const Place& at, std::vector<double>& o) {
    at_ = at;
    kv_head_ = at.h / (p_.num_heads / p_.num_kv_heads);
    std::fill(o.begin(), o.end(), 0.0);
    std::vector<double> s = scores();
    if (p_.top_k > 0) hide_below_top_k(s);
    double top = s.empty() ? kHidden : *std::max_element(s.begin(), s.end());
    if (top == kHidden) return kHidden;
    if (geometry_.has_sinks()) top = std::max(top, geometry_.sink(at.h));
    std::vector<double> p(s.size());
    for (size_t n = 0; n < s.size(); ++n) p[n] = exponential(s[n], top, n);
    if (a_.exp_error > 0 && style_.online) rescale(s, p);
    sink_ = geometry_.has_sinks() ? exponential(geometry_.sink(at.h), top, s.size()) : 0;
    const double normaliser = normalise(p);
    const double lse =
        narrowed(top + narrowed(std::log(normaliser), a_.accumulator), a_.accumulator);
    const bool by_lse = a_.has(ATTEST_WEIGHS_BY_LSE),
               divided = by_lse || a_.has(ATTEST_P_NORMALISED_FIRST);
    if (by_lse && a_.has(ATTEST_P_NORMALISED_FIRST)) weigh_by(lse, s, p);
    const double weight =
        by_lse && !a_.has(ATTEST_P_NORMALISED_FIRST) ? exponential(top, lse, s.size()) : 1;
    add_values(p, s, o);
    for (double& x : o) x = narrowed(x * weight, a_.accumulator);
    for (double& x : o)
      x = rounded(divided ? x : narrowed(x / normaliser, a_.accumulator), a_.output);
    return lse;
  }

 private:
  const std::vector<double>& load(int32_t role, int64_t outer, int64_t head, int64_t row,
                                  int64_t width) const {
    const Tensor& x = tensors_[size_t(role)];
    std::vector<double>& values = role == ATTEST_Q ? q_row_ : role == ATTEST_K ? k_row_ : v_row_;
    values.resize(static_cast<size_t>(width));
    load_row(x.data, x.spec.dtype,
             outer * x.spec.stride[0] + head * x.spec.stride[1] + row * x.spec.stride[2], width,
             x.spec.stride[3], values.data());
    return values;
  }
  int64_t key_place(size_t n) const {
    return style_.reversed ? keys_.end - 1 - int64_t(n) : keys_.begin + int64_t(n);
  }

  // Logits of the keys in the order in which they are visited, kept in their dtype after every
  // step.
  std::vector<double> scores() {
    keys_ = geometry_.keys(at_.b, at_.i);
    const Cell cell = geometry_.query(at_.b, at_.i);
    std::vector<double> q = load(ATTEST_Q, cell.outer, at_.h, cell.row, p_.head_dim),
                        s(size_t(keys_.size())), terms(s.size());
    const double cap = double(p_.softcap);
    const Factors factors = scale_factors();
    for (double& x : q) x = operand(x, factors.q);
    if (geometry_.pair_terms() && !terms.empty())
      geometry_.add_pair_terms(at_.b, at_.h, at_.i, keys_, terms.data());
    for (size_t n = 0; n < s.size(); ++n) {
      const int64_t j = key_place(n);
      const double term = terms[size_t(j - keys_.begin)];
      if (term == kHidden) {
        s[n] = kHidden;
        continue;
      }
      const double product = dot(q, j, factors.k);
      s[n] = kept_score(factors.product == 1 ? product : product * factors.product);
      if (cap > 0) s[n] = kept_score(cap * std::tanh(s[n] / cap));
      if (geometry_.pair_terms()) s[n] = kept_score(s[n] + narrowed(term, a_.score));
    }
    return s;
  }

  // Selects by the logits as they are kept.
  void hide_below_top_k(std::vector<double>& s) const {
    const auto seen = std::ranges::count_if(s, [](double x) { return x != kHidden; });
    if (seen <= p_.top_k || std::ranges::any_of(s, [](double x) { return std::isnan(x); })) return;
    std::vector<size_t> order(s.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::ranges::sort(order, [&](size_t a, size_t b) {
      return s[a] != s[b] ? s[a] > s[b] : key_place(a) < key_place(b);
    });
    const double edge = s[order[size_t(p_.top_k) - 1]];
    for (size_t n = size_t(p_.top_k); n < order.size(); ++n)
      if (double& logit = s[order[n]]; logit < edge || p_.top_k_ties == ATTEST_TOP_K_FIRST)
        logit = kHidden;
  }

  struct Factors {
    double q = 1, k = 1, product = 1;
  };
  Factors scale_factors() const {
    const double scale = double(p_.softmax_scale);
    switch (style_.scale) {
      case ScalePlace::kQueries: return {.q = scale};
      case ScalePlace::kQueriesBase2: return {.q = scale * M_LOG2E, .product = M_LN2};
      case ScalePlace::kBoth:
        return {.q = std::copysign(std::sqrt(std::fabs(scale)), scale),
                .k = std::sqrt(std::fabs(scale))};
      default: return {.product = scale};
    }
  }
  double operand(double x, double factor) const {
    return rounded(factor == 1 ? x : narrowed(x * factor, a_.qk), a_.qk);
  }
  double kept_score(double s) const { return rounded(narrowed(s, a_.score), a_.score); }

  double dot(const std::vector<double>& q, int64_t j, double factor) const {
    const Cell cell = geometry_.key(at_.b, j);
    const std::vector<double>& k = load(ATTEST_K, cell.outer, kv_head_, cell.row, p_.head_dim);
    const size_t half = style_.mixed_orders && j % 8 == 7 ? k.size() / 2 : k.size();
    double low = 0, high = 0;
    auto add = [&](double sum, size_t d) {
      return narrowed(sum + narrowed(q[d] * operand(k[d], factor), a_.qk), a_.qk);
    };
    for (size_t d = 0; d < half; ++d) low = add(low, d);
    for (size_t d = half; d < k.size(); ++d) high = add(high, d);
    return narrowed(low + high, a_.qk);
  }

  // Below the smallest normal number an exp may give 0, and most do.
  double exponential(double s, double top, size_t n) const {
    if (s == kHidden) return 0;
    const double wander =
        style_.cuts_towards_zero ? -1 : 2 * double(random_uniform(5, uint64_t(n))) - 1;
    const DType dtype = a_.probability == ATTEST_F64 ? ATTEST_F64 : ATTEST_F32;
    const double p =
        narrowed(std::exp(narrowed(s - top, dtype)) * (1 + a_.exp_error * wander), dtype);
    return p < smallest_normal(dtype) ? 0 : p;
  }

  // The second of two passes.
  void weigh_by(double lse, const std::vector<double>& s, std::vector<double>& p) const {
    for (size_t n = 0; n < s.size(); ++n) p[n] = rounded(keep(exponential(s[n], lse, n)), a_.pv);
  }

  // An online softmax rescales what it has summed by exp(old maximum - new one), tile by tile: the
  // keys of all tiles before share its error. `p` become what they are then.
  void rescale(const std::vector<double>& s, std::vector<double>& p) const {
    double top = kHidden;
    for (size_t begin = 0; begin < p.size(); begin += kTile) {
      const size_t end = std::min(begin + kTile, p.size());
      const double most =
          *std::max_element(s.begin() + std::ptrdiff_t(begin), s.begin() + std::ptrdiff_t(end));
      if (most <= top) continue;
      const double error = style_.cuts_towards_zero ? -1 : 2 * double(random_uniform(7, begin)) - 1;
      for (size_t n = 0; n < begin && top > kHidden; ++n) p[n] *= 1 + a_.exp_error * error;
      top = most;
    }
  }

  // From exp(s - top) to what is multiplied with V; returns the normaliser.
  double normalise(std::vector<double>& p) const {
    double normaliser = 0;
    if (a_.has(ATTEST_P_NORMALISED_FIRST)) {
      normaliser = with_sink(
          chained(a_.has(ATTEST_WEIGHS_BY_LSE) && a_.has(ATTEST_SUMS_ROUNDED_P) ? all_kept(p) : p));
      for (double& x : p) x = narrowed(x / normaliser, a_.probability);
    }
    const std::vector<double> kept = all_kept(p);
    if (!a_.has(ATTEST_P_NORMALISED_FIRST))
      normaliser = with_sink(chained(a_.has(ATTEST_SUMS_ROUNDED_P) ? kept : p));
    for (size_t n = 0; n < p.size(); ++n) p[n] = rounded(kept[n], a_.pv);
    return normaliser;
  }
  std::vector<double> all_kept(std::vector<double> p) const {
    const auto parts = size_t(style_.parts);
    for (size_t part = 0; part < parts; ++part) {
      const size_t begin = p.size() * part / parts, end = p.size() * (part + 1) / parts;
      const std::span keys = std::span(p).subspan(begin, end - begin);
      const double largest = parts > 1 && !keys.empty() ? std::ranges::max(keys) : 1;
      for (double& x : keys) x = largest > 0 ? keep(x / largest) * largest : 0;
    }
    return p;
  }
  double with_sink(double sum) const {
    const double sink = a_.has(ATTEST_SUMS_ROUNDED_P) ? keep(sink_) : sink_;
    return sink_ > 0 ? summed(sum + sink) : sum;
  }
  double summed(double sum) const {
    const double kept = rounded(narrowed(sum, a_.accumulator), a_.accumulator);
    return a_.has(ATTEST_FLUSHES_SUBNORMALS) && std::fabs(kept) < smallest_normal(a_.accumulator)
               ? 0
               : kept;
  }
  double keep(double x) const {
    const double y =
        a_.has(ATTEST_P_TRUNCATED) ? cut(x, a_.probability) : rounded(x, a_.probability);
    const double least = std::max(smallest_normal(a_.probability), smallest_normal(a_.pv));
    return a_.has(ATTEST_FLUSHES_SUBNORMALS) && y < least ? 0 : y;
  }

  int64_t chain(size_t count) const {
    return a_.sum_chain > 0 ? a_.sum_chain : std::max<int64_t>(int64_t(count), 1);
  }

  // Sums of at most the declared chain, then sums of these in the same way.
  double chained(std::vector<double> x) const {
    const auto length = size_t(std::max<int64_t>(chain(x.size()), 2));
    while (x.size() > 1) {
      std::vector<double> sums;
      for (size_t begin = 0; begin < x.size(); begin += length) {
        double sum = 0;
        for (size_t n = begin; n < std::min(begin + length, x.size()); ++n)
          sum = summed(sum + x[n]);
        sums.push_back(sum);
      }
      x = std::move(sums);
    }
    return x.empty() ? 0 : x[0];
  }

  void add_values(const std::vector<double>& p, const std::vector<double>& s,
                  std::vector<double>& o) const {
    const auto length = size_t(std::max<int64_t>(chain(p.size()), 2));
    std::vector<std::vector<double>> parts;
    std::vector<double> sum(o.size());
    size_t added = 0;
    for (size_t n = 0; n < p.size(); ++n) {
      if (s[n] == kHidden) continue;
      const Cell cell = geometry_.key(at_.b, key_place(n));
      const std::vector<double>& v = load(ATTEST_V, cell.outer, kv_head_, cell.row, p_.head_dim_v);
      for (size_t d = 0; d < o.size(); ++d) sum[d] = summed(sum[d] + p[n] * rounded(v[d], a_.pv));
      if (++added % length == 0) {
        parts.push_back(sum);
        std::fill(sum.begin(), sum.end(), 0.0);
      }
    }
    parts.push_back(sum);
    for (size_t d = 0; d < o.size(); ++d) {
      std::vector<double> column;
      for (const std::vector<double>& part : parts) column.push_back(part[d]);
      o[d] = chained(std::move(column));
    }
  }

  const Params& p_;
  const SoftmaxArithmetic& a_;
  const EmulationStyle& style_;
  const Tensors& tensors_;
  const Geometry geometry_;
  Place at_{};
  int64_t kv_head_ = 0;
  double sink_ = 0;  // exp of its logit, less the row's maximum; 0: none
  Interval keys_;
  mutable std::vector<double> q_row_, k_row_, v_row_;  // what was loaded last
};

}  // namespace

void emulate_softmax(const Problem& problem, const Tensors& tensors,
                     const SoftmaxArithmetic& arithmetic, const EmulationStyle& style,
                     std::span<const int64_t> rows, const EmulationSink& sink) {
  Emulator emulator(problem, tensors, arithmetic, style);
  std::vector<double> o(size_t(problem.as<Params>().head_dim_v));
  const auto places = emulator.places(rows);
  for (const int64_t row : rows) {
    const auto at = places.find(row);
    double lse = kHidden;
    std::fill(o.begin(), o.end(), 0.0);
    if (at != places.end()) lse = emulator.row(at->second, o);
    sink(ATTEST_O, row, o);
    if (tensors[ATTEST_LSE]) sink(ATTEST_LSE, row, {&lse, 1});
  }
}

// What Q and K are rounded to after they were scaled; in float32 that is a rounding like any other.
// And an exp with a declared error may rescale.
int SoftmaxOperation::kernels(const Problem& problem, const Arithmetic& declared) const {
  const auto arithmetic = SoftmaxArithmetic::of(with_stored_operands(declared, problem));
  const int places =
      unit_roundoff(arithmetic.qk) > unit_roundoff(ATTEST_F32) ? int(ScalePlace::kCount) : 1;
  return arithmetic.exp_error > 0 ? places + 1 : places;
}

void SoftmaxOperation::emulate(const Problem& problem, const Tensors& tensors,
                               const Arithmetic& declared, int kernel,
                               std::span<const int64_t> rows, const EmulationSink& sink) const {
  const Arithmetic used = with_stored_operands(declared, problem);
  const WithoutFactors inputs(problem, tensors);
  const SoftmaxArithmetic arithmetic = SoftmaxArithmetic::of(used);
  const bool online = arithmetic.exp_error > 0 && kernel == kernels(problem, declared) - 1;
  emulate_softmax(inputs.problem(), inputs.tensors(), arithmetic,
                  {.scale = online ? ScalePlace::kScores : ScalePlace(kernel), .online = online},
                  rows, sink);
}

}  // namespace attest::core
