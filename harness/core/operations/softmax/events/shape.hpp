// What the intervals of a softmax problem's rows allow, whatever its inputs: tiles, lanes, keys
// that nobody sees.
#pragma once
#include <array>
#include <cstdint>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

inline constexpr std::array<int64_t, 5> kEventTiles{16, 32, 64, 128, 256};
inline constexpr std::array<int64_t, 3> kEventLanes{16, 32, 64};
inline constexpr int64_t kQueryTile = 64;  // rows of a block

/// Where tiles begin to count in the row of place i: at the start of its grid window or patch, else
/// of the sequence.
int64_t tile_origin(const attest_softmax_params& params, int64_t i, int64_t length_q,
                    int64_t length_kv);

/// A row's interval, cut into tiles that count from `origin`.
struct TileRange {
  int64_t first, last;  // tiles that hold keys of the interval
  bool full;            // whether the last one ends where the interval does
  int64_t count() const { return last - first + 1; }
};
TileRange tiles_of(Interval keys, int64_t origin, int64_t tile);

struct EventShape {
  explicit EventShape(const Problem& problem);

  struct OfTile {
    int64_t most_tiles = 0;  // of a row
    bool last = false;       // some row of two tiles and more ends with a full one
    bool tail = false;       // some row of two tiles and more ends with a short one
    bool block = false;  // kQueryTile rows in succession have a tile of keys, and more, in common
  };
  std::array<OfTile, kEventTiles.size()> tile{};
  std::array<int64_t, kEventLanes.size()>
      lanes{};            // that a key behind a row's first tile can stand in: 0 .. lanes - 1
  int64_t most_keys = 0;  // of a row
  int64_t rows = 0;       // that see a key, of all heads
  int64_t key_heads = 0;  // of all sequences that have rows
  bool varies = false;    // some key is within the interval of one row and not of another
  bool unread = false;    // some key is in the interval of no row

 private:
  void add_sequence(const attest_softmax_params& params, int64_t length_q, int64_t length_kv,
                    int64_t& keys_read);
  void add_row(Interval keys, int64_t origin);
};

}  // namespace attest::core
