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

/// Pairs are taken some at a time, as many as have their keys and values in the L2 cache together,
/// in groups that differ by a pair at most; of a group, the last tiles of all first: where the band
/// is causal they have most to do.
///
/// Block n begins with tile n. Whenever a block is about to finish a tile, it takes the first one
/// that no block has taken yet; Progress counts them. So blocks end together, since the last tiles
/// of all are the shortest.
struct Order {
  int pairs, tiles, groups;  // tiles: of a pair; all of them less than 2^30, for 32 bits are quick
                             // to divide

  ATTEST_HD int count() const { return pairs * tiles; }
  ATTEST_HD Tile at(int index) const {
    const int small = pairs / groups, large_groups = pairs % groups,
              in_large = large_groups * (small + 1) * tiles;
    const bool large = index < in_large;
    const int here = small + large, from = large ? index : index - in_large,
              group = from / (here * tiles), rest = from % (here * tiles);
    const int first = (large ? 0 : large_groups * (small + 1)) + group * here;
    return {first + rest % here, tiles - 1 - rest / here};
  }
};

/// What the blocks of a plan tell each other, in the device's memory. All is 0 between two runs.
struct Progress {
  int taken;    // tiles that blocks have taken beyond their first
  int odd;      // not 0: some tile is to be done again
  int readers;  // blocks that know it
};

/// `cache_bytes` of the L2 cache are for the keys and values of a group.
inline Order order(int64_t pairs, int64_t tiles, int64_t bytes_of_pair, int64_t cache_bytes) {
  const int64_t fit = cache_bytes / bytes_of_pair, together = fit < 1       ? 1
                                                              : fit > pairs ? pairs
                                                                            : fit;
  return {static_cast<int>(pairs), static_cast<int>(tiles),
          static_cast<int>((pairs + together - 1) / together)};
}

}  // namespace tiles
