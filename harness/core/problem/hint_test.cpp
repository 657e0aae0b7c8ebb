// The distance counts each kind of slip once, and a hint is given only where it would help.
#include "core/problem/hint.hpp"

#include <gtest/gtest.h>

#include <vector>

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

}  // namespace
}  // namespace attest::core
