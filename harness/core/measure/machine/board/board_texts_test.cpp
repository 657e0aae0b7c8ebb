// Texts of a board's files, right and wrong.
#include "core/measure/machine/board/board_texts.hpp"

#include <gtest/gtest.h>

namespace attest::core {
namespace {

TEST(BoardTexts, AMaskLeavesPairsOfMultiprocessors) {
  EXPECT_EQ(parse_mask("0", 16).value, 16);
  EXPECT_EQ(parse_mask("240", 16).value, 8);
  EXPECT_EQ(parse_mask("0xf0", 8).value, 8);
  EXPECT_EQ(parse_mask("248", 16).value, 6);  // 15 W of AGX 64
  EXPECT_EQ(parse_mask("252", 8).value, 4);
  EXPECT_EQ(parse_mask("0", 14).value, 14) << "what is fused off does not come back";
  for (const char* garbage : {"", "255", "256", "-1", "f0", "240 241", "0x", "1e2"})
    EXPECT_FALSE(parse_mask(garbage, 16).value) << garbage;
  EXPECT_FALSE(parse_mask("0", 20).value) << "Thor: no document says what its bits are";
}

TEST(BoardTexts, AReleaseIsThatOfItsFirstLine) {
  EXPECT_EQ(parse_l4t("# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic").value, "R36.4.3");
  EXPECT_EQ(parse_l4t("# R35 (release), REVISION: 4.1").value, "R35.4.1");
  for (const char* garbage : {"", "R36.4.3", "# R36 (release)", "# Rx (release), REVISION: 4.3",
                              "# R-36 (release), REVISION: 4.3", "at 36 # R36, REVISION: 4.3",
                              "\n# R36 (release), REVISION: 4.3"})
    EXPECT_EQ(parse_l4t(garbage).missing, "nv_tegra_release: it names no release") << garbage;
}

TEST(BoardTexts, AReleaseIsThatOfOneJetPack) {
  EXPECT_EQ(parse_jetpack("R35.4.1").value, 5);
  EXPECT_EQ(parse_jetpack("R36.4.3").value, 6);
  EXPECT_EQ(parse_jetpack("R38.2.0").value, 7);
  EXPECT_EQ(parse_jetpack("R39.2.0").value, 7);
  for (const char* other : {"R32.7.1", "R37.0", "R360.1", ""})
    EXPECT_NE(parse_jetpack(other).missing, "") << other;
}

TEST(BoardTexts, AModeHasAnIdAndAName) {
  EXPECT_EQ(parse_mode_id("pmode:0002\nfmode:quiet").value, 2);
  for (const char* garbage : {"", "pmode:", "pmode:-1", "pmode:two", "pmode:10000", "fmode:0002"})
    EXPECT_NE(parse_mode_id(garbage).missing, "") << garbage;
  const std::string conf =
      "# < POWER_MODEL ID=7 NAME=OLD >\n< POWER_MODEL ID=2 NAME= >\n< POWER_MODEL ID=2 NAME=15W >\n"
      "< POWER_MODEL ID=3 >\n";
  EXPECT_EQ(parse_mode_name(conf, 2).value, "15W");
  for (const int id : {3, 7, 20})
    EXPECT_EQ(parse_mode_name(conf, id).missing,
              "nvpmodel.conf: it has no mode " + std::to_string(id));
}

}  // namespace
}  // namespace attest::core
