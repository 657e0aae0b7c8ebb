// In which order blocks that stay on the device take tiles of rows. Plain arithmetic, the same on
// host and device.
#pragma once
#include <cstdint>

#include "attest.hpp"

namespace tiles {

/// Of a (sequence, head) pair.
struct Tile {
  int pair, tile;
};

/// Pairs are taken some at a time, as many as have their keys and values in the L2 cache together;
/// of those, the last tiles of all first: where the band is causal they have most to do.
struct Order {
  int pairs, tiles, pairs_at_a_time;  // tiles: of a pair; all of them less than 2^30, for 32 bits
                                      // are quick to divide

  ATTEST_HD int count() const { return pairs * tiles; }
  ATTEST_HD Tile at(int index) const {
    const int first = index / (pairs_at_a_time * tiles) * pairs_at_a_time,
              rest = index % (pairs_at_a_time * tiles);
    const int here = pairs - first < pairs_at_a_time ? pairs - first : pairs_at_a_time;
    return {first + rest % here, tiles - 1 - rest / here};
  }
  /// What block `block` of `blocks` takes in its round-th turn; count() or more: nothing, for good.
  /// Every other round goes the other way, so that no block gets the longest of each.
  ATTEST_HD int turn(int block, int blocks, int round) const {
    return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
  }
};

/// How many pairs share the L2 cache.
inline Order order(int64_t pairs, int64_t tiles, int64_t bytes_of_pair, int64_t cache_bytes) {
  const int64_t fit = cache_bytes / bytes_of_pair, together = fit < 1       ? 1
                                                              : fit > pairs ? pairs
                                                                            : fit;
  return {static_cast<int>(pairs), static_cast<int>(tiles), static_cast<int>(together)};
}

}  // namespace tiles
