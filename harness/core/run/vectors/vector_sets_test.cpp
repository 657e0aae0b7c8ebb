// Sets of tokens: PTv3's patches, DSVT's sets and FlatFormer's groups, each token with its keys
// written down, against the mapping of what these models store.
#include <gmock/gmock.h>

#include <numeric>

#include "core/run/testing/vector_cloud.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

std::string indices_file(const Indices& values, const Indices& dims) {
  return tensor_file(dims, 7, packed_values(values));
}

class SetVectors : public CaseVectors {};

/// PTv3: three clouds of 6, 3 and 9 tokens in patches of 4; what the last patch of a cloud lacks it
/// takes from the one before.
TEST_F(SetVectors, SerializedPatchesOverlapAtTheEndOfACloud) {
  const Cloud cloud{18};
  const Indices order = {4, 0, 5, 2, 1, 3, 8, 6, 7, 17, 9, 12, 10, 16, 11, 15, 13, 14};
  const std::vector<Indices> patches = {{0, 1, 2, 3},    {2, 3, 4, 5},  // places of the first cloud
                                        {6, 7, 8},  // fewer than a patch: no filling up
                                        {9, 10, 11, 12}, {13, 14, 15, 16}, {14, 15, 16, 17}};
  const Indices patch_of = {0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5};
  const auto seen = [&](const std::vector<Indices>& of, const Indices& tokens) {
    std::vector<Indices> keys(18);
    for (size_t place = 0; place < 18; ++place)
      for (const int64_t at : of[size_t(patch_of[place])])
        keys[size_t(tokens[place])].push_back(tokens[size_t(at)]);
    return cloud.attend(keys);
  };
  std::vector<Indices> short_ones = patches;
  short_ones[1] = {4, 5};
  Indices stored(18);
  std::iota(stored.begin(), stored.end(), 0);
  const std::string params = R"("heads":2,"patch_size":4)";
  const Files packed{{"qkv", cloud.qkv.file()},
                     {"offset", indices_file({6, 9, 18}, {3})},
                     {"order", indices_file(order, {18})}};
  Files unordered = packed;
  unordered.erase("order");
  EXPECT_EQ(with("serialized_attention", params, packed, seen(patches, order)).outcome.verdict(),
            Verdict::kPass)
      << judge().outcome.reason;
  EXPECT_EQ(
      with("serialized_attention", params, unordered, seen(patches, stored)).outcome.verdict(),
      Verdict::kPass)
      << judge().outcome.reason;
  EXPECT_EQ(with("serialized_attention", params, packed, seen(short_ones, order)).outcome.code,
            ReasonCode::kErrorReference);
  EXPECT_EQ(with("serialized_attention", params, packed, seen(patches, stored)).outcome.code,
            ReasonCode::kErrorReference);
  Files twice = packed;
  twice["order"] = indices_file(Indices(18, 3), {18});
  EXPECT_EQ(with("serialized_attention", params, twice, seen(patches, order)).outcome.code,
            ReasonCode::kErrorVector);
}

/// DSVT: the last place of the first set repeats token 2 and is padding.
TEST_F(SetVectors, PaddedPlacesOfASetAreNotAttended) {
  const Cloud cloud{7};
  const Indices first = {0, 1, 2}, second = {3, 4, 5, 6}, doubled = {0, 1, 2, 2};
  const auto seen = [&](const Indices& of_first) {
    return cloud.attend({of_first, of_first, of_first, second, second, second, second});
  };
  Files inputs{{"qkv", cloud.qkv.file()},
               {"voxel_inds", indices_file({0, 1, 2, 2, 3, 4, 5, 6}, {2, 4})},
               {"key_padding_mask", tensor_file({2, 4}, 9, std::string("\0\0\0\1\0\0\0\0", 8))}};
  const std::string params = R"("heads":2,"scale":0.5)";
  EXPECT_EQ(with("set_attention", params, inputs, seen(first)).outcome.verdict(), Verdict::kPass)
      << judge().outcome.reason;
  EXPECT_EQ(with("set_attention", params, inputs, seen(doubled)).outcome.code,
            ReasonCode::kErrorReference);
  Files unmasked = inputs;
  unmasked.erase("key_padding_mask");
  EXPECT_EQ(with("set_attention", params, unmasked, seen(doubled)).outcome.verdict(),
            Verdict::kPass)
      << judge().outcome.reason;
  inputs["voxel_inds"] = indices_file({0, 1, 3, 2, 3, 4, 5, 6}, {2, 4});
  EXPECT_THAT(with("set_attention", params, inputs, seen(first)).outcome.reason,
              HasSubstr("token 3 stands in sets 0 and 1"));
  inputs["voxel_inds"] = indices_file({0, 1, 7, 2, 3, 4, 5, 6}, {2, 4});
  EXPECT_THAT(with("set_attention", params, inputs, seen(first)).outcome.reason,
              HasSubstr("voxel_inds: 7 at 2 where 0 to 6 is right"));
}

/// FlatFormer: 7 tokens in groups of 3; the last group is filled up from the one before, and only
/// its first output is kept.
TEST_F(SetVectors, AGroupThatIsFilledUpKeepsItsOwnOutputs) {
  const Cloud cloud{7};
  const auto seen = [&](const Indices& last) {
    return cloud.attend({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {3, 4, 5}, {3, 4, 5}, {3, 4, 5}, last});
  };
  Files inputs{{"qkv", cloud.qkv.file()},
               {"flat2win", indices_file({0, 1, 2, 3, 4, 5, 6, 4, 5}, {9})},
               {"win2flat", indices_file({0, 1, 2, 3, 4, 5, 6}, {7})}};
  const std::string params = R"("heads":2,"scale":0.5,"group_size":3)";
  EXPECT_EQ(with("group_attention", params, inputs, seen({6, 4, 5})).outcome.verdict(),
            Verdict::kPass)
      << judge().outcome.reason;
  EXPECT_EQ(with("group_attention", params, inputs, seen({6})).outcome.code,
            ReasonCode::kErrorReference);
  EXPECT_THAT(
      with("group_attention", R"("heads":2,"group_size":4)", inputs, seen({6})).outcome.reason,
      HasSubstr("group_size: 4 does not divide flat2win [9]"));
  inputs["win2flat"] = indices_file({0, 1, 2, 3, 7, 5, 5}, {7});
  EXPECT_THAT(with("group_attention", params, inputs, seen({6})).outcome.reason,
              HasSubstr("token 6 comes from place 5"));
}

}  // namespace
}  // namespace attest::core
