// Gradients of softmax attention by a method: in which order and in which tiles pairs are summed,
// and whether O and LSE are taken as they are given.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attest.hpp"
#include "dense_dbias.hpp"
#include "honest/method.hpp"
#include "top_k.hpp"

namespace honest {

constexpr uint64_t kBackwardFeatures =
    ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW |
    ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS |
    ATTEST_WITH_BIAS | ATTEST_WITH_MASK | ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL |
    ATTEST_WITH_SEQ_LENS | ATTEST_WITH_VARLEN | ATTEST_WITH_PATCHES | ATTEST_WITH_ORDER |
    ATTEST_WITH_GRID | ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_UNALIGNED |
    ATTEST_WITH_DBIAS | ATTEST_WITH_REL_BIAS | ATTEST_WITH_DREL_BIAS | ATTEST_WITH_DSINKS |
    ATTEST_WITH_TOP_K | ATTEST_WITH_DESCALE;

/// What a kernel rounds to, by the stages of the gradients; and what it would declare.
struct GradientArithmetic {
  int32_t score = ATTEST_F32, probability = ATTEST_F32, product = ATTEST_F32,
          accumulator = ATTEST_F32, qk = ATTEST_F32, operand = ATTEST_F32, delta = ATTEST_F32;
  uint32_t ways = 0;
  float exp_error = 0;
};

enum class Forward {
  kGiven,  // O and LSE are read
  kAgain   // delta is the sum of p do.v, and LSE that of this row, in float64; as kGiven with top_k
};

struct GradientMethod {
  const char *name, *summary;
  GradientArithmetic computes, declares;
  Forward forward = Forward::kGiven;
  int64_t tile = 0;       // keys, and queries, that are summed apart; 0: one sum
  bool reversed = false;  // the last key and the last query come first
  // Q times the scale is rounded to the operands, not Q.
  bool folds_scale = false;
};

/// The method of a kernel that computes in `arithmetic` and declares it.
constexpr GradientMethod honest_gradients(const char* name, const char* summary,
                                          GradientArithmetic arithmetic = {},
                                          Forward forward = Forward::kGiven, int64_t tile = 0,
                                          bool reversed = false) {
  return {name, summary, arithmetic, arithmetic, forward, tile, reversed};
}

class BackwardKernel {
 public:
  BackwardKernel(const attest_problem& problem, void* const* data, void* workspace,
                 const GradientMethod& method)
      : a_(problem, data),
        m_(method),
        of_bias_(problem.tensor[ATTEST_DBIAS]),
        x_(problem, workspace) {}

  static void query(const attest_problem& problem, const GradientMethod& method,
                    attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const GradientArithmetic& declares = method.declares;
    support.stage[ATTEST_SOFTMAX_BACKWARD_SCORE].dtype = declares.score;
    support.stage[ATTEST_SOFTMAX_BACKWARD_PROBABILITY] = {declares.probability, declares.exp_error};
    support.stage[ATTEST_SOFTMAX_BACKWARD_PRODUCT].dtype = declares.product;
    support.stage[ATTEST_SOFTMAX_BACKWARD_ACCUMULATOR].dtype = declares.accumulator;
    support.stage[ATTEST_SOFTMAX_BACKWARD_QK].dtype = declares.qk;
    support.stage[ATTEST_SOFTMAX_BACKWARD_OPERAND].dtype = declares.operand;
    support.stage[ATTEST_SOFTMAX_BACKWARD_DELTA].dtype = declares.delta;
    support.arithmetic = declares.ways;
    const int64_t longest = std::max(p.seq_len_kv, p.seq_len_q * (p.num_heads / p.num_kv_heads));
    const auto chain = [&](int64_t tile) { return tile + (longest + tile - 1) / tile; };
    if (method.tile > 0 && chain(method.tile) < longest)
      support.sum_chain = std::max(chain(method.tile), pairs_in_sum(problem));
    support.workspace_bytes = Buffers(problem, nullptr).bytes;
  }

  void run() {
    std::fill_n(x_.d_bias, dense_dbias::elements(of_bias_), 0.0f);
    std::fill_n(x_.d_rel_bias, x_.d_sinks + a_.p.num_heads - x_.d_rel_bias, 0.0f);
    for (int64_t b = 0; b < a_.p.batch; ++b)
      for (int64_t kv_head = 0; kv_head < a_.p.num_kv_heads; ++kv_head) add_head(b, kv_head);
    dense_dbias::each(of_bias_, [&](int64_t n, int64_t b, int64_t h, int64_t i, int64_t j) {
      a_.d_bias(b, h, i, j) = x_.d_bias[n];
    });
    const int64_t height = 2 * a_.p.window_height - 1, width = 2 * a_.p.window_width - 1;
    for (int64_t h = 0; h < a_.p.num_heads; ++h) {
      for (int64_t n = 0; a_.d_rel_bias && n < height * width; ++n)
        a_.d_rel_bias(h, n / width, n % width) = x_.d_rel_bias[h * height * width + n];
      if (a_.d_sinks) a_.d_sinks(h) = x_.d_sinks[h];
    }
  }

