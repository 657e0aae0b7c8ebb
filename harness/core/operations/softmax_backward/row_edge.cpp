#include "core/operations/softmax_backward/row_edge.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core::backward {

TopKEdge find_edge(const attest_softmax_params& params, std::span<const double> logits) {
  std::vector<double> visible;
  for (const double logit : logits) {
    if (std::isnan(logit)) return {};
    if (logit != kHidden) visible.push_back(logit);
  }
  if (int64_t(visible.size()) <= params.top_k) return {};
  const auto last = visible.begin() + std::ptrdiff_t(params.top_k) - 1;
  std::nth_element(visible.begin(), last, visible.end(), std::greater<>());
  TopKEdge edge{.least = *last};
  // Of the keys that share this logit, so many count.
  int64_t ties =
      params.top_k - std::count_if(visible.begin(), last, [&](double x) { return x > edge.least; });
  for (size_t j = 0; ties > 0; ++j)
    if (logits[j] == edge.least) {
      edge.place = int64_t(j);
      --ties;
    }
  if (params.top_k_ties == ATTEST_TOP_K_FIRST) edge.last_tie = edge.place;
  return edge;
}

void hide_below_edge(const attest_softmax_params& params, std::span<double> logits) {
  if (params.top_k == 0) return;
  const TopKEdge edge = find_edge(params, logits);
  for (size_t j = 0; edge.cuts() && j < logits.size(); ++j)
    if (!edge.keeps(logits[j], int64_t(j))) logits[j] = kHidden;
}

RowEdge::RowEdge(const attest_softmax_params& params, std::span<const double> logits,
                 std::span<const double> variances, bool ties_hold)
    : edge_(find_edge(params, logits)) {
  if (!edge_.cuts()) return;
  variance_ = variances[size_t(edge_.place)];
  int64_t near_in = 0, near_out = 0, count = 0;
  const auto count_near = [&] {
    near_in = near_out = count = 0;
    for (size_t j = 0; j < logits.size(); ++j) {
      const bool is_in = counts(logits[j], int64_t(j));
      count += is_in;
      if (is_near(logits[j], variances[j])) ++(is_in ? near_in : near_out);
    }
  };
  ties_swap_ = false;
  count_near();
  ties_swap_ = !ties_hold || near_in + near_out > 0;
  if (ties_swap_) count_near();
  const bool all_ties = params.top_k_ties == ATTEST_TOP_K_ALL_TIES;
  const int64_t beyond = std::min(near_in, count - params.top_k),  // 0 unless all ties count
      going = std::min(near_in, near_out + beyond),
                coming = all_ties ? near_out : std::min(near_in, near_out);
  if (near_in > 0) going_ = double(going) / double(near_in);
  if (near_out > 0) coming_ = double(coming) / double(near_out);
  swaps_ = double(going + coming);
}

bool RowEdge::is_near(double logit, double variance) const {
  const double distance = std::fabs(logit - edge_.least);
  if (!edge_.cuts() || !std::isfinite(distance)) return false;
  if (distance == 0) return ties_swap_;
  constexpr double kGate = SigmaModel::kGate;
  return distance * distance <= kGate * kGate * (variance_ + variance);
}

}  // namespace attest::core::backward
