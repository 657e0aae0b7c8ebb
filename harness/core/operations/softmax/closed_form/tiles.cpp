#include "core/operations/softmax/closed_form/tiles.hpp"

#include <algorithm>

namespace attest::core {

int64_t first_tile_begin(const attest_softmax_params& params, int64_t i, int64_t length_q,
                         int64_t length_kv) {
  if (params.grid_height <= 0 && params.patch_size <= 0) return 0;
  attest_softmax_params whole = params;
  whole.window_left = whole.window_right = -1;
  return visible_keys(whole, i, length_q, length_kv).begin;
}

EndTiles end_tiles(Interval keys, int64_t begin, int64_t size) {
  const int64_t last_key = keys.end - 1, into_first = (keys.begin - begin) % size,
                into_last = (last_key - begin) % size;
  return {{keys.begin, std::min(keys.end, keys.begin - into_first + size)},
          {std::max(keys.begin, last_key - into_last), keys.end}};
}

}  // namespace attest::core
