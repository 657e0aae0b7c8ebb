// naive_backward: the gradients of softmax attention by definition, in float32. Each pair of a
// query and a key is computed twice: once for dQ, whose sum runs over the keys, and once for dK and
// dV, whose sums run over the queries. So no thread adds to what another one adds to. For DBIAS
// each pair is computed a third time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "attest.hpp"
#include "dense_dbias.hpp"
#include "top_k.hpp"

namespace {

struct NaiveBackward {
  static constexpr attest::Info kInfo{
      .name = "naive_backward",
      .version = "1",
      .summary = "gradients pair by pair in float32, threads over queries, then over keys",
      .operation = ATTEST_SOFTMAX_BACKWARD,
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16) |
                ATTEST_BIT(ATTEST_F8E4M3) | ATTEST_BIT(ATTEST_F8E5M2),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                  ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_BIAS | ATTEST_WITH_MASK |
                  ATTEST_WITH_SOFTCAP | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS |
                  ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL | ATTEST_WITH_SEQ_LENS |
                  ATTEST_WITH_VARLEN | ATTEST_WITH_PATCHES | ATTEST_WITH_ORDER | ATTEST_WITH_GRID |
                  ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_UNALIGNED |
                  ATTEST_WITH_DBIAS | ATTEST_WITH_REL_BIAS | ATTEST_WITH_DREL_BIAS |
                  ATTEST_WITH_DSINKS | ATTEST_WITH_TOP_K | ATTEST_WITH_DESCALE};
  const attest_problem& problem;

  using Tensors = attest::Softmax<attest::Any>;

  static const char* query(const attest_problem& problem, attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const int64_t floats = p.num_heads * p.seq_len_q * (p.head_dim + p.head_dim_v + 2) +
                           p.num_kv_heads * p.seq_len_kv * (p.head_dim + p.head_dim_v) +
                           dense_dbias::elements(problem.tensor[ATTEST_DBIAS]) +
                           dense_dbias::elements(problem.tensor[ATTEST_DREL_BIAS]) + p.num_heads;
    support.workspace_bytes = sizeof(float) * static_cast<uint64_t>(floats);
    return nullptr;
  }

