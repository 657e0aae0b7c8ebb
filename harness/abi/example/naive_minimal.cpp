// naive_minimal: online softmax, one query at a time, in float32: slow, obvious, the template for a
// new implementation.
#include <algorithm>
#include <vector>

#include "attest.hpp"

struct NaiveMinimal {
  static constexpr attest::Info kInfo{
      .name = "naive_minimal",
      .version = "1",
      .summary = "one query at a time in float32",
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                  ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP |
                  ATTEST_WITH_BIAS | ATTEST_WITH_MASK | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN |
                  ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES | ATTEST_WITH_ORDER |
                  ATTEST_WITH_PATCHES | ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS |
                  ATTEST_WITH_STRIDES | ATTEST_WITH_UNALIGNED | ATTEST_WITH_ALIBI |
                  ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL};
  const attest_problem& problem;

  template <class T>
  void run(void* const* data, void* /*workspace*/, void* /*stream*/) {
    const attest::Softmax<T> a(problem, data);
    for (int64_t b = 0; b < a.p.batch; ++b)
      for (int64_t h = 0; h < a.p.num_heads; ++h)
        for (int64_t i = 0; i < a.rows(b); ++i) {
          const auto [bq, row] = a.query(b, i);
          std::vector<float> sum(a.p.head_dim_v);
          float top = -INFINITY, total = 0;
          for (auto [j, end] = a.keys(b, i); j < end; ++j) {
            const auto [bk, key] = a.key(b, j);
            float dot = 0;
            for (int64_t d = 0; d < a.p.head_dim; ++d)
              dot += a.q(bq, h, row, d) * a.k(bk, a.kv_head(h), key, d);
            const float s = a.logit(dot, b, h, i, j);
            if (s == -INFINITY) continue;  // hidden: what lies there is not to be touched
            const float peak = std::max(top, s), keep = std::exp(top - peak),
                        weight = std::exp(s - peak);
            for (int64_t d = 0; d < a.p.head_dim_v; ++d)
              sum[d] = keep * sum[d] + weight * a.v(bk, a.kv_head(h), key, d);
            total = keep * total + weight;
            top = peak;
          }
          for (int64_t d = 0; d < a.p.head_dim_v; ++d)
            a.o(bq, h, row, d) = total == 0 ? 0 : sum[d] / total;
          if (a.lse) a.lse(bq, h, row) = top + std::log(total);  // -inf where no key
        }
  }
};

ATTEST_PLUGIN(attest::table<NaiveMinimal>())
