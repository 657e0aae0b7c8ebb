// top_k.hpp: hides the keys of a row that do not count in a problem with top_k.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "attest.h"

namespace top_k {

/// Which logits of a row count. By default all do, NaN included.
struct Edge {
  float least = -std::numeric_limits<float>::infinity();
  int64_t last = std::numeric_limits<int64_t>::max();  // of logits that are `least`, up to here
  bool counts(float logit, int64_t n) const {
    return !(logit < least || (logit == least && n > last));
  }
};

/// The top_k largest of the `count` logits of a row count. All of them do in rows that see no more
/// keys than that, and in rows with a NaN. `reversed`: the last position comes first in `logits`;
/// Edge::counts is asked for positions. `visible` is memory for this, reused from row to row.
inline Edge find(const attest_softmax_params& p, const float* logits, int64_t count,
                 std::vector<float>& visible, bool reversed = false) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  visible.clear();
  for (int64_t n = 0; n < count; ++n) {
    if (std::isnan(logits[n])) return {};
    if (logits[n] != kHidden) visible.push_back(logits[n]);
  }
  const int64_t k = p.top_k;
  if (static_cast<int64_t>(visible.size()) <= k) return {};
  std::nth_element(visible.begin(), visible.begin() + k - 1, visible.end(), std::greater<float>());
  Edge edge;
  edge.least = visible[static_cast<size_t>(k - 1)];
  if (p.top_k_ties == ATTEST_TOP_K_ALL_TIES) return edge;
  int64_t ties = k - std::count_if(visible.begin(), visible.begin() + k,
                                   [&edge](float x) { return x > edge.least; });
  for (int64_t n = 0; ties > 0; ++n)
    if (logits[reversed ? count - 1 - n : n] == edge.least) {
      edge.last = n;
      --ties;
    }
  return edge;
}

/// Hides the logits that do not count: they become -inf.
inline void keep(const attest_softmax_params& p, float* logits, int64_t count,
                 std::vector<float>& visible, bool reversed = false) {
  const Edge edge = find(p, logits, count, visible, reversed);
  for (int64_t n = 0; n < count; ++n) {
    float& logit = logits[reversed ? count - 1 - n : n];
    if (!edge.counts(logit, n)) logit = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace top_k
