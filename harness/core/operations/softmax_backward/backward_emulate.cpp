// Honest gradients in any declared arithmetic, on a few rows: they are rounded exactly where the
// declaration says, and exp errs by as much as is declared.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "core/operations/numerics/rounding.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax_backward/backward.hpp"
#include "core/operations/softmax_backward/backward_rows.hpp"

namespace attest::core::backward {
namespace {

// O and LSE of a head with more pairs are not computed again, nor with top_k; a row of DBIAS that
// sums over more pairs is not emulated.
constexpr double kMostPairs = 4e6;

class BackwardEmulator {
 public:
  BackwardEmulator(const Problem& problem, const Tensors& tensors,
                   const BackwardArithmetic& arithmetic, int kernel)
      : problem_(problem),
        p_(problem.as<Params>()),
        a_(arithmetic),
        tensors_(tensors),
        rows_(problem, tensors),
        again_(kernel == 1 && p_.top_k == 0 &&
               double(p_.seq_len_q) * double(p_.seq_len_kv) <= kMostPairs),
        backwards_(kernel == 1),
        query_places_(size_t(row_count(problem.tensor[ATTEST_DQ], 3))),
        key_places_(size_t(row_count(problem.tensor[ATTEST_DK], 3))) {
    const Geometry& geometry = rows_.geometry();
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t h = 0; h < p_.num_heads; ++h)
        for (int64_t i = 0; i < geometry.length_q(b); ++i)
          query_places_[size_t(geometry.output_row(b, h, i))] = {b, h, i};
      for (int64_t h = 0; h < p_.num_kv_heads; ++h)
        for (int64_t j = 0; j < geometry.length_kv(b); ++j)
          key_places_[size_t(geometry.key_row(b, h, j))] = {b, h, j};
    }
  }

  void row(int64_t number, const EmulationSink& sink) {
    if (number < int64_t(query_places_.size())) {
      const Place at = query_places_[size_t(number)];
      if (at.b >= 0) {
        load(at.b, at.head / rows_.group());
        sink(ATTEST_DQ, number, query_row({at.head % rows_.group(), at.position}));
      } else {
        sink(ATTEST_DQ, number, std::vector<double>(size_t(p_.head_dim)));
      }
    }
    if (number < int64_t(key_places_.size())) {
      const Place at = key_places_[size_t(number)];
      if (at.b >= 0) {
        load(at.b, at.head);
        key_row(at.position, sink, number);
      } else {
        sink(ATTEST_DK, number, std::vector<double>(size_t(p_.head_dim)));
        sink(ATTEST_DV, number, std::vector<double>(size_t(p_.head_dim_v)));
      }
    }
    if (number < row_count(problem_.tensor[ATTEST_DBIAS], 3)) bias_row(number, sink);
    if (problem_.has(ATTEST_DREL_BIAS) && number < row_count(problem_.tensor[ATTEST_DREL_BIAS], 2))
      rel_bias_row(number, sink);
    if (problem_.has(ATTEST_DSINKS) && number < p_.num_heads) sink_element(number, sink);
  }

 private:
  /// Where a row of a tensor stands. A row of no sequence has b = -1, and its gradient is 0.
  struct Place {
    int64_t b = -1, head = 0, position = 0;
  };
  struct Weights {
    double p, ds, d_logit;  // d_logit: ds without the slope
  };
  struct Addend {
    double weight;
    const double* row;
  };

