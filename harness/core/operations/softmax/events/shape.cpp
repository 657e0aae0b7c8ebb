#include "core/operations/softmax/events/shape.hpp"

#include <algorithm>

#include "core/operations/softmax/softmax.hpp"

namespace attest::core {

int64_t tile_origin(const attest_softmax_params& params, int64_t i, int64_t length_q,
                    int64_t length_kv) {
  if (params.grid_height <= 0 && params.patch_size <= 0) return 0;
  attest_softmax_params without_band = params;
  without_band.window_left = without_band.window_right = -1;
  return visible_keys(without_band, i, length_q, length_kv).begin;
}

TileRange tiles_of(Interval keys, int64_t origin, int64_t tile) {
  const int64_t end = keys.end - origin;
  return {(keys.begin - origin) / tile, (end - 1) / tile, end % tile == 0};
}

void EventShape::add_row(Interval keys, int64_t origin) {
  most_keys = std::max(most_keys, keys.size());
  for (size_t t = 0; t < kEventTiles.size(); ++t) {
    const TileRange tiles = tiles_of(keys, origin, kEventTiles[t]);
    tile[t].most_tiles = std::max(tile[t].most_tiles, tiles.count());
    if (tiles.count() >= 2) (tiles.full ? tile[t].last : tile[t].tail) = true;
    if (tiles.count() == 2) (tiles.full ? tile[t].second_is_last : tile[t].second_is_tail) = true;
  }
  for (size_t w = 0; w < kEventLanes.size(); ++w) {
    const int64_t behind =
        keys.end - origin - (tiles_of(keys, origin, kEventLanes[w]).first + 1) * kEventLanes[w];
    lanes[w] = std::max(lanes[w], std::min(behind, kEventLanes[w]));
  }
}

void EventShape::add_sequence(const attest_softmax_params& params, int64_t length_q,
                              int64_t length_kv, int64_t& keys_read) {
  Interval all{length_kv, 0};
  int64_t least = length_kv, seeing = 0, last_begin = 0;
  for (int64_t i = 0; i < length_q; ++i) {
    const Interval keys = visible_keys(params, i, length_q, length_kv);
    least = std::min(least, keys.size());
    if (keys.size() == 0) continue;
    ++seeing;
    all = {std::min(all.begin, keys.begin), std::max(all.end, keys.end)};
    last_begin = std::max(last_begin, keys.begin);
    add_row(keys, tile_origin(params, i, length_q, length_kv));
  }
  rows += seeing * params.num_heads;
  key_heads += seeing > 0 ? params.num_kv_heads : 0;
  keys_read += all.size();
  varies |= all.size() > 0 && least < all.size();
  starts_differ |= all.size() > 0 && all.begin < last_begin;
  for (int64_t i = 0; i + kQueryTile <= length_q; i += kQueryTile) {
    const Interval first = visible_keys(params, i, length_q, length_kv);
    const Interval last = visible_keys(params, i + kQueryTile - 1, length_q, length_kv);
    const int64_t origin = tile_origin(params, i, length_q, length_kv);
    for (size_t t = 0; t < kEventTiles.size(); ++t) {
      const int64_t size = kEventTiles[t],
                    begin = (last.begin - origin + size - 1) / size * size + origin;
      // A row that sees a tile and one key more sees others when the tile is hidden.
      tile[t].block |= begin + size <= first.end && std::min(first.size(), last.size()) > size;
    }
  }
}

EventShape::EventShape(const Problem& problem) {
  const auto& params = problem.as<attest_softmax_params>();
  const std::vector<int64_t> length_q = sequence_lengths(problem, false),
                             length_kv = sequence_lengths(problem, true);
  int64_t keys_read = 0;
  struct Sums {
    int64_t rows, key_heads, keys_read;
  } first{};
  for (size_t b = 0; b < length_q.size(); ++b) {
    if (b > 0 && length_q[b] == length_q[0] &&
        length_kv[b] == length_kv[0]) {  // most batches repeat one pair of lengths
      rows += first.rows;
      key_heads += first.key_heads;
      keys_read += first.keys_read;
      continue;
    }
    add_sequence(params, length_q[b], length_kv[b], keys_read);
    if (b == 0) first = {rows, key_heads, keys_read};
  }
  const TensorSpec& k = problem.tensor[ATTEST_K];
  unread = keys_read < k.dim[0] * k.dim[2];
}

}  // namespace attest::core
