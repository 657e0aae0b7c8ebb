// The first and the last tile of keys against a walk over all tiles.
#include "core/operations/softmax/closed_form/tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace attest::core {
namespace {

// As a kernel walks: from where its tiles begin, a tile's keys at a time.
std::vector<Interval> walk(Interval keys, int64_t begin, int64_t size) {
  std::vector<Interval> tiles;
  for (int64_t at = begin; at < keys.end; at += size)
    if (const Interval tile{std::max(at, keys.begin), std::min(at + size, keys.end)};
        tile.begin < tile.end)
      tiles.push_back(tile);
  return tiles;
}

TEST(EndTiles, AreThoseThatAWalkMeetsFirstAndLast) {
  for (const int64_t size : kTileSizes)
    for (const int64_t begin : {0, 7, 24})
      for (int64_t first = begin; first < begin + 40; first += 3)
        for (int64_t count = 1; count < 3 * size; count += size < 64 ? 1 : 7) {
          const Interval keys{first, first + count};
          const std::vector<Interval> tiles = walk(keys, begin, size);
          const EndTiles ends = end_tiles(keys, begin, size);
          ASSERT_EQ(ends.first.begin, tiles.front().begin);
          ASSERT_EQ(ends.first.end, tiles.front().end);
          ASSERT_EQ(ends.last.begin, tiles.back().begin);
          ASSERT_EQ(ends.last.end, tiles.back().end);
          ASSERT_EQ(ends.differ(), tiles.size() > 1);
        }
}

TEST(EndTiles, CountFromTheWindowOrPatch) {
  attest_softmax_params p{};
  p.window_left = 3;
  p.window_right = 2;
  EXPECT_EQ(first_tile_begin(p, 50, 61, 61), 0);
  p.patch_size = 16;
  EXPECT_EQ(first_tile_begin(p, 50, 61, 61), 45) << "a short last patch is filled up";
  EXPECT_EQ(first_tile_begin(p, 40, 61, 61), 32);
  p.patch_size = 0;
  p.grid_height = 6;
  p.grid_width = 8;
  p.window_height = 3;
  p.window_width = 4;
  EXPECT_EQ(first_tile_begin(p, 23, 48, 48), 12);
}

}  // namespace
}  // namespace attest::core