 private:
  static constexpr float kHidden = -std::numeric_limits<float>::infinity();

  /// The most pairs that an element of DBIAS, DREL_BIAS or DSINKS sums over; 0: the problem has
  /// none of them.
  static int64_t pairs_in_sum(const attest_problem& problem) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const attest_tensor& of_bias = problem.tensor[ATTEST_DBIAS];
    const int64_t rows = p.batch * p.seq_len_q;  // of a head
    int64_t pairs = 0;
    if (problem.tensor[ATTEST_DREL_BIAS].rank > 0 || problem.tensor[ATTEST_DSINKS].rank > 0)
      pairs = rows;
    if (of_bias.rank > 0)
      pairs =
          std::max(pairs, rows * p.num_heads / (of_bias.dim[0] * of_bias.dim[1] * of_bias.dim[2]));
    return pairs;
  }

  struct Buffers {
    Buffers(const attest_problem& problem, void* memory) {
      const auto& p = attest::params<attest_softmax_params>(problem);
      Arena arena(memory);
      k = arena.take(p.seq_len_kv * p.head_dim);
      v = arena.take(p.seq_len_kv * p.head_dim_v);
      k_of_score = arena.take(p.seq_len_kv * p.head_dim);
      k_operand = arena.take(p.seq_len_kv * p.head_dim);
      v_operand = arena.take(p.seq_len_kv * p.head_dim_v);
      dk = arena.take(p.seq_len_kv * p.head_dim);
      dv = arena.take(p.seq_len_kv * p.head_dim_v);
      dk_tile = arena.take(p.seq_len_kv * p.head_dim);
      dv_tile = arena.take(p.seq_len_kv * p.head_dim_v);
      of_k = arena.take(p.seq_len_kv);
      of_v = arena.take(p.seq_len_kv);
      q = arena.take(p.head_dim);
      d_o = arena.take(p.head_dim_v);
      q_of_score = arena.take(p.head_dim);
      q_operand = arena.take(p.head_dim);
      d_o_operand = arena.take(p.head_dim_v);
      dq = arena.take(p.head_dim);
      dq_tile = arena.take(p.head_dim);
      d_bias = arena.take(dense_dbias::elements(problem.tensor[ATTEST_DBIAS]));
      const int64_t offsets = dense_dbias::elements(problem.tensor[ATTEST_DREL_BIAS]);
      d_rel_bias = arena.take(offsets + p.num_heads);
      d_sinks = d_rel_bias + offsets;
      bytes = arena.bytes();
    }
    float *k, *v;                               // [seq_len_kv, head_dim], [seq_len_kv, head_dim_v]
    float *k_of_score, *k_operand, *v_operand;  // the same, rounded
    float *dk, *dv;            // the same: sums over the tiles of queries before this one
    float *dk_tile, *dv_tile;  // the same: of this one
    float *of_k, *of_v;        // [seq_len_kv]: factors that k and v do not have yet
    float *q, *d_o;            // [head_dim], [head_dim_v]: of one query
    float *q_of_score, *q_operand, *d_o_operand;  // the same, rounded
    float *dq, *dq_tile;                          // [head_dim]
    float *d_bias, *d_rel_bias, *d_sinks;         // dense: sums over the pairs before this one
    size_t bytes;
  };

  void keep(float* x, int64_t count, int32_t dtype) const {
    round_row(x, count, dtype);
    if ((m_.computes.ways & ATTEST_FLUSHES_SUBNORMALS) == 0) return;
    const float least = smallest_normal(dtype);
    for (int64_t n = 0; n < count; ++n) x[n] = std::fabs(x[n]) < least ? 0 : x[n];
  }
  float kept(float x, int32_t dtype) const {
    keep(&x, 1, dtype);
    return x;
  }

