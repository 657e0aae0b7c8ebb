// The distance counts each kind of slip once, and a hint is given only where it would help.
#include "core/problem/hint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/problem/glob.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

TEST(Hint, DistanceCountsEachKindOfSlipOnce) {
  EXPECT_EQ(edit_distance("head_dim", "head_dim"), 0u);
  EXPECT_EQ(edit_distance("head_dims", "head_dim"), 1u);  // insertion
  EXPECT_EQ(edit_distance("head_di", "head_dim"), 1u);    // deletion
  EXPECT_EQ(edit_distance("head-dim", "head_dim"), 1u);   // replacement
  EXPECT_EQ(edit_distance("haed_dim", "head_dim"), 1u);   // neighbours swapped
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Hint, NamesTheNearestWord) {
  const std::vector<std::string> known{"batch", "head_dim", "head_dim_v", "q"};
  EXPECT_EQ(did_you_mean("head_dims", known), ", did you mean 'head_dim'?");
  EXPECT_EQ(did_you_mean("head_dmi_v", known), ", did you mean 'head_dim_v'?");
  EXPECT_EQ(did_you_mean("bathc", known), ", did you mean 'batch'?");
}

TEST(Hint, NamesAWordOfWhichAPartIsGiven) {
  const std::vector<std::string> known{"batch", "softmax_scale", "head_dim", "num_heads", "q_a"};
  EXPECT_EQ(did_you_mean("scale", known), ", did you mean 'softmax_scale'?");
  EXPECT_EQ(did_you_mean("heads", known), ", did you mean 'num_heads'?");
  EXPECT_EQ(did_you_mean("head", known), ", did you mean 'head_dim'?");
  EXPECT_EQ(did_you_mean("max_scale", known), "");  // no whole part
  EXPECT_EQ(did_you_mean("a", known), "");
}

TEST(Hint, IsSilentWhereNothingIsNear) {
  const std::vector<std::string> known{"batch", "head_dim", "q"};
  EXPECT_EQ(did_you_mean("temperature", known), "");
  EXPECT_EQ(did_you_mean("z", known), "");  // one letter is near every other
  EXPECT_EQ(did_you_mean("", known), "");
  EXPECT_EQ(did_you_mean(std::string(100000, 'x'), known), "");
}

// What a glob that matches nothing may have meant stands behind the names that there are.
TEST(Hint, FollowsTheNamesThatAGlobDoesNotMatch) {
  const std::vector<std::string> names{"vit_ti/self", "a/vit_ti/self", "vit_base/self",
                                       "a/vit_base/self"};
  const auto message = [&](const std::string& glob) -> std::string {
    try {
      require_matches("--case", {glob}, names);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("vit*"), "");
  EXPECT_EQ(message("vit_ti"),
            "--case vit_ti: matches none of: a/vit_ti/self, a/vit_base/self, did you mean "
            "'vit_ti/self'?");
  EXPECT_THAT(message("vit_bsae/self"), ::testing::EndsWith(", did you mean 'vit_base/self'?"));
  EXPECT_THAT(message("base"), ::testing::EndsWith(", did you mean 'vit_base/self'?"));
  EXPECT_THAT(message("*swin*"), ::testing::EndsWith("a/vit_base/self"));
  EXPECT_THAT(message("vit_ti*x"), ::testing::EndsWith("a/vit_base/self"));
}

}  // namespace
}  // namespace attest::core
