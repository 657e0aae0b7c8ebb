// Attention of image matchers: SuperGlue's heads among channels, LightGlue's two images at once,
// LoFTR's masks of padding.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "core/run/testing/vector_cloud.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

class MatchingVectors : public CaseVectors {};

/// SuperGlue: channel c of a token is channel c / heads of head c % heads.
TEST_F(MatchingVectors, LayoutsNameTheirDimsInOrder) {
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
    inputs[std::string(1, "QKV"[part])] =
        stored([&](int64_t i, int64_t h, int64_t d) { return cloud.at(i, part, h, d); }).file();
  const Array y = stored([&](int64_t i, int64_t h, int64_t d) {
    return rows.values[size_t(i * kModel + h * kChannels + d)];
  });
  EXPECT_EQ(with("sdpa", R"("scale":0.5,"layout":"BDHN")", inputs, y).outcome.verdict(),
            Verdict::kPass)
      << judge().outcome.reason;
  EXPECT_NE(with("sdpa", R"("scale":0.5,"layout":"BHDN")", inputs, y).outcome.verdict(),
            Verdict::kPass);
  for (const char* word : {"BDHX", "BDH", "BDHNS"})
    EXPECT_THAT(with("sdpa", R"("scale":0.5,"layout":")" + std::string(word) + "\"", inputs, y)
                    .outcome.reason,
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
          for (int64_t d = 0; d < kChannels; ++d)
            dot += double(row(qk[image], image, i)[d]) * row(qk[other], other, j)[d];
          const double weight = std::exp(0.5 * dot);
          total += weight;
          for (int64_t d = 0; d < kChannels; ++d) sum[d] += weight * row(v[other], other, j)[d];
        }
        for (int64_t d = 0; d < kChannels; ++d)
          out.values[size_t((h * counts[image] + i) * kChannels + d)] =
              total == 0 ? 0 : float(sum[d] / total);
      }
    return out;
  }
};

TEST_F(MatchingVectors, CrossAttentionGoesBothWays) {
  const Match match;
  std::string mask;
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 5; ++j) mask += char(Match::alive(0, i) && Match::alive(1, j));
  for (const bool masked : {false, true}) {
    Files inputs{{"qk0", match.qk[0].file()},
                 {"qk1", match.qk[1].file()},
                 {"v0", match.v[0].file()},
                 {"v1", match.v[1].file()}};
    if (masked) inputs["mask"] = tensor_file({1, 1, 3, 5}, 9, mask);
    const auto judged = [&](bool first, bool second) {
      return with(
          "bidirectional_cross_attention", R"("scale":0.5)", inputs,
          Files{{"m0", match.messages(0, first).file()}, {"m1", match.messages(1, second).file()}});
    };
    EXPECT_EQ(judged(masked, masked).outcome.verdict(), Verdict::kPass) << judge().outcome.reason;
    EXPECT_EQ(judged(!masked, masked).outcome.code, ReasonCode::kErrorReference);
    EXPECT_EQ(judged(masked, !masked).outcome.code, ReasonCode::kErrorReference);
  }
}

/// LoFTR: points of padding are no keys, and queries of padding give nothing.
TEST_F(MatchingVectors, LinearAttentionTakesBothMasks) {
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
          for (int64_t d = 0; d < kChannels; ++d)
            weight += phi(cloud.at(i, 0, h, d)) * phi(cloud.at(j, 1, h, d));
          total += weight;
          for (int64_t d = 0; d < kChannels; ++d) sum[d] += weight * cloud.at(j, 2, h, d);
        }
        for (int64_t d = 0; d < kChannels; ++d)
          out.values[size_t((i * kHeads + h) * kChannels + d)] = float(sum[d] / total);
      }
    return out;
  };
  const std::string alive_file = tensor_file({1, 5}, 9, std::string("\1\0\1\1\0", 5));
  Files inputs{{"kv_mask", alive_file}, {"q_mask", alive_file}};
  for (int64_t part = 0; part < 3; ++part) {
    Array stored({1, 5, kHeads, kChannels}, 0);
    for (int64_t row = 0; row < 5 * kHeads; ++row)
      for (int64_t d = 0; d < kChannels; ++d)
        stored.values[size_t(row * kChannels + d)] =
            float(cloud.at(row / kHeads, part, row % kHeads, d));
    inputs[std::string(1, "QKV"[part])] = stored.file();
  }
  const std::string params = R"("eps":1e-6)";
  EXPECT_EQ(with("linear_elu1", params, inputs, attended(true, true)).outcome.verdict(),
            Verdict::kPass)
      << judge().outcome.reason;
  EXPECT_EQ(with("linear_elu1", params, inputs, attended(false, true)).outcome.code,
            ReasonCode::kErrorReference);
  EXPECT_EQ(with("linear_elu1", params, inputs, attended(true, false)).outcome.code,
            ReasonCode::kErrorReference);
}

}  // namespace
}  // namespace attest::core
