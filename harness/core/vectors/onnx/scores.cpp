#include "core/vectors/onnx/scores.hpp"

#include <cmath>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {
namespace {

// scores[j]: softmax_scale q.k of one row, softcapped unless raw.
void score_row(const attest_softmax_params& p, const Tensor& q, const Tensor& k, int64_t b,
               int64_t h, int64_t i, bool capped, double* scores) {
  const int64_t kv_head = h / (p.num_heads / p.num_kv_heads);
  std::vector<double> query(size_t(p.head_dim)), key(size_t(p.head_dim));
  auto row = [](const Tensor& t, int64_t b_, int64_t h_, int64_t i_, std::vector<double>& to) {
    const int64_t at = b_ * t.spec.stride[0] + h_ * t.spec.stride[1] + i_ * t.spec.stride[2];
    load_row(t.data, t.spec.dtype, at, int64_t(to.size()), t.spec.stride[3], to.data());
  };
  row(q, b, h, i, query);
  for (int64_t j = 0; j < p.seq_len_kv; ++j) {
    row(k, b, kv_head, j, key);
    double dot = 0;
    for (size_t d = 0; d < query.size(); ++d) dot += query[d] * key[d];
    dot *= p.softmax_scale;
    scores[j] = capped && p.softcap > 0 ? p.softcap * std::tanh(dot / p.softcap) : dot;
  }
}

void normalise(double* scores, int64_t count) {
  double top = kHidden, sum = 0;
  for (int64_t j = 0; j < count; ++j) top = std::fmax(top, scores[j]);
  for (int64_t j = 0; j < count; ++j)
    sum += scores[j] = top == kHidden ? 0 : std::exp(scores[j] - top);
  for (int64_t j = 0; j < count; ++j) scores[j] = sum > 0 ? scores[j] / sum : 0;
}

}  // namespace

std::vector<double> softmax_scores(const Problem& problem, const Tensors& tensors, int mode) {
  const auto& p = problem.as<attest_softmax_params>();
  const Geometry geometry(problem, tensors);
  std::vector<double> scores(size_t(p.batch * p.num_heads * p.seq_len_q * p.seq_len_kv));
  double* row = scores.data();
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t i = 0; i < p.seq_len_q; ++i, row += p.seq_len_kv) {
        score_row(p, tensors[ATTEST_Q], tensors[ATTEST_K], b, h, i, mode != kRawScores, row);
        if (mode < kBiasedScores) continue;
        const Interval keys = i < geometry.length_q(b) ? geometry.keys(b, i) : Interval{};
        for (int64_t j = 0; j < p.seq_len_kv; ++j)
          if (!keys.contains(j)) row[j] = kHidden;
        if (keys.size() > 0) geometry.add_pair_terms(b, h, i, keys, row + keys.begin);
        if (mode == kProbabilities) normalise(row, p.seq_len_kv);
      }
  return scores;
}

}  // namespace attest::core
