// naive: softmax attention by definition, o = softmax(scores) v with the whole score matrix of one
// (sequence, head) in memory. Eigen multiplies, everything in float32. What the others are measured
// against: every feature, no cleverness but that a block of rows is not multiplied by keys that
// none of them may see by the window, the grid or the lengths.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <limits>
#include <utility>
#include <vector>

#include "attest.hpp"
#include "top_k.hpp"

namespace {

struct Naive {
  static constexpr attest::Info kInfo{
      .name = "naive",
      .version = "1",
      .summary = "full score matrix in float32, products by Eigen, threads over rows",
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16) |
                ATTEST_BIT(ATTEST_F8E4M3) | ATTEST_BIT(ATTEST_F8E5M2),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                  ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP |
                  ATTEST_WITH_BIAS | ATTEST_WITH_MASK | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN |
                  ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES | ATTEST_WITH_ORDER |
                  ATTEST_WITH_PATCHES | ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS |
                  ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_UNALIGNED |
                  ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS | ATTEST_WITH_BLOCK_MASK |
                  ATTEST_WITH_GLOBAL | ATTEST_WITH_TOP_K | ATTEST_WITH_DESCALE};
  const attest_problem& problem;

  using Tensors = attest::Softmax<attest::Any>;
  using Matrix = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

  static const char* query(const attest_problem& problem, attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const double rows_q = static_cast<double>(p.seq_len_q),
                 rows_kv = static_cast<double>(p.seq_len_kv);
    const double floats =
        rows_q * rows_kv + (rows_q + rows_kv) * static_cast<double>(p.head_dim + p.head_dim_v);
    if (floats > 0x1p60) return "the score matrix has more than 2^60 elements";
    support.workspace_bytes = sizeof(float) * static_cast<uint64_t>(floats);
    return nullptr;
  }

  void run(void* const* data, void* workspace, void* /*stream*/) const {
    const Tensors a(problem, data);
    for (int64_t b = 0; b < a.p.batch; ++b)
      for (int64_t h = 0; h < a.p.num_heads; ++h)
        attend(a, b, h, static_cast<float*>(workspace), problem.threads);
  }

 private:
  /// An element of V that is Inf or NaN. A product with the zeros of a hidden key would spread it,
  /// so it is left out of the product and added where the key is seen.
  struct Wild {
    int64_t key, channel;
    float value;
  };

  static void attend(const Tensors& a, int64_t b, int64_t h, float* memory, int threads) {
    const int64_t rows_q = a.length_q(b), rows_kv = a.length_kv(b), head_dim = a.p.head_dim,
                  head_dim_v = a.p.head_dim_v;
    const auto matrix = [&memory](int64_t rows, int64_t cols) {
      Matrix made(memory, rows, cols);
      memory += rows * cols;
      return made;
    };
    Matrix q = matrix(rows_q, head_dim), o = matrix(rows_q, head_dim_v),
           scores = matrix(rows_q, rows_kv);
    Matrix k = matrix(rows_kv, head_dim), v = matrix(rows_kv, head_dim_v);
    read_queries(a, b, h, q);
    const std::vector<Wild> wild = read_keys(a, b, h, k, v);

    std::vector<float> total(static_cast<size_t>(rows_q)), lse(total);
    o.setZero();
    // What a thread takes at a time follows from the sizes alone, so that any number of threads
    // gives the same bits.
    const int64_t rows = std::clamp<int64_t>(rows_q / 8, 32, 512);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t first = 0; first < rows_q; first += rows) {
      const int64_t count = std::min(rows, rows_q - first);
      const auto [begin, end] = keys_of_rows(a, b, first, count);
      auto block = scores.block(first, begin, count, end - begin);
      block.noalias() = q.middleRows(first, count) * k.middleRows(begin, end - begin).transpose();
      std::vector<float> visible;
      for (int64_t i = first; i < first + count; ++i) {
        const float top = std::max(to_logits(a, b, h, i, {begin, end}, scores), a.sink(h));
        if (a.p.top_k > 0 && begin < end) top_k::keep(a.p, &scores(i, begin), end - begin, visible);
        for (const Wild& element : wild)
          if (element.key >= begin && element.key < end && scores(i, element.key) != kHidden)
            o(i, element.channel) += element.value;
        lse[i] = to_weights(a, h, i, {begin, end}, top, scores, total[i]);
      }
      o.middleRows(first, count).noalias() += block * v.middleRows(begin, end - begin);
    }

