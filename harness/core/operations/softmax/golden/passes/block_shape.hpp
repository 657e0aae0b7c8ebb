// How a task is divided to fit into the caches: blocks of keys, and tiles of rows.
#pragma once
#include <cstdint>
#include <span>

#include "core/operations/numerics/product.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"

namespace attest::core::passes {

/// Rows of a tile. Their weights fit into the cache together.
inline constexpr int64_t kTileRows = 24;
/// Keys and channels are padded to a multiple of this, two SIMD vectors of a product's tile.
inline constexpr int64_t kColumns = 2 * kProductColumns;
static_assert(kTileRows % kProductRows == 0 && kTaskRows % kProductRows == 0);

constexpr int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }
/// `rows` rounded up, so that a product has whole tiles only.
constexpr int64_t padded_rows(int64_t rows) { return round_up(rows, kProductRows); }

/// The sizes of a block of keys. Matrix rows over keys are key_stride apart; those over the
/// channels of V are value_stride apart.
struct BlockShape {
  explicit BlockShape(const attest_softmax_params& params);

  int64_t head_dim, head_dim_v;
  int64_t keys;          // the most keys of a block
  int64_t key_stride;    // at least `keys`
  int64_t value_stride;  // head_dim_v, padded
};

/// At most kTileRows rows of a task.
struct Tile {
  int64_t first;                    // the index of rows[0] in the task, a multiple of kTileRows
  std::span<const JudgedRow> rows;  // [count()]
  int64_t count() const { return int64_t(rows.size()); }
};

}  // namespace attest::core::passes
