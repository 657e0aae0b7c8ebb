// How a task is cut for the caches: blocks of keys, and tiles of rows.
#pragma once
#include <cstdint>
#include <span>

#include "core/operations/product.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"

namespace attest::core::passes {

/// Rows whose weights are in the cache together.
inline constexpr int64_t kTileRows = 24;
/// Keys and channels are padded to a multiple of this: the two vectors of a product's tile.
inline constexpr int64_t kColumns = 2 * kProductColumns;
static_assert(kTileRows % kProductRows == 0 && kTaskRows % kProductRows == 0);

constexpr int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }
/// Rows that a product with `rows` rows of a tile has: all tiles of a product are whole.
constexpr int64_t padded_rows(int64_t rows) { return round_up(rows, kProductRows); }

/// The sizes of what is kept for a block of keys. Rows over keys are key_stride apart, rows over
/// the channels of V value_stride.
struct BlockShape {
  explicit BlockShape(const attest_softmax_params& params);

  int64_t head_dim, head_dim_v;
  int64_t keys;          // of a block, at most
  int64_t key_stride;    // at least `keys`
  int64_t value_stride;  // head_dim_v, padded
};

/// Some of a task's rows, at most kTileRows of them.
struct Tile {
  int64_t first;                    // the number of rows[0] in the task, a multiple of kTileRows
  std::span<const JudgedRow> rows;  // [count()]
  int64_t count() const { return int64_t(rows.size()); }
};

}  // namespace attest::core::passes
