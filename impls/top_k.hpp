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

/// The top_k largest of the `count` logits of a row stay, the others become -inf, which hides them.
/// Rows that see no more keys than that stay as they are, and so do rows with a NaN. `reversed`:
/// the last position comes first in `logits`. `visible` is memory for this, reused from row to row.
inline void keep(const attest_softmax_params& p, float* logits, int64_t count,
                 std::vector<float>& visible, bool reversed = false) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  visible.clear();
  for (int64_t n = 0; n < count; ++n) {
    if (std::isnan(logits[n])) return;
    if (logits[n] != kHidden) visible.push_back(logits[n]);
  }
  const int64_t k = p.top_k;
  if (static_cast<int64_t>(visible.size()) <= k) return;
  std::nth_element(visible.begin(), visible.begin() + k - 1, visible.end(), std::greater<float>());
  const float edge = visible[static_cast<size_t>(k - 1)];
  int64_t ties = k;  // how many keys at the edge may stay
  if (p.top_k_ties == ATTEST_TOP_K_ALL_TIES)
    ties = count;
  else
    ties -=
        std::count_if(visible.begin(), visible.begin() + k, [edge](float x) { return x > edge; });
  for (int64_t n = 0; n < count; ++n) {
    float& logit = logits[reversed ? count - 1 - n : n];
    if (logit < edge || (logit == edge && ties-- <= 0)) logit = kHidden;
  }
}

}  // namespace top_k