  /// Writes x as an operand. Q may be scaled before it is rounded.
  void round_to(float* to, const float* x, int64_t count, int32_t dtype, float scale = 1) const {
    for (int64_t n = 0; n < count; ++n) to[n] = scale * x[n];
    if (dtype != ATTEST_F32) keep(to, count, dtype);
  }
  bool folds_scale(int32_t dtype) const { return m_.folds_scale && dtype != ATTEST_F32; }
  /// The factor of Q before it is rounded to dtype, and that of its products.
  float scale_before(int32_t dtype) const { return folds_scale(dtype) ? a_.p.softmax_scale : 1; }
  float scale_after(int32_t dtype) const { return folds_scale(dtype) ? 1 : a_.p.softmax_scale; }

  static float dot(const float* x, const float* y, int64_t width) {
    float sum = 0;
    for (int64_t d = 0; d < width; ++d) sum += x[d] * y[d];
    return sum;
  }
  void add(float weight, const float* row, int64_t width, float* sum) const {
    for (int64_t d = 0; d < width; ++d) sum[d] += weight * row[d];
    keep(sum, width, m_.computes.accumulator);
  }
  /// The tile's sum joins those before it.
  void join(float* tile, int64_t count, float* sum) const {
    add(1, tile, count, sum);
    std::fill_n(tile, count, 0.0f);
  }
  /// True for a kernel in tiles: it multiplies Q, K and V as they are stored, and applies factors
  /// to scores, do.v and ds. Any other kernel applies them to each row that it reads.
  bool factors_come_late() const { return m_.tile > 0; }
  bool ends_tile(int64_t visited) const { return m_.tile > 0 && (visited + 1) % m_.tile == 0; }

  void add_head(int64_t b, int64_t kv_head) {
    const attest_softmax_params& p = a_.p;
    const int64_t dk = p.seq_len_kv * p.head_dim, dv = p.seq_len_kv * p.head_dim_v;
    for (int64_t j = 0; j < a_.key_rows(b); ++j) {
      const auto [batch, row] = a_.key(b, j);
      float of_k = a_.k_factor(b, kv_head, j), of_v = a_.v_factor(b, kv_head, j);
      x_.of_k[j] = x_.of_v[j] = 1;
      if (factors_come_late()) {
        std::swap(of_k, x_.of_k[j]);
        std::swap(of_v, x_.of_v[j]);
      }
      for (int64_t d = 0; d < p.head_dim; ++d)
        x_.k[j * p.head_dim + d] = of_k * a_.k(batch, kv_head, row, d);
      for (int64_t d = 0; d < p.head_dim_v; ++d)
        x_.v[j * p.head_dim_v + d] = of_v * a_.v(batch, kv_head, row, d);
    }
    const GradientArithmetic& c = m_.computes;
    round_to(x_.k_of_score, x_.k, a_.key_rows(b) * p.head_dim, c.qk);
    round_to(x_.k_operand, x_.k, a_.key_rows(b) * p.head_dim, c.operand);
    round_to(x_.v_operand, x_.v, a_.key_rows(b) * p.head_dim_v, c.operand);
    for (float* const sum : {x_.dk, x_.dk_tile}) std::fill_n(sum, dk, 0.0f);
    for (float* const sum : {x_.dv, x_.dv_tile}) std::fill_n(sum, dv, 0.0f);
    const int64_t queries = p.num_heads / p.num_kv_heads * a_.rows(b),
                  first = kv_head * (p.num_heads / p.num_kv_heads);
    for (int64_t n = 0; n < queries; ++n) {
      const int64_t row = m_.reversed ? queries - 1 - n : n;
      add_query(b, first + row / a_.rows(b), row % a_.rows(b));
      if (ends_tile(n)) {
        join(x_.dk_tile, dk, x_.dk);
        join(x_.dv_tile, dv, x_.dv);
      }
    }
    join(x_.dk_tile, dk, x_.dk);
    join(x_.dv_tile, dv, x_.dv);
    for (int64_t j = 0; j < a_.key_rows(b); ++j) {
      const auto [batch, row] = a_.key(b, j);
      for (int64_t d = 0; d < p.head_dim; ++d)
        a_.d_k(batch, kv_head, row, d) = scale_after(c.operand) * x_.dk[j * p.head_dim + d];
      for (int64_t d = 0; d < p.head_dim_v; ++d)
        a_.d_v(batch, kv_head, row, d) = x_.dv[j * p.head_dim_v + d];
    }
  }