    for (int64_t i = 0; i < a.rows(b); ++i) {
      const auto [batch, row] = a.query(b, i);
      const bool sees = i < rows_q && lse[i] != kHidden;
      for (int64_t d = 0; d < head_dim_v; ++d)
        a.o(batch, h, row, d) = sees ? o(i, d) / total[i] : 0;
      if (a.lse) a.lse(batch, h, row) = sees ? lse[i] : kHidden;
    }
  }

  static void read_queries(const Tensors& a, int64_t b, int64_t h, Matrix& q) {
    for (int64_t i = 0; i < q.rows(); ++i) {
      const auto [batch, row] = a.query(b, i);
      const float factor = a.q_factor(b, h, i);
      for (int64_t d = 0; d < q.cols(); ++d) q(i, d) = factor * a.q(batch, h, row, d);
    }
  }

  static std::vector<Wild> read_keys(const Tensors& a, int64_t b, int64_t h, Matrix& k, Matrix& v) {
    std::vector<Wild> wild;
    for (int64_t j = 0; j < k.rows(); ++j) {
      const auto [batch, row] = a.key(b, j);
      const int64_t head = a.kv_head(h);
      const float of_key = a.k_factor(b, head, j), of_value = a.v_factor(b, head, j);
      for (int64_t d = 0; d < k.cols(); ++d) k(j, d) = of_key * a.k(batch, head, row, d);
      for (int64_t d = 0; d < v.cols(); ++d) {
        v(j, d) = of_value * a.v(batch, head, row, d);
        if (std::isfinite(v(j, d))) continue;
        wild.push_back({j, d, v(j, d)});
        v(j, d) = 0;
      }
    }
    return wild;
  }

  using Range = std::pair<int64_t, int64_t>;  // first, one past the last

  /// From the first key that one of the rows may see to the last one; 0 and 0: there is none.
  static Range keys_of_rows(const Tensors& a, int64_t b, int64_t first, int64_t count) {
    Range all{std::numeric_limits<int64_t>::max(), 0};
    for (int64_t i = first; i < first + count; ++i) {
      const auto [begin, end] = a.keys(b, i);
      if (begin < end) all = {std::min(all.first, begin), std::max(all.second, end)};
    }
    return all.second == 0 ? Range{} : all;
  }

  /// Of row i, the products with the keys in `range` become logits, -inf where hidden; the largest
  /// of them.
  static float to_logits(const Tensors& a, int64_t b, int64_t h, int64_t i, Range range,
                         Matrix& scores) {
    const auto [begin, end] = a.keys(b, i);
    const bool scaled_only = !a.has_pair_terms() && a.p.softcap == 0;
    float top = kHidden;
    for (int64_t j = range.first; j < range.second; ++j) {
      float& score = scores(i, j);
      if (j < begin || j >= end)
        score = kHidden;
      else
        score = scaled_only ? a.p.softmax_scale * score : a.logit(score, b, h, i, j);
      if (score > top) top = score;
    }
    return top;
  }

  /// These logits become weights, which sum up in `total`; the row's lse, -inf where it sees no
  /// key.
  static float to_weights(const Tensors& a, int64_t h, int64_t i, Range range, float top,
                          Matrix& scores, float& total) {
    bool sees = false;
    for (int64_t j = range.first; j < range.second; ++j) {
      const float logit = scores(i, j);
      sees |= logit != kHidden;
      total += scores(i, j) = logit == kHidden ? 0 : std::exp(logit - top);
    }
    if (sees && a.sinks) total += std::exp(a.sink(h) - top);
    return sees ? top + std::log(total) : kHidden;
  }

  static constexpr float kHidden = -std::numeric_limits<float>::infinity();
};

}  // namespace

ATTEST_PLUGIN(attest::table<Naive>())