  void load(int64_t b, int64_t kv_head) {
    if (loaded_ && b == b_ && kv_head == kv_head_) return;
    loaded_ = true;
    b_ = b;
    kv_head_ = kv_head;
    rows_.load(b, kv_head);
    known_.clear();
    edges_.clear();
    const int64_t queries = rows_.group() * rows_.length_q();
    const auto round = [&](std::vector<double>& to, const double* from, int64_t count,
                           DType operand, double factor) {
      to.resize(size_t(count));
      for (size_t n = 0; n < to.size(); ++n)
        to[n] = kept(factor == 1 ? from[n] : narrowed(factor * from[n], operand), operand);
    };
    const auto coarse = [](DType operand) { return is_coarse(operand) ? operand : ATTEST_F64; };
    const DType qk = coarse(a_.qk), operand = coarse(a_.operand);
    if (queries == 0 || rows_.length_kv() == 0) return;
    const double *const q = rows_.q({0, 0}), *const k = rows_.k(0);
    round(score_q_, q, queries * p_.head_dim, qk, scales_q(qk) ? double(p_.softmax_scale) : 1);
    round(score_k_, k, rows_.length_kv() * p_.head_dim, qk, 1);
    round(q_, q, queries * p_.head_dim, operand, scales_q(operand) ? double(p_.softmax_scale) : 1);
    round(k_, k, rows_.length_kv() * p_.head_dim, operand, 1);
    round(v_, rows_.v(0), rows_.length_kv() * p_.head_dim_v, operand, 1);
    round(d_o_, rows_.d_o({0, 0}), queries * p_.head_dim_v, operand, 1);
  }

  // One kernel scales Q before it rounds it, the other scales what it multiplied.
  bool scales_q(DType operand) const { return backwards_ && is_coarse(operand); }
  int64_t row(Query at) const { return at.h * rows_.length_q() + at.i; }
  const double* q(Query at) const { return q_.data() + row(at) * p_.head_dim; }
  const double* k(int64_t j) const { return k_.data() + j * p_.head_dim; }
  const double* v(int64_t j) const { return v_.data() + j * p_.head_dim_v; }
  const double* d_o(Query at) const { return d_o_.data() + row(at) * p_.head_dim_v; }

  /// What is added to the score of one pair; -inf: it is hidden, or does not count by top_k.
  double seen_term(Query at, int64_t j) {
    const double term = rows_.pair_term(at, j);
    if (term == kHidden || p_.top_k == 0) return term;
    const auto [edge, is_new] = edges_.try_emplace({at.h, at.i});
    if (is_new) {
      std::vector<double> logits;
      for (int64_t key = 0; key < rows_.length_kv(); ++key) {
        const double of_key = rows_.pair_term(at, key);
        logits.push_back(of_key == kHidden ? kHidden : logit(at, key, of_key).value);
      }
      edge->second = find_edge(p_, logits);
    }
    return edge->second.keeps(logit(at, j, term).value, j) ? term : kHidden;
  }

  double kept(double x, DType dtype) const {
    const double y = rounded(narrowed(x, dtype), dtype);
    return a_.has(ATTEST_FLUSHES_SUBNORMALS) && std::fabs(y) < smallest_normal(dtype) ? 0 : y;
  }

  double dot(const double* x, const double* y, int64_t width) const {
    double sum = 0;
    for (int64_t n = 0; n < width; ++n) {
      const int64_t c = backwards_ ? width - 1 - n : n;
      sum = narrowed(sum + x[c] * y[c], a_.score);
    }
    return sum;
  }

  struct Logit {
    double value, slope;
  };
  // The slope is that of the capped score as it is kept, or of the score before it.
  Logit logit(Query at, int64_t j, double term) const {
    const double product = kept(dot(score_q_.data() + row(at) * p_.head_dim,
                                    score_k_.data() + j * p_.head_dim, p_.head_dim),
                                a_.score);
    const double scaled =
        scales_q(a_.qk) ? product : kept(double(p_.softmax_scale) * product, a_.score);
    const auto cap = double(p_.softcap);
    if (cap <= 0) return {kept(scaled + term, a_.score), 1};
    double t = narrowed(std::tanh(narrowed(scaled / cap, a_.score)), a_.score);
    const double capped = kept(cap * t, a_.score);
    if (!backwards_) t = narrowed(capped / cap, a_.score);
    return {kept(capped + term, a_.score), narrowed(1 - narrowed(t * t, a_.score), a_.score)};
  }

