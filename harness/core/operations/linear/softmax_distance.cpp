#include "core/operations/linear/softmax_distance.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/operations/linear/feature_map.hpp"
#include "core/operations/linear/rows.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

// A weighted mean of values whose weights come one after the other.
struct Mean {
  explicit Mean(int64_t width) : sums(size_t(width)) {}
  void add(double weight, const std::vector<double>& value) {
    total += weight;
    for (size_t e = 0; e < sums.size(); ++e) sums[e] += weight * value[e];
  }
  double at(size_t e, double eps) const { return sums[e] / (total + eps); }

  double total = 0;
  std::vector<double> sums;
};

struct Squares {
  double difference = 0, softmax = 0;
};

Squares compare_row(const Problem& problem, const Tensors& inputs, int64_t b, int64_t head,
                    int64_t row) {
  const auto& p = problem.as<attest_linear_params>();
  const int64_t kv_head = head / (p.num_heads / p.num_kv_heads);
  const Tensor& mask = inputs[ATTEST_MASK];
  std::vector<double> q(size_t(p.head_dim)), k(q.size()), v(size_t(p.head_dim_v));
  linear::load_one(inputs[ATTEST_Q], b, head, row, q.data());
  const double scale = 1 / std::sqrt(double(p.head_dim));
  // Softmax is taken online: `largest` is the largest score so far.
  Mean linear(p.head_dim_v), softmax(p.head_dim_v);
  double largest = -kInfinity;
  for (int64_t j = 0; j < p.seq_len_kv; ++j) {
    if (!linear::counts(mask, b, 3, j)) continue;
    linear::load_one(inputs[ATTEST_K], b, kv_head, j, k.data());
    linear::load_one(inputs[ATTEST_V], b, kv_head, j, v.data());
    double score = 0, similarity = 0;
    for (size_t c = 0; c < q.size(); ++c) {
      score += q[c] * k[c] * scale;
      similarity += linear::feature(q[c]) * linear::feature(k[c]);
    }
    if (score > largest) {
      const double factor = std::exp(largest - score);
      softmax.total *= factor;
      for (double& sum : softmax.sums) sum *= factor;
      largest = score;
    }
    softmax.add(std::exp(score - largest), v);
    linear.add(similarity, v);
  }
  Squares squares;
  if (softmax.total == 0) return squares;  // every key is masked
  for (size_t e = 0; e < softmax.sums.size(); ++e) {
    const double expected = softmax.at(e, 0), got = linear.at(e, double(p.eps));
    squares.difference += (got - expected) * (got - expected);
    squares.softmax += expected * expected;
  }
  return std::isfinite(squares.difference) && std::isfinite(squares.softmax) ? squares : Squares{};
}

}  // namespace

std::optional<double> distance_from_softmax(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<attest_linear_params>();
  const int64_t all = p.batch * p.num_heads * p.seq_len_q, count = std::min(all, kDistanceRows);
  Squares sum;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t at = all * n / count + (all * (n + 1) / count - all * n / count) / 2;
    const int64_t row = at % p.seq_len_q, b = at / p.seq_len_q / p.num_heads;
    if (!linear::counts(inputs[ATTEST_QUERY_MASK], b, 2, row)) continue;
    const Squares squares = compare_row(problem, inputs, b, at / p.seq_len_q % p.num_heads, row);
    sum.difference += squares.difference;
    sum.softmax += squares.softmax;
  }
  if (sum.softmax == 0) return {};
  return std::sqrt(sum.difference / sum.softmax);
}

}  // namespace attest::core
