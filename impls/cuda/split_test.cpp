// Splits and chunks: every tile in exactly one, none of them empty, and as many as the device has
// room for.
#include "cuda/split.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

TEST(Split, PartsCoverEachTileOnce) {
  for (const int64_t count : {0, 1, 7, 64, 625, 1 << 25})
    for (const int64_t parts : {1, 2, 3, 7, 256}) {
      int64_t next = 0;
      for (int64_t n = 0; n < parts; ++n) {
        const split::Range range = split::part(count, parts, n);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.end - range.begin, count / parts + 1);
        next = range.end;
      }
      EXPECT_EQ(next, count);
    }
}

TEST(Split, FillsTheDeviceAndNoMore) {
  EXPECT_EQ(split::count(/*blocks=*/1000, /*tiles=*/100, /*slots=*/264), 1);
  EXPECT_EQ(split::count(1, 1, 264), 1);
  EXPECT_EQ(split::count(1, 3, 264), 1);  // merging costs more than two tiles
  for (const int64_t slots : {16, 264, 1584})
    for (const int64_t blocks : {1, 3, 8}) {
      const int splits = split::count(blocks, 625, slots);  // one query, 40,000 keys
      EXPECT_GT(splits, 1);
      EXPECT_LE(splits, split::kMost);
      if (const int64_t waves = (blocks * splits + slots - 1) / slots; waves > 1) {
        EXPECT_GE(4 * blocks * splits, 3 * slots * waves) << "a last wave of a few blocks";
      }
      EXPECT_GE(3 * blocks * splits, std::min<int64_t>(slots, blocks * 100))
          << slots << " slots, " << blocks << " blocks";
    }
}

TEST(Split, ChunksAreOfWholeStepsAndNotEmpty) {
  for (const int64_t tokens : {1, 31, 32, 33, 4800, 11025, 262147})
    for (const int64_t slots : {16, 2112}) {
      const split::Chunks chunks = split::chunks(tokens, 32, 8, slots);
      EXPECT_EQ(chunks.size % 32, 0);
      EXPECT_GE(chunks.size * chunks.count, tokens);
      EXPECT_LT(chunks.size * (chunks.count - 1), tokens);
      EXPECT_LE(8 * chunks.count, std::max<int64_t>(slots, 8));
    }
}

TEST(Split, QuickestChunksAreEvenAndFillTheDevice) {
  for (const int64_t tokens : {1, 31, 32, 33, 4800, 11025, 262147})
    for (const int64_t blocks : {1, 16, 300}) {
      const split::Chunks chunks = split::quickest_chunks(tokens, 64, blocks, 264, 4, 8);
      EXPECT_EQ(chunks.size % 64, 0);
      EXPECT_GE(chunks.size * chunks.count, tokens);
      EXPECT_LT(chunks.size * (chunks.count - 1), tokens);
    }
  // Eight heads of a BEV grid: one block a slot
  EXPECT_EQ(split::quickest_chunks(40000, 64, 8, 264, 4, 8).count, 33);
  // 256 heads in 396 slots: three blocks a head in two waves take 28 steps, one block 39
  EXPECT_EQ(split::quickest_chunks(4800, 128, 256, 396, 1, 128).count, 3);
  // A start that costs more than all steps is made once
  EXPECT_EQ(split::quickest_chunks(4800, 64, 264, 264, 100, 8).count, 1);
}

TEST(Split, TasksShareABlockWhereThereAreEnough) {
  EXPECT_EQ(split::tasks_each(/*tasks=*/64 * 3, /*most=*/64, /*slots=*/1584),
            1);  // one image of Swin-T
  EXPECT_EQ(split::tasks_each(6 * 260 * 3 * 32, 260, 1584),
            6 * 260 * 3 * 32 / (4 * 1584));  // a batch of BEVFusion's cameras
  EXPECT_EQ(split::tasks_each(int64_t{1} << 33, 64, 1584), 64);
}

}  // namespace
