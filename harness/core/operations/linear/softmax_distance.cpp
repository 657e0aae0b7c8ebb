#include "core/operations/linear/softmax_distance.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

double elu_plus_1(double x) { return x > 0 ? x + 1 : std::exp(x); }

// The row [b, head, row] of Q, K or V.
std::vector<double> row_of(const Tensor& from, int64_t b, int64_t head, int64_t row) {
  const TensorSpec& spec = from.spec;
  std::vector<double> values(size_t(spec.dim[3]));
  load_row(from.data, spec.dtype, b * spec.stride[0] + head * spec.stride[1] + row * spec.stride[2],
           spec.dim[3], spec.stride[3], values.data());
  return values;
}

bool is_kept(const Tensor& mask, int64_t b, int axis, int64_t index) {
  return !mask || load(mask.data, ATTEST_BOOL,
                       mask.spec.stride[0] * b + mask.spec.stride[axis] * index) != 0;
}

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
  const std::vector<double> q = row_of(inputs[ATTEST_Q], b, head, row);
  const double scale = 1 / std::sqrt(double(p.head_dim));
  // Softmax is taken online: `largest` is the largest score so far.
  Mean linear(p.head_dim_v), softmax(p.head_dim_v);
  double largest = -kInfinity;
  for (int64_t j = 0; j < p.seq_len_kv; ++j) {
    if (!is_kept(mask, b, 3, j)) continue;
    const std::vector<double> k = row_of(inputs[ATTEST_K], b, kv_head, j),
                              v = row_of(inputs[ATTEST_V], b, kv_head, j);
    double score = 0, similarity = 0;
    for (size_t c = 0; c < q.size(); ++c) {
      score += q[c] * k[c] * scale;
      similarity += elu_plus_1(q[c]) * elu_plus_1(k[c]);
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
    if (!is_kept(inputs[ATTEST_QUERY_MASK], b, 2, row)) continue;
    const Squares squares = compare_row(problem, inputs, b, at / p.seq_len_q % p.num_heads, row);
    sum.difference += squares.difference;
    sum.softmax += squares.softmax;
  }
  if (sum.softmax == 0) return {};
  return std::sqrt(sum.difference / sum.softmax);
}

}  // namespace attest::core