  struct Known {
    double lse, delta;
  };
  // As they are given, or as a kernel knows them that computes them again: O and LSE before they
  // were rounded.
  Known known(Query at) {
    const auto [found, is_new] = known_.try_emplace({at.h, at.i});
    if (!is_new) return found->second;
    const Known of{rows_.lse(at), kept(given_delta(at), a_.delta)};
    found->second = of;
    if (!again_ || !std::isfinite(of.lse)) return of;
    double total = 0, delta = 0, off = 0;
    const TensorSpec& spec = tensors_[ATTEST_O].spec;
    for (int64_t j = 0; j < rows_.length_kv(); ++j) {
      const double term = seen_term(at, j);
      if (term == kHidden) continue;
      double score = 0, gradient = 0;
      for (int64_t c = 0; c < p_.head_dim; ++c) score += rows_.q(at)[c] * rows_.k(j)[c];
      for (int64_t c = 0; c < p_.head_dim_v; ++c) gradient += rows_.d_o(at)[c] * rows_.v(j)[c];
      score *= double(p_.softmax_scale);
      if (p_.softcap > 0) score = double(p_.softcap) * std::tanh(score / double(p_.softcap));
      const double p = std::exp(score + term - of.lse);
      total += p;
      delta += p * gradient;
    }
    total += std::exp(rows_.geometry().sink(rows_.query_head(at.h)) - of.lse);
    for (int64_t c = 0; c < p_.head_dim_v; ++c) {
      const double o = rows_.o(at, c);
      off += std::fabs(rows_.d_o(at)[c]) *
             std::max(unit_roundoff(spec.dtype) * std::fabs(o), half_subnormal(spec.dtype));
    }
    const double step = 0x1p-24 * std::fabs(of.lse);
    // O and LSE that are not those of the other inputs are not known any better.
    const auto near = [](double own, double given, double most) {
      return std::fabs(own - given) <= most ? own : given;
    };
    found->second = {near(of.lse + std::log(total), of.lse, step),
                     kept(near(delta / total, rows_.delta(at), off), a_.delta)};
    return found->second;
  }
  double given_delta(Query at) const {
    double sum = 0;
    for (int64_t n = 0; n < p_.head_dim_v; ++n) {
      const int64_t c = backwards_ ? p_.head_dim_v - 1 - n : n;
      const double d_o = rows_.d_o(at)[c], o = rows_.o(at, c),
                   product = is_coarse(a_.delta)
                                 ? kept(kept(d_o, a_.delta) * kept(o, a_.delta), a_.delta)
                                 : d_o * o;
      sum = narrowed(sum + product, a_.delta);
    }
    return sum;
  }

  double probability(double logit, double lse) const {
    return kept(std::exp(narrowed(logit - lse, a_.probability)) *
                    (1 + (backwards_ ? -a_.exp_error : a_.exp_error)),
                a_.probability);
  }
  Weights weights(Query at, int64_t j, double term) {
    const Known known = this->known(at);
    const Logit logit = this->logit(at, j, term);
    const double p = probability(logit.value, known.lse);
    const double gradient = kept(dot(d_o(at), v(j), p_.head_dim_v), a_.score);
    const double d_logit = narrowed(p * narrowed(gradient - known.delta, a_.score), a_.score),
                 ds = p_.softcap > 0 ? narrowed(d_logit * logit.slope, a_.score) : d_logit;
    return {kept(p, a_.product), kept(ds, a_.product), kept(d_logit, a_.product)};
  }

