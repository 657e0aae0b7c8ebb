// Tiles of keys as fills see them: where a kernel's tiles begin, and the first and last one of a
// row. Events are counted by code of its own (softmax/events), so that a mistake in either of the
// two shows as a missed event.
#pragma once
#include <cstdint>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// The tile sizes at whose edges keys are watched, those that most kernels have first.
inline constexpr int64_t kTileSizes[] = {64, 16, 128, 32, 256};
inline constexpr int64_t kLeastTile = 16;

/// The position from which the tiles of row i count: that of the first key of its grid window or
/// patch, else 0.
int64_t first_tile_begin(const attest_softmax_params& params, int64_t i, int64_t length_q,
                         int64_t length_kv);

/// The keys of a row that are in its first tile, and those that are in its last one.
struct EndTiles {
  Interval first, last;
  bool differ() const { return first.end <= last.begin; }
};
/// `begin`: the position from which tiles of `size` keys count, at most keys.begin. `keys`: at
/// least one.
EndTiles end_tiles(Interval keys, int64_t begin, int64_t size);

}  // namespace attest::core
