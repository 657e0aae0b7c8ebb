// Orders of tiles: every tile once, those that share the cache together, and blocks that end
// together.
#include "cuda/tile_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

namespace {

TEST(TileOrder, HasEachTileOnce) {
  for (const int groups : {1, 2, 3, 5}) {
    const tiles::Order order{/*pairs=*/5, /*tiles=*/7, groups};
    std::set<std::pair<int, int>> found;
    for (int index = 0; index < order.count(); ++index) {
      const tiles::Tile tile = order.at(index);
      EXPECT_TRUE(tile.pair >= 0 && tile.pair < 5 && tile.tile >= 0 && tile.tile < 7);
      EXPECT_TRUE(found.insert({tile.pair, tile.tile}).second) << groups << " " << index;
    }
    EXPECT_EQ(found.size(), 35u) << groups;
  }
}
TEST(TileOrder, KeepsToPairsThatShareTheCache) {
  const tiles::Order order =
      tiles::order(/*pairs=*/6, /*tiles=*/4, /*bytes_of_pair=*/100, /*cache_bytes=*/250);
  EXPECT_EQ(order.groups, 3);
  for (int index = 0; index < 24; ++index) EXPECT_EQ(order.at(index).pair / 2, index / 8);
  EXPECT_EQ(order.at(0).tile, 3);  // of both pairs, before any other
  EXPECT_EQ(order.at(1).tile, 3);
  EXPECT_EQ(tiles::order(6, 4, 1000, 250).groups, 6);
  EXPECT_EQ(tiles::order(6, 4, 1, 250).groups, 1);
}
// Of 10 pairs, of which 4 fit: 4, 3 and 3, not 4, 4 and 2.
TEST(TileOrder, MakesGroupsEven) {
  const tiles::Order order =
      tiles::order(/*pairs=*/10, /*tiles=*/2, /*bytes_of_pair=*/1, /*cache_bytes=*/4);
  EXPECT_EQ(order.groups, 3);
  std::vector<int> pairs;
  for (int index = 0; index < order.count(); ++index) pairs.push_back(order.at(index).pair);
  EXPECT_EQ(pairs, (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8, 9, 7, 8, 9}));
}

/// Causal self-attention on a device, in which a block takes the next tile `ahead` tiles of keys
/// before it is through with one. A tile of rows lasts as long as its tiles of keys, and half as
/// many again as one of them. Returns what the work would last if it could be shared out evenly, as
/// a share of what it lasts.
double share_of_ideal(int heads, int seq_len, int head_dim, double ahead) {
  constexpr int kBlocks = 132, kTile = 128, kCacheBytes = 50 << 20;  // of an H100
  const tiles::Order order =
      tiles::order(heads, seq_len / kTile, int64_t{4} * seq_len * head_dim, kCacheBytes / 4 * 3);
  const auto lasts = [&](int index) { return order.at(index).tile + 1 + 1.5; };
  using Event = std::pair<double, int>;  // when a block takes a tile
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::vector<double> ends(kBlocks);
  double whole = 0;
  const auto run = [&](int block, int index, double from) {
    ends[static_cast<size_t>(block)] = from + lasts(index);
    whole += lasts(index);
    events.push({std::max(from, from + lasts(index) - ahead), block});
  };
  int next = 0;
  for (; next < std::min(kBlocks, order.count()); ++next) run(next, next, 0);
  for (; next < order.count(); ++next) {
    const auto [now, block] = events.top();
    events.pop();
    run(block, next, std::max(now, ends[static_cast<size_t>(block)]));
  }
  return whole / kBlocks / *std::max_element(ends.begin(), ends.end());
}

TEST(TileOrder, SharesCausalTilesEvenly) {
  for (const int head_dim : {64, 128})
    for (const int heads : {8, 16})
      for (const int seq_len : {4096, 8192, 16384, 32768, 131072})
        EXPECT_GT(share_of_ideal(heads, seq_len, head_dim, 3), 0.96)
            << head_dim << " " << heads << " " << seq_len;
}
// Why a block takes its next tile late.
TEST(TileOrder, SharesThemUnevenlyIfTheyAreTakenEarly) {
  EXPECT_LT(share_of_ideal(8, 4096, 128, /*ahead=*/1e9), 0.75);
}

}  // namespace