  // No chain of additions is longer than declared.
  int64_t part_length(int64_t count) const {
    const int64_t half = (a_.sum_chain + 1) / 2;
    if (a_.sum_chain <= 0 || a_.sum_chain >= count) return std::max<int64_t>(count, 1);
    return half * (a_.sum_chain - half) >= count ? half : 1;
  }
  std::vector<double> sum(const std::vector<Addend>& addends, int64_t begin, int64_t end,
                          int64_t length, size_t width) const {
    std::vector<double> total(width);
    const auto add_sum = [&](const std::vector<double>& part) {
      for (size_t c = 0; c < width; ++c) total[c] = kept(total[c] + part[c], a_.accumulator);
    };
    if (length == 1 && end - begin > 1) {
      const int64_t middle = (begin + end) / 2;
      add_sum(sum(addends, begin, middle, length, width));
      add_sum(sum(addends, middle, end, length, width));
    } else if (end - begin <= length) {
      for (int64_t n = begin; n < end; ++n)
        for (size_t c = 0; c < width; ++c)
          total[c] = kept(total[c] + addends[size_t(n)].weight * addends[size_t(n)].row[c],
                          a_.accumulator);
    } else {
      for (int64_t n = begin; n < end; n += length)
        add_sum(sum(addends, n, std::min(n + length, end), length, width));
    }
    return total;
  }
  std::vector<double> gradient(std::vector<Addend> addends, int64_t width, double scale,
                               DType output) const {
    if (backwards_) std::reverse(addends.begin(), addends.end());
    const auto count = int64_t(addends.size());
    std::vector<double> total = sum(addends, 0, count, part_length(count), size_t(width));
    for (double& x : total) x = rounded(narrowed(scale * x, a_.accumulator), output);
    return total;
  }

  std::vector<double> query_row(Query at) {
    std::vector<Addend> addends;
    for (int64_t j = 0; j < rows_.length_kv(); ++j)
      if (const double term = seen_term(at, j); term != kHidden)
        addends.push_back({weights(at, j, term).ds, k(j)});
    return gradient(std::move(addends), p_.head_dim, double(p_.softmax_scale),
                    problem_.tensor[ATTEST_DQ].dtype);
  }

  void key_row(int64_t j, const EmulationSink& sink, int64_t number) {
    std::vector<Addend> of_k, of_v;
    for (int64_t h = 0; h < rows_.group(); ++h)
      for (int64_t i = 0; i < rows_.length_q(); ++i)
        if (const double term = seen_term({h, i}, j); term != kHidden) {
          const Weights pair = weights({h, i}, j, term);
          of_k.push_back({pair.ds, q({h, i})});
          of_v.push_back({pair.p, d_o({h, i})});
        }
    sink(ATTEST_DK, number,
         gradient(std::move(of_k), p_.head_dim, scales_q(a_.operand) ? 1 : double(p_.softmax_scale),
                  problem_.tensor[ATTEST_DK].dtype));
    sink(ATTEST_DV, number,
         gradient(std::move(of_v), p_.head_dim_v, 1, problem_.tensor[ATTEST_DV].dtype));
  }

  void bias_row(int64_t number, const EmulationSink& sink) {
    const TensorSpec& spec = problem_.tensor[ATTEST_DBIAS];
    const Interval of_all[] = {{0, p_.batch}, {0, p_.num_heads}, {0, p_.seq_len_q}};
    const int64_t at[] = {number / (spec.dim[1] * spec.dim[2]), number / spec.dim[2] % spec.dim[1],
                          number % spec.dim[2]};
    // Along each dim: the one place, or all that share it.
    Interval along[3];
    double pairs = double(p_.seq_len_kv);
    for (size_t axis = 0; axis < 3; ++axis) {
      along[axis] =
          spec.dim[axis] == of_all[axis].size() ? Interval{at[axis], at[axis] + 1} : of_all[axis];
      pairs *= double(along[axis].size());
    }
    if (pairs > kMostPairs) return;
    const double one = 1;
    std::vector<std::vector<Addend>> addends(size_t(p_.seq_len_kv));
    for (int64_t b = along[0].begin; b < along[0].end; ++b)
      for (int64_t h = along[1].begin; h < along[1].end; ++h) {
        load(b, h / rows_.group());
        const Geometry& geometry = rows_.geometry();
        for (int64_t i = along[2].begin; i < std::min(along[2].end, rows_.length_q()); ++i)
          for (int64_t j = 0; j < rows_.length_kv(); ++j) {
            const Query query{h % rows_.group(), geometry.place(i)};
            if (const double term = seen_term(query, j); term != kHidden)
              addends[size_t(geometry.token(j))].push_back({weights(query, j, term).d_logit, &one});
          }
      }
    std::vector<double> row;
    for (std::vector<Addend>& of_key : addends)
      row.push_back(gradient(std::move(of_key), 1, 1, spec.dtype)[0]);
    sink(ATTEST_DBIAS, number, row);
  }