  void run(void* const* data, void* workspace, void* /*stream*/) const {
    const Tensors a(problem, data);
    Sequence s(a, problem, static_cast<float*>(workspace));
    for (int64_t b = 0; b < a.p.batch; ++b) {
      read(a, b, s);
      find_edges(a, s, b);
#pragma omp parallel num_threads(problem.threads)
      {
        std::vector<float> sum(static_cast<size_t>(a.p.head_dim)),
            sum_v(static_cast<size_t>(a.p.head_dim_v));
#pragma omp for schedule(static)
        for (int64_t row = 0; row < a.p.num_heads * a.rows(b); ++row)
          write_dq(a, s, b, row / a.rows(b), row % a.rows(b), sum);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < a.p.num_kv_heads * a.key_rows(b); ++row)
          write_dk_and_dv(a, s, b, row / a.key_rows(b), row % a.key_rows(b), sum, sum_v);
      }
      if (a.d_bias) add_dbias(a, s, b);
      if (a.d_rel_bias || a.d_sinks) add_shared(a, s, b);
    }
    if (a.d_bias) write_dbias(a, s);
    write_shared(a, s);
  }

 private:
  /// One sequence in float32, times factors: [num_heads, seq_len_q, ...] and [num_kv_heads,
  /// seq_len_kv, ...]; and the sums of DBIAS, DREL_BIAS and DSINKS over the sequences so far,
  /// dense.
  struct Sequence {
    float *q, *d_o, *delta, *lse, *k, *v, *d_bias, *d_rel_bias, *d_sinks;
    std::vector<top_k::Edge> edges;  // [num_heads, seq_len_q]; empty without top_k

    Sequence(const Tensors& a, const attest_problem& problem, float* memory) {
      const int64_t queries = a.p.num_heads * a.p.seq_len_q,
                    keys = a.p.num_kv_heads * a.p.seq_len_kv;
      q = memory;
      d_o = q + queries * a.p.head_dim;
      delta = d_o + queries * a.p.head_dim_v;
      lse = delta + queries;
      k = lse + queries;
      v = k + keys * a.p.head_dim;
      d_bias = v + keys * a.p.head_dim_v;
      d_rel_bias = d_bias + dense_dbias::elements(problem.tensor[ATTEST_DBIAS]);
      d_sinks = d_rel_bias + dense_dbias::elements(problem.tensor[ATTEST_DREL_BIAS]);
      if (a.p.top_k > 0) edges.resize(static_cast<size_t>(queries));
    }
  };
  /// What a pair adds: p times a row of dO to dV, ds times K or Q to dQ or dK, and to DBIAS ds
  /// without the slope.
  struct Weights {
    float p, ds, d_logit;
  };

  /// With top_k: which keys of each query count.
  void find_edges(const Tensors& a, Sequence& s, int64_t b) const {
    if (s.edges.empty()) return;
#pragma omp parallel num_threads(problem.threads)
    {
      std::vector<float> logits(static_cast<size_t>(a.p.seq_len_kv)), visible;
#pragma omp for schedule(static)
      for (int64_t n = 0; n < a.p.num_heads * a.rows(b); ++n) {
        const int64_t h = n / a.rows(b), i = n % a.rows(b);
        const auto [begin, end] = a.keys(b, i);
        std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
        for (int64_t j = begin; j < end; ++j)
          logits[static_cast<size_t>(j)] = logit_of(a, s, b, h, i, j).value;
        s.edges[static_cast<size_t>(query_row(a, h, i))] =
            top_k::find(a.p, logits.data(), a.p.seq_len_kv, visible);
      }
    }
  }

  void read(const Tensors& a, int64_t b, const Sequence& s) const {
    const int64_t queries = a.rows(b), keys = a.key_rows(b);
#pragma omp parallel for num_threads(problem.threads)
    for (int64_t n = 0; n < a.p.num_heads * queries; ++n) {
      const int64_t h = n / queries, at = query_row(a, h, n % queries);
      const auto [batch, row] = a.query(b, n % queries);
      const float of_q = a.q_factor(b, h, n % queries);
      for (int64_t d = 0; d < a.p.head_dim; ++d)
        s.q[at * a.p.head_dim + d] = of_q * a.q(batch, h, row, d);
      float delta = 0;
      for (int64_t d = 0; d < a.p.head_dim_v; ++d) {
        const float gradient = a.d_o(batch, h, row, d);
        s.d_o[at * a.p.head_dim_v + d] = gradient;
        delta += gradient * static_cast<float>(a.o(batch, h, row, d));
      }
      s.delta[at] = delta;
      s.lse[at] = a.lse(batch, h, row);
    }
#pragma omp parallel for num_threads(problem.threads)
    for (int64_t n = 0; n < a.p.num_kv_heads * keys; ++n) {
      const int64_t h = n / keys, at = key_row(a, h, n % keys);
      const auto [batch, row] = a.key(b, n % keys);
      const float of_k = a.k_factor(b, h, n % keys), of_v = a.v_factor(b, h, n % keys);
      for (int64_t d = 0; d < a.p.head_dim; ++d)
        s.k[at * a.p.head_dim + d] = of_k * a.k(batch, h, row, d);
      for (int64_t d = 0; d < a.p.head_dim_v; ++d)
        s.v[at * a.p.head_dim_v + d] = of_v * a.v(batch, h, row, d);
    }
  }

  /// The row of a Sequence.
  static int64_t query_row(const Tensors& a, int64_t h, int64_t i) { return h * a.p.seq_len_q + i; }
  static int64_t key_row(const Tensors& a, int64_t kv_head, int64_t j) {
    return kv_head * a.p.seq_len_kv + j;
  }

  static float dot(const float* x, const float* y, int64_t width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < width; ++d) sum += x[d] * y[d];
    return sum;
  }
  static void add(float weight, const float* row, std::vector<float>& sum) {
    for (size_t d = 0; d < sum.size(); ++d) sum[d] += weight * row[d];
  }

  /// The derivative of the logit by the scaled score, from q.k.
  static float slope(const attest_softmax_params& p, float score) {
    if (p.softcap <= 0) return 1;
    const float capped = std::tanh(p.softmax_scale * score / p.softcap);
    return 1 - capped * capped;
  }

  /// q.k, and what it becomes.
  struct Logit {
    float score, value;
  };
  /// This function is not inlined: inlined copies might round differently, and the edge of top_k is
  /// compared with these logits.
  [[gnu::noinline]] static Logit logit_of(const Tensors& a, const Sequence& s, int64_t b, int64_t h,
                                          int64_t i, int64_t j) {
    const float score = dot(s.q + query_row(a, h, i) * a.p.head_dim,
                            s.k + key_row(a, a.kv_head(h), j) * a.p.head_dim, a.p.head_dim);
    return {score, a.logit(score, b, h, i, j)};
  }

  /// False: the pair is hidden, and nothing of it may be used.
  static bool weigh(const Tensors& a, const Sequence& s, int64_t b, int64_t h, int64_t i, int64_t j,
                    Weights& weights) {
    const int64_t query = query_row(a, h, i), key = key_row(a, a.kv_head(h), j);
    const Logit logit = logit_of(a, s, b, h, i, j);
    if (logit.value == -std::numeric_limits<float>::infinity()) return false;
    if (!s.edges.empty() && !s.edges[static_cast<size_t>(query)].counts(logit.value, j))
      return false;
    weights.p = std::exp(logit.value - s.lse[query]);
    weights.d_logit = weights.p * (dot(s.d_o + query * a.p.head_dim_v, s.v + key * a.p.head_dim_v,
                                       a.p.head_dim_v) -
                                   s.delta[query]);
    weights.ds = slope(a.p, logit.score) * weights.d_logit;
    return true;
  }

  static void write_dq(const Tensors& a, const Sequence& s, int64_t b, int64_t h, int64_t i,
                       std::vector<float>& sum) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    const auto [begin, end] = a.keys(b, i);
    Weights weights{};
    for (int64_t j = begin; j < end; ++j)
      if (weigh(a, s, b, h, i, j, weights))
        add(weights.ds, s.k + key_row(a, a.kv_head(h), j) * a.p.head_dim, sum);
    const auto [batch, row] = a.query(b, i);
    for (int64_t d = 0; d < a.p.head_dim; ++d)
      a.d_q(batch, h, row, d) = a.p.softmax_scale * sum[static_cast<size_t>(d)];
  }

  static void write_dk_and_dv(const Tensors& a, const Sequence& s, int64_t b, int64_t kv_head,
                              int64_t j, std::vector<float>& of_k, std::vector<float>& of_v) {
    std::fill(of_k.begin(), of_k.end(), 0.0f);
    std::fill(of_v.begin(), of_v.end(), 0.0f);
    const int64_t group = a.p.num_heads / a.p.num_kv_heads;
    Weights weights{};
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
      for (int64_t i = 0; i < a.rows(b); ++i) {
        const auto [begin, end] = a.keys(b, i);
        if (j < begin || j >= end || !weigh(a, s, b, h, i, j, weights)) continue;
        add(weights.ds, s.q + query_row(a, h, i) * a.p.head_dim, of_k);
        add(weights.p, s.d_o + query_row(a, h, i) * a.p.head_dim_v, of_v);
      }
    const auto [batch, row] = a.key(b, j);
    for (int64_t d = 0; d < a.p.head_dim; ++d)
      a.d_k(batch, kv_head, row, d) = a.p.softmax_scale * of_k[static_cast<size_t>(d)];
    for (int64_t d = 0; d < a.p.head_dim_v; ++d)
      a.d_v(batch, kv_head, row, d) = of_v[static_cast<size_t>(d)];
  }

  /// The sequences, heads or queries, of which there are `count`, whose bias has index `place` in a
  /// dim: one, or all.
  struct Places {
    int64_t begin, end;
  };
  static Places places(int64_t dim, int64_t place, int64_t count) {
    return dim == count ? Places{place, place + 1} : Places{0, count};
  }

  /// Adds sequence b. A thread has all of a row of DBIAS, so that no other one adds to it.
  void add_dbias(const Tensors& a, const Sequence& s, int64_t b) const {
    const int64_t* dim = problem.tensor[ATTEST_DBIAS].dim;
    const bool shared = dim[0] != a.p.batch;
    float* const sums = s.d_bias + (shared ? 0 : b * dim[1] * dim[2] * dim[3]);
#pragma omp parallel for num_threads(problem.threads) schedule(static)
    for (int64_t row = 0; row < dim[1] * dim[2]; ++row) {
      float* const sum = sums + row * dim[3];
      if (!shared || b == 0) std::fill_n(sum, dim[3], 0.0f);
      const Places heads = places(dim[1], row / dim[2], a.p.num_heads),
                   queries = places(dim[2], row % dim[2], a.p.seq_len_q);
      Weights weights{};
      for (int64_t h = heads.begin; h < heads.end; ++h)
        for (int64_t token = queries.begin; token < queries.end; ++token) {
          const int64_t i = a.position(token);
          const auto [begin, end] = a.keys(b, i);
          for (int64_t j = begin; j < end; ++j)
            if (weigh(a, s, b, h, i, j, weights)) sum[a.token(j) % dim[3]] += weights.d_logit;
        }
    }
  }

  /// Adds sequence b to DREL_BIAS and DSINKS. A thread has all of a head. A query that sees no key
  /// has an lse of -inf, and no sink.
  void add_shared(const Tensors& a, const Sequence& s, int64_t b) const {
    const int64_t height = 2 * a.p.window_height - 1, width = 2 * a.p.window_width - 1;
#pragma omp parallel for num_threads(problem.threads) schedule(static)
    for (int64_t h = 0; h < a.p.num_heads; ++h) {
      float *const of_offsets = s.d_rel_bias + h * height * width, &of_sink = s.d_sinks[h];
      if (b == 0) of_sink = 0;
      if (b == 0 && a.d_rel_bias) std::fill_n(of_offsets, height * width, 0.0f);
      Weights weights{};
      for (int64_t i = 0; i < a.length_q(b); ++i) {
        const float lse = s.lse[query_row(a, h, i)];
        if (a.d_sinks && lse != -std::numeric_limits<float>::infinity())
          of_sink -= std::exp(a.sink(h) - lse) * s.delta[query_row(a, h, i)];
        const auto [begin, end] = a.keys(b, i);
        for (int64_t j = begin; a.d_rel_bias && j < end; ++j) {
          if (!weigh(a, s, b, h, i, j, weights)) continue;
          const auto [y, x] = a.grid.relative(i, j);
          of_offsets[y * width + x] += weights.d_logit;
        }
      }
    }
  }

  static void write_shared(const Tensors& a, const Sequence& s) {
    const int64_t height = 2 * a.p.window_height - 1, width = 2 * a.p.window_width - 1;
    for (int64_t h = 0; h < a.p.num_heads; ++h) {
      for (int64_t n = 0; a.d_rel_bias && n < height * width; ++n)
        a.d_rel_bias(h, n / width, n % width) = s.d_rel_bias[h * height * width + n];
      if (a.d_sinks) a.d_sinks(h) = s.d_sinks[h];
    }
  }

  void write_dbias(const Tensors& a, const Sequence& s) const {
    dense_dbias::each(problem.tensor[ATTEST_DBIAS],
                      [&](int64_t n, int64_t b, int64_t h, int64_t i, int64_t j) {
                        a.d_bias(b, h, i, j) = s.d_bias[n];
                      });
  }
};

}  // namespace

ATTEST_PLUGIN(attest::table<NaiveBackward>())
