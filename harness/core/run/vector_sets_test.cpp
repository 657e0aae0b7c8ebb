// Sets of tokens: PTv3's patches, DSVT's sets and FlatFormer's groups, each token with its keys written down, against the mapping
// of what these models store.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/run/vector_folder.hpp"

namespace attest::core {
namespace {

using testing::HasSubstr;
using Indices = std::vector<int64_t>;

constexpr int64_t kHeads = 2, kChannels = 4, kModel = kHeads * kChannels;

struct Cloud {
  int64_t count;
  Array qkv{{count, 3 * kModel}, 1};

  double at(int64_t token, int64_t part, int64_t h, int64_t d) const {
    return qkv.values[size_t(token * 3 * kModel + part * kModel + h * kChannels + d)];
  }
  /// [tokens, head, channel], where token i sees keys[i]; a key that comes twice weighs twice.
  Array attend(const std::vector<Indices>& keys) const {
    Array out({count, kModel}, 0);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t h = 0; h < kHeads; ++h) {
        double total = 0, sum[kChannels] = {};
        for (const int64_t j : keys[size_t(i)]) {
          double dot = 0;
          for (int64_t d = 0; d < kChannels; ++d) dot += at(i, 0, h, d) * at(j, 1, h, d);
          const double weight = std::exp(0.5 * dot);
          total += weight;
          for (int64_t d = 0; d < kChannels; ++d) sum[d] += weight * at(j, 2, h, d);
        }
        for (int64_t d = 0; d < kChannels; ++d) out.values[size_t(i * kModel + h * kChannels + d)] = float(sum[d] / total);
      }
    return out;
  }
};

std::string indices_file(const Indices& values, const Indices& dims) { return tensor_file(dims, 7, packed_values(values)); }

class SetVectors : public Vectors {
 protected:
  using Files = std::map<std::string, std::string>;
  Record with(const std::string& op, const std::string& params, const Files& inputs, const Array& y) {
    return with(op, params, inputs, Files{{"Y", y.file()}});
  }
  Record with(const std::string& op, const std::string& params, const Files& inputs, const Files& outputs) {
    write_file(folder_ / "s/case.json", R"({"op":")" + op + R"(","params":{)" + params + R"(},"inputs":[)" + list(inputs) +
                                            R"(],"outputs":[)" + list(outputs) + "]}");
    return judge();
  }

