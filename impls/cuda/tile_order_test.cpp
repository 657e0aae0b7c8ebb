// Orders of tiles: every tile once, those that share the cache together, and no block with much
// more than another.
#include "cuda/tile_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace {

// Blocks between them take every tile of every pair once, until nothing is left for any.
TEST(TileOrder, TakesEachTileOnce) {
  for (const int together : {1, 2, 5})
    for (const int blocks : {1, 3, 4, 40}) {
      const tiles::Order order{/*pairs=*/5, /*tiles=*/7, together};
      std::set<std::pair<int, int>> taken;
      for (int block = 0; block < blocks; ++block)
        for (int round = 0; round < 36; ++round) {
          const int index = order.turn(block, blocks, round);
          if (index >= order.count()) {
            for (int later = round; later < round + 4; ++later)
              EXPECT_GE(order.turn(block, blocks, later), order.count());
            break;
          }
          const tiles::Tile tile = order.at(index);
          EXPECT_TRUE(tile.pair >= 0 && tile.pair < 5 && tile.tile >= 0 && tile.tile < 7);
          EXPECT_TRUE(taken.insert({tile.pair, tile.tile}).second);
        }
      EXPECT_EQ(taken.size(), 35u) << together << " " << blocks;
    }
}
TEST(TileOrder, KeepsToPairsThatShareTheCache) {
  const tiles::Order order =
      tiles::order(/*pairs=*/6, /*tiles=*/4, /*bytes_of_pair=*/100, /*cache_bytes=*/250);
  EXPECT_EQ(order.pairs_at_a_time, 2);
  for (int index = 0; index < 24; ++index) EXPECT_EQ(order.at(index).pair / 2, index / 8);
  EXPECT_EQ(order.at(0).tile, 3);  // of both pairs, before any other
  EXPECT_EQ(order.at(1).tile, 3);
  EXPECT_EQ(tiles::order(6, 4, 1000, 250).pairs_at_a_time, 1);
  EXPECT_EQ(tiles::order(6, 4, 1, 250).pairs_at_a_time, 6);
}
// Where tiles differ by a band, no block has much more than another.
TEST(TileOrder, SharesCausalTilesEvenly) {
  const tiles::Order order{/*pairs=*/8, /*tiles=*/64, /*pairs_at_a_time=*/8};
  constexpr int kBlocks = 13;
  int least = 1 << 30, most = 0;
  for (int block = 0; block < kBlocks; ++block) {
    int work = 0;
    for (int round = 0; order.turn(block, kBlocks, round) < order.count(); ++round)
      work += order.at(order.turn(block, kBlocks, round)).tile + 1;
    least = std::min(least, work);
    most = std::max(most, work);
  }
  EXPECT_LT(most - least, most / 50);
}

}  // namespace