  void rel_bias_row(int64_t number, const EmulationSink& sink) {
    const int64_t across = 2 * p_.window_width - 1, window = p_.window_height * p_.window_width,
                  h = number / (2 * p_.window_height - 1),
                  dy = number % (2 * p_.window_height - 1) - p_.window_height + 1;
    if (double(p_.batch * p_.seq_len_q * p_.window_width) > kMostPairs) return;
    const double one = 1;
    std::vector<std::vector<Addend>> addends(static_cast<size_t>(across));
    for (int64_t b = 0; b < p_.batch; ++b) {
      load(b, h / rows_.group());
      for (int64_t i = 0; i < rows_.length_q(); ++i)
        for (int64_t x = 0; x < p_.window_width; ++x) {
          const int64_t inside = i % window, y = inside / p_.window_width - dy,
                        j = i - inside + y * p_.window_width + x;
          if (y < 0 || y >= p_.window_height) continue;
          const Query query{h % rows_.group(), i};
          if (const double term = seen_term(query, j); term != kHidden)
            addends[size_t(inside % p_.window_width - x + p_.window_width - 1)].push_back(
                {weights(query, j, term).d_logit, &one});
        }
    }
    std::vector<double> row;
    for (std::vector<Addend>& of_element : addends)
      row.push_back(
          gradient(std::move(of_element), 1, 1, problem_.tensor[ATTEST_DREL_BIAS].dtype)[0]);
    sink(ATTEST_DREL_BIAS, number, row);
  }

  void sink_element(int64_t h, const EmulationSink& sink) {
    const double one = 1;
    std::vector<Addend> addends;
    for (int64_t b = 0; b < p_.batch; ++b) {
      load(b, h / rows_.group());
      const double logit = kept(rows_.geometry().sink(h), a_.score);
      for (int64_t i = 0; i < rows_.length_q(); ++i) {
        const Known known = this->known({h % rows_.group(), i});
        if (known.lse != kHidden)
          addends.push_back(
              {kept(narrowed(-probability(logit, known.lse) * known.delta, a_.score), a_.product),
               &one});
      }
    }
    sink(ATTEST_DSINKS, h, gradient(std::move(addends), 1, 1, ATTEST_F32));
  }

  const Problem& problem_;
  const Params& p_;
  const BackwardArithmetic& a_;
  const Tensors& tensors_;
  HeadRows rows_;
  const bool again_, backwards_;
  std::vector<Place> query_places_, key_places_;  // of each row of DQ; of DK and DV
  bool loaded_ = false;
  int64_t b_ = 0, kv_head_ = 0;
  // As HeadRows has them, rounded to the operands of q.k and of the other products
  std::vector<double> score_q_, score_k_, q_, k_, v_, d_o_;
  // By query head of the group and position
  std::map<std::pair<int64_t, int64_t>, Known> known_;
  std::map<std::pair<int64_t, int64_t>, TopKEdge> edges_;
};

}  // namespace

void emulate(const Problem& problem, const Tensors& tensors, const BackwardArithmetic& arithmetic,
             int kernel, std::span<const int64_t> rows, const EmulationSink& sink) {
  const WithoutFactors inputs(problem, tensors);
  BackwardEmulator emulator(inputs.problem(), inputs.tensors(), arithmetic, kernel);
  for (const int64_t row : rows) emulator.row(row, sink);
}

}  // namespace attest::core::backward
