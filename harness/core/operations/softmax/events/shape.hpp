// The events that the key intervals of a softmax problem allow, for any inputs: tiles, lanes, keys
// that no row sees.
#pragma once
#include <array>
#include <cstdint>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

inline constexpr std::array<int64_t, 5> kEventTiles{16, 32, 64, 128, 256};
inline constexpr std::array<int64_t, 3> kEventLanes{16, 32, 64};
inline constexpr int64_t kQueryTile = 64;  // rows of a block

/// The position from which tiles count in the row of position i: the start of its grid window or
/// patch, else of the sequence.
int64_t tile_origin(const attest_softmax_params& params, int64_t i, int64_t length_q,
                    int64_t length_kv);

/// The tiles of a row's interval.
struct TileRange {
  int64_t first, last;  // the first and last tile with keys of the interval
  bool full;            // whether the last tile ends where the interval ends
  int64_t count() const { return last - first + 1; }
};
TileRange tiles_of(Interval keys, int64_t origin, int64_t tile);

struct EventShape {
  explicit EventShape(const Problem& problem);

  struct OfTile {
    int64_t most_tiles = 0;  // the most tiles of a row
    bool last = false;       // some row of at least two tiles ends with a full one
    bool tail = false;       // some row of at least two tiles ends with a short one
    bool second_is_last = false, second_is_tail = false;  // the same of a row of just two tiles
    bool block = false;  // kQueryTile consecutive rows share more than a tile of keys
  };
  std::array<OfTile, kEventTiles.size()> tile{};
  std::array<int64_t, kEventLanes.size()>
      lanes{};                 // keys after a row's first tile are in lanes 0 .. lanes - 1
  int64_t most_keys = 0;       // the most keys of a row
  int64_t rows = 0;            // rows that see a key, over all heads
  int64_t key_heads = 0;       // over all sequences that have rows
  bool varies = false;         // some key is in the interval of one row but not of another
  bool starts_differ = false;  // the intervals of two rows of a sequence begin at different keys
  bool unread = false;         // some key is in no interval

 private:
  void add_sequence(const attest_softmax_params& params, int64_t length_q, int64_t length_kv,
                    int64_t& keys_read);
  void add_row(Interval keys, int64_t origin);
};

}  // namespace attest::core