 private:
  std::string list(const Files& files) const {
    std::string text;
    for (const auto& [name, bytes] : files) {
      write_file(folder_ / "s" / (name + ".pb"), bytes);
      text += std::string(text.empty() ? "" : ",") + R"({"name":")" + name + R"(","file":")" + name + R"(.pb"})";
    }
    return text;
  }
};

/// PTv3: three clouds of 6, 3 and 9 tokens in patches of 4; what the last patch of a cloud lacks it takes from the one before.
TEST_F(SetVectors, SerializedPatchesOverlapAtTheEndOfACloud) {
  const Cloud cloud{18};
  const Indices order = {4, 0, 5, 2, 1, 3, 8, 6, 7, 17, 9, 12, 10, 16, 11, 15, 13, 14};
  const std::vector<Indices> patches = {{0, 1, 2, 3},    {2, 3, 4, 5},  // places of the first cloud
                                        {6, 7, 8},                      // fewer than a patch: no filling up
                                        {9, 10, 11, 12}, {13, 14, 15, 16}, {14, 15, 16, 17}};
  const Indices patch_of = {0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5};
  const auto seen = [&](const std::vector<Indices>& of, const Indices& tokens) {
    std::vector<Indices> keys(18);
    for (size_t place = 0; place < 18; ++place)
      for (const int64_t at : of[size_t(patch_of[place])]) keys[size_t(tokens[place])].push_back(tokens[size_t(at)]);
    return cloud.attend(keys);
  };
  std::vector<Indices> short_ones = patches;
  short_ones[1] = {4, 5};
  Indices stored(18);
  std::iota(stored.begin(), stored.end(), 0);
  const std::string params = R"("heads":2,"patch_size":4)";
  const Files packed{{"qkv", cloud.qkv.file()}, {"offset", indices_file({6, 9, 18}, {3})}, {"order", indices_file(order, {18})}};
  Files unordered = packed;
  unordered.erase("order");
  EXPECT_EQ(with("serialized_attention", params, packed, seen(patches, order)).verdict, Verdict::kPass) << judge().reason;
  EXPECT_EQ(with("serialized_attention", params, unordered, seen(patches, stored)).verdict, Verdict::kPass) << judge().reason;
  EXPECT_EQ(with("serialized_attention", params, packed, seen(short_ones, order)).code, "error:reference");
  EXPECT_EQ(with("serialized_attention", params, packed, seen(patches, stored)).code, "error:reference");
  Files twice = packed;
  twice["order"] = indices_file(Indices(18, 3), {18});
  EXPECT_EQ(with("serialized_attention", params, twice, seen(patches, order)).code, "error:vector");
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
  EXPECT_EQ(with("set_attention", params, inputs, seen(first)).verdict, Verdict::kPass) << judge().reason;
  EXPECT_EQ(with("set_attention", params, inputs, seen(doubled)).code, "error:reference");
  Files unmasked = inputs;
  unmasked.erase("key_padding_mask");
  EXPECT_EQ(with("set_attention", params, unmasked, seen(doubled)).verdict, Verdict::kPass) << judge().reason;
  inputs["voxel_inds"] = indices_file({0, 1, 3, 2, 3, 4, 5, 6}, {2, 4});
  EXPECT_THAT(with("set_attention", params, inputs, seen(first)).reason, HasSubstr("token 3 stands in sets 0 and 1"));
  inputs["voxel_inds"] = indices_file({0, 1, 7, 2, 3, 4, 5, 6}, {2, 4});
  EXPECT_THAT(with("set_attention", params, inputs, seen(first)).reason, HasSubstr("voxel_inds: 7 at 2 where 0 to 6 is right"));
}

/// FlatFormer: 7 tokens in groups of 3; the last group is filled up from the one before, and only its first output is kept.
TEST_F(SetVectors, AGroupThatIsFilledUpKeepsItsOwnOutputs) {
  const Cloud cloud{7};
  const auto seen = [&](const Indices& last) {
    return cloud.attend({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {3, 4, 5}, {3, 4, 5}, {3, 4, 5}, last});
  };
  Files inputs{{"qkv", cloud.qkv.file()},
               {"flat2win", indices_file({0, 1, 2, 3, 4, 5, 6, 4, 5}, {9})},
               {"win2flat", indices_file({0, 1, 2, 3, 4, 5, 6}, {7})}};
  const std::string params = R"("heads":2,"scale":0.5,"group_size":3)";
  EXPECT_EQ(with("group_attention", params, inputs, seen({6, 4, 5})).verdict, Verdict::kPass) << judge().reason;
  EXPECT_EQ(with("group_attention", params, inputs, seen({6})).code, "error:reference");
  EXPECT_THAT(with("group_attention", R"("heads":2,"group_size":4)", inputs, seen({6})).reason,
              HasSubstr("group_size: 4 does not divide flat2win [9]"));
  inputs["win2flat"] = indices_file({0, 1, 2, 3, 7, 5, 5}, {7});
  EXPECT_THAT(with("group_attention", params, inputs, seen({6})).reason, HasSubstr("token 6 comes from place 5"));
}

/// SuperGlue: channel c of a token is channel c / heads of head c % heads.
TEST_F(SetVectors, LayoutsNameTheirDimsInOrder) {
  const Cloud cloud{5};
  Indices all(5);
  std::iota(all.begin(), all.end(), 0);
  const Array rows = cloud.attend(std::vector<Indices>(5, all));
  const auto stored = [](auto value) {  // [1, channel, head, token]
    Array out({1, kChannels, kHeads, 5}, 0);
    for (int64_t d = 0, at = 0; d < kChannels; ++d)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t i = 0; i < 5; ++i, ++at) out.values[size_t(at)] = float(value(i, h, d));
    return out;
  };
  Files inputs;
  for (int64_t part = 0; part < 3; ++part)
    inputs[std::string(1, "QKV"[part])] = stored([&](int64_t i, int64_t h, int64_t d) { return cloud.at(i, part, h, d); }).file();
  const Array y = stored([&](int64_t i, int64_t h, int64_t d) { return rows.values[size_t(i * kModel + h * kChannels + d)]; });
  EXPECT_EQ(with("sdpa", R"("scale":0.5,"layout":"BDHN")", inputs, y).verdict, Verdict::kPass) << judge().reason;
  EXPECT_NE(with("sdpa", R"("scale":0.5,"layout":"BHDN")", inputs, y).verdict, Verdict::kPass);
  for (const char* word : {"BDHX", "BDH", "BDHNS"})
    EXPECT_THAT(with("sdpa", R"("scale":0.5,"layout":")" + std::string(word) + "\"", inputs, y).reason,
                HasSubstr("layout '" + std::string(word) + "'"));
}

/// LightGlue: 3 points of one image and 5 of another; the last point of the second is pruned.
struct Match {
  int64_t counts[2] = {3, 5};
  Array qk[2] = {Array({1, kHeads, 3, kChannels}, 3), Array({1, kHeads, 5, kChannels}, 4)};
  Array v[2] = {Array({1, kHeads, 3, kChannels}, 5), Array({1, kHeads, 5, kChannels}, 6)};