  /// The logit of a pair, which is -inf if the pair is hidden, and the derivative of the logit with
  /// respect to the scaled score. A kernel that computes the forward pass again derives it from
  /// tanh; the others derive it from the capped score, which they have kept.
  struct Logit {
    float value, slope;
  };
  Logit logit(float dot, int64_t b, int64_t h, int64_t i, int64_t j) const {
    const float term = a_.pair_term(b, h, i, j), cap = a_.p.softcap;
    if (term == kHidden) return {kHidden, 0};
    const int32_t dtype = m_.computes.score;
    const float score = kept(scale_after(m_.computes.qk) * kept(dot, dtype), dtype);
    if (cap <= 0) return {kept(score + term, dtype), 1};
    float tanh = std::tanh(score / cap);
    const float capped = kept(cap * tanh, dtype);
    if (m_.forward == Forward::kGiven) tanh = capped / cap;
    return {kept(capped + term, dtype), 1 - tanh * tanh};
  }

  /// pair_term() before it is rounded: -100 and a bias do not fit in a float32 together.
  double exact_term(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (a_.pair_term(b, h, i, j) == kHidden) return double(kHidden);
    double term = a_.bias ? double(a_.bias(b, h, a_.token(i), a_.token(j))) : 0;
    if (a_.rel_bias) {
      const auto at = a_.grid.relative(i, j);
      term += double(a_.rel_bias(h, at.first, at.second));
    }
    if (a_.alibi_slopes)
      term -= double(a_.alibi_slopes(b, h)) * double(std::abs(a_.diagonal(b, i) - j));
    if (a_.grid && a_.grid.rolled_together(i, j)) term += double(a_.p.shift_bias);
    return term;
  }

