// Every key is visited once, equal ones side by side, and blocks do not mix them with lone ones.
#include "core/operations/softmax/golden/passes/key_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/operations/softmax/golden/passes/block_shape.hpp"

namespace attest::core::passes {
namespace {

using ::testing::ElementsAre;

struct Visit {
  std::vector<int64_t> places;
  std::vector<int32_t> groups;
};

// The blocks of all keys.
std::vector<Visit> visits(const KeyOrder& order, int64_t most) {
  std::vector<Visit> blocks;
  for (int64_t begin = 0; begin < order.size();) {
    const KeyBlock block(order, begin, most);
    Visit& visit = blocks.emplace_back();
    for (int64_t key = 0; key < block.count(); ++key) {
      visit.places.push_back(block.place(key));
      if (block.grouped()) visit.groups.push_back(block.group(key));
    }
    begin += block.count();
    EXPECT_EQ(block.more_behind(block.count()), begin < order.size());
  }
  return blocks;
}

TEST(KeyOrder, OfASampleIsThatOfPlaces) {
  const KeyOrder order = KeyOrder::sample({100, 900}, 4);
  EXPECT_NEAR(double(order.size()), 200, 5);
  EXPECT_FALSE(order.has_groups());
  int64_t last = 99;
  for (const Visit& visit : visits(order, 64)) {
    EXPECT_TRUE(visit.groups.empty());
    for (const int64_t place : visit.places) {
      EXPECT_GT(place, last);
      EXPECT_LT(place, 900);
      last = place;
    }
  }
  EXPECT_FALSE(KeyBlock(order, 0, 64).contiguous());
}

TEST(KeyOrder, IsThatOfPlacesWhereNoKeysAreEqual) {
  const EqualKeys elsewhere{.place = {2, 4}, .group = {2, 2}};
  const KeyOrder order({5, 12}, elsewhere);
  EXPECT_FALSE(order.has_groups());
  const std::vector<Visit> blocks = visits(order, 4);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_THAT(blocks[0].places, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(blocks[1].places, ElementsAre(9, 10, 11));
  const KeyBlock second(order, 4, 4);
  EXPECT_TRUE(second.contiguous());
  EXPECT_EQ(second.span().begin, 9);
  EXPECT_EQ(second.span().end, 12);
}

TEST(KeyOrder, LoneKeysComeFirstThenGroups) {
  const EqualKeys equal{.place = {1, 6, 9, 7, 8, 20}, .group = {1, 1, 1, 7, 7, 7}};
  const KeyOrder order({5, 11}, equal);
  EXPECT_TRUE(order.has_groups());
  const std::vector<Visit> blocks = visits(order, 3);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_THAT(blocks[0].places, ElementsAre(5, 10));  // ends before the groups
  EXPECT_TRUE(blocks[0].groups.empty());
  EXPECT_THAT(blocks[1].places, ElementsAre(6, 9, 7));
  EXPECT_THAT(blocks[1].groups, ElementsAre(1, 1, 7));
  EXPECT_THAT(blocks[2].places, ElementsAre(8));
  EXPECT_THAT(blocks[2].groups, ElementsAre(7));
  const KeyBlock lone(order, 0, 3);
  EXPECT_FALSE(lone.contiguous());
  EXPECT_EQ(lone.span().end, 11);
}

TEST(BlockShape, IsPaddedAndNoPowerOfTwo) {
  attest_softmax_params params{};
  for (const int64_t head_dim : {1, 64, 65, 128, 1024}) {
    params.head_dim = head_dim;
    params.head_dim_v = head_dim / 2 + 1;
    const BlockShape shape(params);
    EXPECT_EQ(shape.keys % kColumns, 0);
    EXPECT_GE(shape.keys, 32);
    EXPECT_LE(shape.keys, 256);
    EXPECT_GT(shape.key_stride, shape.keys);
    EXPECT_NE(shape.key_stride & (shape.key_stride - 1), 0);
    EXPECT_EQ(shape.value_stride % kColumns, 0);
    EXPECT_GE(shape.value_stride, params.head_dim_v);
    EXPECT_LT(shape.value_stride, params.head_dim_v + kColumns);
  }
  EXPECT_EQ(padded_rows(7), 12);
}

}  // namespace
}  // namespace attest::core::passes