  static bool alive(int64_t image, int64_t point) { return image == 0 || point != 4; }
  /// What points of `image` gather from the other one.
  Array messages(int64_t image, bool masked) const {
    const int64_t other = 1 - image;
    Array out({1, kHeads, counts[image], kChannels}, 0);
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < counts[image]; ++i) {
        double total = 0, sum[kChannels] = {};
        for (int64_t j = 0; j < counts[other]; ++j) {
          if (masked && !(alive(image, i) && alive(other, j))) continue;
          const auto row = [&](const Array& of, int64_t which, int64_t point) {
            return &of.values[size_t((h * counts[which] + point) * kChannels)];
          };
          double dot = 0;
          for (int64_t d = 0; d < kChannels; ++d) dot += double(row(qk[image], image, i)[d]) * row(qk[other], other, j)[d];
          const double weight = std::exp(0.5 * dot);
          total += weight;
          for (int64_t d = 0; d < kChannels; ++d) sum[d] += weight * row(v[other], other, j)[d];
        }
        for (int64_t d = 0; d < kChannels; ++d)
          out.values[size_t((h * counts[image] + i) * kChannels + d)] = total == 0 ? 0 : float(sum[d] / total);
      }
    return out;
  }
};

TEST_F(SetVectors, CrossAttentionGoesBothWays) {
  const Match match;
  std::string mask;
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 5; ++j) mask += char(Match::alive(0, i) && Match::alive(1, j));
  for (const bool masked : {false, true}) {
    Files inputs{{"qk0", match.qk[0].file()}, {"qk1", match.qk[1].file()}, {"v0", match.v[0].file()}, {"v1", match.v[1].file()}};
    if (masked) inputs["mask"] = tensor_file({1, 1, 3, 5}, 9, mask);
    const auto judged = [&](bool first, bool second) {
      return with("bidirectional_cross_attention", R"("scale":0.5)", inputs,
                  Files{{"m0", match.messages(0, first).file()}, {"m1", match.messages(1, second).file()}});
    };
    EXPECT_EQ(judged(masked, masked).verdict, Verdict::kPass) << judge().reason;
    EXPECT_EQ(judged(!masked, masked).code, "error:reference");
    EXPECT_EQ(judged(masked, !masked).code, "error:reference");
  }
}

/// LoFTR: points of padding are no keys, and queries of padding give nothing.
TEST_F(SetVectors, LinearAttentionTakesBothMasks) {
  const Cloud cloud{5};
  const auto alive = [](int64_t token) { return token != 1 && token != 4; };
  const auto attended = [&](bool keys_masked, bool queries_masked) {
    Array out({1, 5, kHeads, kChannels}, 0);
    const auto phi = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t h = 0; h < kHeads; ++h) {
        double total = 1e-6, sum[kChannels] = {};
        for (int64_t j = 0; j < 5; ++j) {
          if ((keys_masked && !alive(j)) || (queries_masked && !alive(i))) continue;
          double weight = 0;
          for (int64_t d = 0; d < kChannels; ++d) weight += phi(cloud.at(i, 0, h, d)) * phi(cloud.at(j, 1, h, d));
          total += weight;
          for (int64_t d = 0; d < kChannels; ++d) sum[d] += weight * cloud.at(j, 2, h, d);
        }
        for (int64_t d = 0; d < kChannels; ++d) out.values[size_t((i * kHeads + h) * kChannels + d)] = float(sum[d] / total);
      }
    return out;
  };
  const std::string alive_file = tensor_file({1, 5}, 9, std::string("\1\0\1\1\0", 5));
  Files inputs{{"kv_mask", alive_file}, {"q_mask", alive_file}};
  for (int64_t part = 0; part < 3; ++part) {
    Array stored({1, 5, kHeads, kChannels}, 0);
    for (int64_t row = 0; row < 5 * kHeads; ++row)
      for (int64_t d = 0; d < kChannels; ++d)
        stored.values[size_t(row * kChannels + d)] = float(cloud.at(row / kHeads, part, row % kHeads, d));
    inputs[std::string(1, "QKV"[part])] = stored.file();
  }
  const std::string params = R"("eps":1e-6)";
  EXPECT_EQ(with("linear_elu1", params, inputs, attended(true, true)).verdict, Verdict::kPass) << judge().reason;
  EXPECT_EQ(with("linear_elu1", params, inputs, attended(false, true)).code, "error:reference");
  EXPECT_EQ(with("linear_elu1", params, inputs, attended(true, false)).code, "error:reference");
}

}  // namespace
}  // namespace attest::core
