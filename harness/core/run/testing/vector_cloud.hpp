// For tests of vectors: a cloud of tokens, and what each of them gathers from keys that are written
// down.
#pragma once
#include <cmath>
#include <vector>

#include "core/run/testing/vector_folder.hpp"

namespace attest::core {

using Indices = std::vector<int64_t>;

inline constexpr int64_t kHeads = 2, kChannels = 4, kModel = kHeads * kChannels;

struct Cloud {
  int64_t count;
  Array qkv{{count, 3 * kModel}, 1};

  double at(int64_t token, int64_t part, int64_t h, int64_t d) const {
    return qkv.values[size_t(token * 3 * kModel + part * kModel + h * kChannels + d)];
  }
  /// [tokens, head, channel], where token i sees keys[i]; a key that comes twice weighs twice.
  Array attend(const std::vector<Indices>& keys) const {
    Array out({count, kModel}, 0);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t h = 0; h < kHeads; ++h) {
        double total = 0, sum[kChannels] = {};
        for (const int64_t j : keys[size_t(i)]) {
          double dot = 0;
          for (int64_t d = 0; d < kChannels; ++d) dot += at(i, 0, h, d) * at(j, 1, h, d);
          const double weight = std::exp(0.5 * dot);
          total += weight;
          for (int64_t d = 0; d < kChannels; ++d) sum[d] += weight * at(j, 2, h, d);
        }
        for (int64_t d = 0; d < kChannels; ++d)
          out.values[size_t(i * kModel + h * kChannels + d)] = float(sum[d] / total);
      }
    return out;
  }
};

}  // namespace attest::core
