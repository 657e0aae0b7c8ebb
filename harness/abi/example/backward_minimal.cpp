// backward_minimal: the gradients of softmax attention, one query at a time, in float32: slow,
// obvious, the template for a new implementation.
#include <algorithm>
#include <cmath>
#include <vector>

#include "attest.hpp"

struct BackwardMinimal {
  static constexpr attest::Info kInfo{
      .name = "backward_minimal",
      .version = "1",
      .summary = "gradients, one query at a time in float32",
      .operation = ATTEST_SOFTMAX_BACKWARD,
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                  ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP |
                  ATTEST_WITH_BIAS | ATTEST_WITH_MASK | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS |
                  ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES | ATTEST_WITH_GRID | ATTEST_WITH_STRIDES |
                  ATTEST_WITH_UNALIGNED | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS |
                  ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL};
  const attest_problem& problem;

  /// The workspace has the sums of one key head, dK and then dV: [seq_len_kv, head_dim] and
  /// [seq_len_kv, head_dim_v].
  static const char* query(const attest_problem& problem, attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    support.workspace_bytes = sizeof(float) * p.seq_len_kv * (p.head_dim + p.head_dim_v);
    return nullptr;
  }

  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) {
    const attest::Softmax<T> a(problem, data);
    float* const d_k = static_cast<float*>(workspace);
    float* const d_v = d_k + a.p.seq_len_kv * a.p.head_dim;
    for (int64_t b = 0; b < a.p.batch; ++b)
      for (int64_t kv_head = 0; kv_head < a.p.num_kv_heads; ++kv_head) {
        std::fill(d_k, d_v + a.p.seq_len_kv * a.p.head_dim_v, 0.0f);
        for (int64_t h = 0; h < a.p.num_heads; ++h)
          for (int64_t i = 0; i < a.rows(b) && a.kv_head(h) == kv_head; ++i)
            add_query(a, b, h, i, d_k, d_v);
        for (int64_t j = 0; j < a.key_rows(b); ++j) {
          const auto [bk, key] = a.key(b, j);
          for (int64_t d = 0; d < a.p.head_dim; ++d)
            a.d_k(bk, kv_head, key, d) = a.p.softmax_scale * d_k[j * a.p.head_dim + d];
          for (int64_t d = 0; d < a.p.head_dim_v; ++d)
            a.d_v(bk, kv_head, key, d) = d_v[j * a.p.head_dim_v + d];
        }
      }
  }

 private:
  /// Writes the query's row of dQ, and adds what the query gives to dK and dV.
  template <class T>
  static void add_query(const attest::Softmax<T>& a, int64_t b, int64_t h, int64_t i, float* d_k,
                        float* d_v) {
    const auto [bq, row] = a.query(b, i);
    std::vector<float> d_q(a.p.head_dim);
    float delta = 0;
    for (int64_t d = 0; d < a.p.head_dim_v; ++d) delta += a.d_o(bq, h, row, d) * a.o(bq, h, row, d);
    for (auto [j, end] = a.keys(b, i); j < end; ++j) {
      const auto [bk, key] = a.key(b, j);
      float dot = 0, d_p = 0;
      for (int64_t d = 0; d < a.p.head_dim; ++d)
        dot += a.q(bq, h, row, d) * a.k(bk, a.kv_head(h), key, d);
      const float s = a.logit(dot, b, h, i, j);
      if (s == -INFINITY) continue;  // hidden: what lies there is not to be touched
      for (int64_t d = 0; d < a.p.head_dim_v; ++d)
        d_p += a.d_o(bq, h, row, d) * a.v(bk, a.kv_head(h), key, d);
      const float p = std::exp(s - a.lse(bq, h, row)), d_s = p * (d_p - delta) * slope(a.p, dot);
      for (int64_t d = 0; d < a.p.head_dim; ++d) {
        d_q[d] += d_s * a.k(bk, a.kv_head(h), key, d);
        d_k[j * a.p.head_dim + d] += d_s * a.q(bq, h, row, d);
      }
      for (int64_t d = 0; d < a.p.head_dim_v; ++d)
        d_v[j * a.p.head_dim_v + d] += p * a.d_o(bq, h, row, d);
    }
    for (int64_t d = 0; d < a.p.head_dim; ++d) a.d_q(bq, h, row, d) = a.p.softmax_scale * d_q[d];
  }

  /// The derivative of the logit by the scaled score.
  static float slope(const attest_softmax_params& p, float dot) {
    if (p.softcap == 0) return 1;
    const float tanh = std::tanh(p.softmax_scale * dot / p.softcap);
    return 1 - tanh * tanh;
  }
};

ATTEST_PLUGIN(attest::table<BackwardMinimal>())