  /// What all pairs of one query have in common.
  struct Known {
    double lse;
    float delta;
  };
  Known known(int64_t b, int64_t h, int64_t i, attest::Keys keys) const {
    const attest_softmax_params& p = a_.p;
    const int32_t dtype = m_.computes.delta;
    const auto [batch, row] = a_.query(b, i);
    if (m_.forward == Forward::kGiven || p.top_k > 0) {
      float delta = 0;
      for (int64_t d = 0; d < p.head_dim_v; ++d) {
        const auto o = static_cast<float>(a_.o(batch, h, row, d));
        delta += dtype == ATTEST_F32 ? x_.d_o[d] * o
                                     : kept(kept(x_.d_o[d], dtype) * kept(o, dtype), dtype);
      }
      return {a_.lse(batch, h, row), kept(delta, dtype)};
    }
    const double given = a_.lse(batch, h, row);  // near enough to scale the sums
    if (given == static_cast<double>(kHidden)) return {given, 0};
    double total = 0, sum = 0;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const double term = exact_term(b, h, i, j);
      if (term == double(kHidden)) continue;
      double score = 0, gradient = 0;
      for (int64_t d = 0; d < p.head_dim; ++d)
        score += static_cast<double>(x_.q[d]) * static_cast<double>(x_.k[j * p.head_dim + d]);
      for (int64_t d = 0; d < p.head_dim_v; ++d)
        gradient += double(x_.d_o[d]) * double(x_.v[j * p.head_dim_v + d]);
      score *= double(p.softmax_scale) * double(of_q_) * double(x_.of_k[j]);
      gradient *= double(x_.of_v[j]);
      const auto cap = static_cast<double>(p.softcap);
      if (cap > 0) score = cap * std::tanh(score / cap);
      const double weight = std::exp(score + term - given);
      total += weight;
      sum += weight * gradient;
    }
    total += std::exp(static_cast<double>(a_.sink(h)) - given);
    return {given + std::log(total), kept(static_cast<float>(sum / total), dtype)};
  }

  void add_query(int64_t b, int64_t h, int64_t i) {
    const attest_softmax_params& p = a_.p;
    const attest::Keys keys = a_.keys(b, i);
    const auto [batch, row] = a_.query(b, i);
    float of_q = a_.q_factor(b, h, i);
    of_q_ = 1;
    if (factors_come_late()) std::swap(of_q, of_q_);
    for (int64_t d = 0; d < p.head_dim; ++d) x_.q[d] = of_q * a_.q(batch, h, row, d);
    for (int64_t d = 0; d < p.head_dim_v; ++d) x_.d_o[d] = a_.d_o(batch, h, row, d);
    const GradientArithmetic& c = m_.computes;
    round_to(x_.q_of_score, x_.q, p.head_dim, c.qk, scale_before(c.qk));
    round_to(x_.q_operand, x_.q, p.head_dim, c.operand, scale_before(c.operand));
    round_to(x_.d_o_operand, x_.d_o, p.head_dim_v, c.operand);
    for (float* const sum : {x_.dq, x_.dq_tile}) std::fill_n(sum, p.head_dim, 0.0f);
    const Known known = this->known(b, h, i, keys);
    const top_k::Edge edge = edge_of(b, h, i, keys);
    if (a_.d_sinks && known.lse != static_cast<double>(kHidden)) add_to_sink(h, known);
    for (int64_t n = 0; n < keys.end - keys.begin; ++n) {
      const int64_t j = m_.reversed ? keys.end - 1 - n : keys.begin + n;
      add_pair(b, h, i, j, known, edge);
      if (ends_tile(n)) join(x_.dq_tile, p.head_dim, x_.dq);
    }
    join(x_.dq_tile, p.head_dim, x_.dq);
    for (int64_t d = 0; d < p.head_dim; ++d) a_.d_q(batch, h, row, d) = p.softmax_scale * x_.dq[d];
  }

  /// Adds a query that sees a key.
  void add_to_sink(int64_t h, const Known& known) {
    const GradientArithmetic& c = m_.computes;
    const float d_logit = -weight_of(kept(a_.sink(h), c.score), known) * known.delta;
    x_.d_sinks[h] = kept(x_.d_sinks[h] + kept(d_logit, c.product), c.accumulator);
  }

  /// p of a logit.
  float weight_of(float logit, const Known& known) const {
    float weight = static_cast<float>(static_cast<double>(logit) - known.lse);
    Arithmetic of_exp = kFloat;
    of_exp.exp_error = m_.computes.exp_error;
    exponentials(&weight, 1, 0, of_exp);
    keep(&weight, 1, m_.computes.probability);
    return weight;
  }

  /// The logit of a pair, whose query must be in x_.q. This function is not inlined, so that every
  /// call rounds in the same way: the edge of top_k is compared with these logits.
  [[gnu::noinline]] Logit logit_of(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const float product = dot(x_.q_of_score, x_.k_of_score + j * a_.p.head_dim, a_.p.head_dim);
    return logit(of_q_ * x_.of_k[j] * product, b, h, i, j);
  }
  /// With top_k: which keys count, by their positions.
  top_k::Edge edge_of(int64_t b, int64_t h, int64_t i, attest::Keys keys) {
    if (a_.p.top_k == 0) return {};
    logits_.assign(static_cast<size_t>(a_.p.seq_len_kv), kHidden);
    for (int64_t j = keys.begin; j < keys.end; ++j)
      logits_[static_cast<size_t>(j)] = logit_of(b, h, i, j).value;
    return top_k::find(a_.p, logits_.data(), a_.p.seq_len_kv, visible_);
  }

  void add_pair(int64_t b, int64_t h, int64_t i, int64_t j, const Known& known,
                const top_k::Edge& edge) {
    const attest_softmax_params& p = a_.p;
    const GradientArithmetic& c = m_.computes;
    const float *const k = x_.k_operand + j * p.head_dim, *const v =
                                                              x_.v_operand + j * p.head_dim_v;
    const Logit logit = logit_of(b, h, i, j);
    if (logit.value == kHidden || !edge.counts(logit.value, j)) return;
    float weight = weight_of(logit.value, known);
    const float gradient = kept(x_.of_v[j] * dot(x_.d_o_operand, v, p.head_dim_v), c.score),
                d_logit = weight * (gradient - known.delta),
                ds = kept(d_logit * logit.slope, c.product);
    keep(&weight, 1, c.product);
    if (a_.d_bias) {
      float& sum = x_.d_bias[dense_dbias::place(of_bias_, b, h, a_.token(i), a_.token(j))];
      sum = kept(sum + kept(d_logit, c.product), c.accumulator);
    }
    if (a_.d_rel_bias) {
      const auto [y, x] = a_.grid.relative(i, j);
      float& sum =
          x_.d_rel_bias[(h * (2 * p.window_height - 1) + y) * (2 * p.window_width - 1) + x];
      sum = kept(sum + kept(d_logit, c.product), c.accumulator);
    }
    add(x_.of_k[j] * ds, k, p.head_dim, x_.dq_tile);
    add(of_q_ * ds, x_.q_operand, p.head_dim, x_.dk_tile + j * p.head_dim);
    add(weight, x_.d_o_operand, p.head_dim_v, x_.dv_tile + j * p.head_dim_v);
  }

  const attest::Softmax<attest::Any> a_;
  const GradientMethod& m_;
  const attest_tensor& of_bias_;
  const Buffers x_;
  float of_q_ = 1;                       // the factor that x_.q does not have yet
  std::vector<float> logits_, visible_;  // of one query, for top_k
};

}  // namespace honest
