// The picture of a sweep's tokens.
#include "core/session/draw_tokens.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

// Four tokens at the corners of a square of 64 m, in the order: south west, north west, north east,
// south east. They are stored the other way round.
Tokens corners() {
  Tokens tokens;
  tokens.count = 4;
  tokens.positions = {{64, -32}, {64, 32}, {0, 32}, {0, -32}};
  tokens.order = {3, 2, 1, 0};
  return tokens;
}

TEST(DrawTokens, ShowsWhereTokensLieAndTheirOrder) {
  const TokenPicture picture = draw_tokens("lidar:curve=z", corners()).value();
  EXPECT_EQ(picture.inputs, "lidar:curve=z");
  EXPECT_EQ(picture.tokens, 4);
  EXPECT_DOUBLE_EQ(picture.cell_metres, 1);
  const std::string between(2 * (kTokenCells - 2), ' ');
  EXPECT_EQ(picture.cells.front(), "90" + between + "i0");  // 1/4 and 2/4 of 1296, in base 36
  EXPECT_EQ(picture.cells.back(), "00" + between + "r0");
  for (size_t line = 1; line + 1 < picture.cells.size(); ++line)
    EXPECT_EQ(picture.cells[line], std::string(2 * kTokenCells, ' '));
}

TEST(DrawTokens, ShowsTheFirstTokenOfACell) {
  Tokens tokens = corners();
  tokens.positions[0] = {63.5, 31.5};  // the last of the curve, beside the third
  EXPECT_EQ(draw_tokens("", tokens)->cells.front().substr(2 * (kTokenCells - 1)), "i0");
}

// Of 100 tokens in a row, one metre apart, two at each end are left out.
TEST(DrawTokens, LeavesOutTheOutermostTokens) {
  Tokens row;
  row.count = 100;
  for (int i = 0; i < 100; ++i) {
    row.positions.push_back({float(i), 0});
    row.order.push_back(i);
  }
  const TokenPicture picture = draw_tokens("", row).value();
  ASSERT_EQ(picture.cells.size(), 1u);
  EXPECT_EQ(picture.cells[0].substr(0, 2), "0p") << "of token 2: 25 of 1296";
  EXPECT_EQ(picture.cells[0].substr(2 * (kTokenCells - 1)), "yk") << "of token 96: 1244 of 1296";
}

TEST(DrawTokens, OneTokenHasAPictureAndAnImageNone) {
  Tokens tokens;
  tokens.count = 1;
  tokens.order = {0};
  EXPECT_FALSE(draw_tokens("", tokens));
  tokens.positions = {{5, 5}};
  EXPECT_EQ(draw_tokens("", tokens)->cells.front().substr(0, 2), "00");
}

TEST(DrawTokens, TheBuiltInSweepFillsItsPicture) {
  const Tokens sweep = load_tokens(parse_token_source("lidar:voxel_size=0.5,curve=hilbert"));
  ASSERT_EQ(int64_t(sweep.positions.size()), sweep.count);
  const TokenPicture picture = draw_tokens("", sweep).value();
  int filled = 0;
  std::string last;
  for (const std::string& line : picture.cells)
    for (size_t at = 0; at < line.size(); at += 2)
      if (line[at] != ' ') {
        ++filled;
        last = std::max(last, line.substr(at, 2));
      }
  EXPECT_EQ(picture.cells.front().size(), size_t(2 * kTokenCells)) << "a street: wide, not high";
  EXPECT_LT(picture.cells.size(), size_t(kTokenCells / 2));
  EXPECT_GT(filled, int(picture.cells.size()) * kTokenCells / 8);
  EXPECT_GT(last, "y0");  // the end of the curve
}

TEST(DrawTokens, APictureIsReadAsItWasWritten) {
  const TokenPicture picture = draw_tokens("lidar:curve=z", corners()).value();
  const nlohmann::json line = to_json(picture);
  EXPECT_EQ(line["type"], "tokens");
  EXPECT_EQ(to_json(token_picture_from_json(line)), line);
  EXPECT_THROW(token_picture_from_json({{"type", "tokens"}, {"inputs", "x"}}), Error);
}

}  // namespace
}  // namespace attest::core
