// Windows of images: Swin and SAM written down pixel by pixel, without any partition, against the
// mapping of what they store.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "core/run/testing/vector_folder.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

/// One image of 2 heads x 4 channels; a pair of pixels has a term, or does not meet.
struct Image {
  int64_t height, width, window;
  static constexpr int64_t kHeads = 2, kChannels = 4, kModel = kHeads * kChannels;
  Array qkv{{1, height, width, 3 * kModel}, 1};
  /// Pixels beyond the image: they have zeros for q, k and v.
  int64_t padded_height = height, padded_width = width;

  double at(int64_t part, int64_t y, int64_t x, int64_t h, int64_t d) const {
    if (y >= height || x >= width) return 0;
    return qkv.values[size_t((y * width + x) * 3 * kModel + part * kModel + h * kChannels + d)];
  }
  struct Pair {
    int64_t h, y, x, to_y, to_x;
  };
  using Rule = std::function<double(const Pair&)>;  // added to the score; -inf: not attended
  using Score = std::function<double(const Pair&, double dot)>;

  Array attend(const Rule& rule, const Score& score) const {
    Array out({1, height, width, kModel}, 0);
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        for (int64_t h = 0; h < kHeads; ++h) {
          std::vector<double> sum(kChannels, 0.0);
          double total = 0;
          for (int64_t to_y = 0; to_y < padded_height; ++to_y)
            for (int64_t to_x = 0; to_x < padded_width; ++to_x) {
              const Pair pair{h, y, x, to_y, to_x};
              const double term = rule(pair);
              if (term == kHidden) continue;
              double dot = 0;
              for (int64_t d = 0; d < kChannels; ++d)
                dot += at(0, y, x, h, d) * at(1, to_y, to_x, h, d);
              const double weight = std::exp(score(pair, dot) + term);
              total += weight;
              for (int64_t d = 0; d < kChannels; ++d)
                sum[size_t(d)] += weight * at(2, to_y, to_x, h, d);
            }
          for (int64_t d = 0; d < kChannels; ++d)
            out.values[size_t((y * width + x) * kModel + h * kChannels + d)] =
                float(sum[size_t(d)] / total);
        }
    return out;
  }
  Array attend(const Rule& rule) const {
    return attend(rule, [](const Pair&, double dot) { return 0.5 * dot; });
  }
  double dot_with(const Pair& at, const Array& table, int64_t row) const {
    double sum = 0;
    for (int64_t d = 0; d < kChannels; ++d)
      sum += this->at(0, at.y, at.x, at.h, d) * table.values[size_t(row * kChannels + d)];
    return sum;
  }
};

/// Pixels of an image, windows first: what Swin calls window_partition of the image rolled by
/// -shift.
Array as_windows(const Array& image, int64_t window, int64_t shift) {
  const int64_t height = image.dims[1], width = image.dims[2], channels = image.dims[3];
  Array out({height / window * (width / window), window * window, channels}, 0);
  size_t at = 0;
  for (int64_t top = 0; top < height; top += window)
    for (int64_t left = 0; left < width; left += window)
      for (int64_t y = top; y < top + window; ++y)
        for (int64_t x = left; x < left + window; ++x)
          for (int64_t c = 0; c < channels; ++c)
            out.values[at++] = image.values[size_t(
                ((y + shift) % height * width + (x + shift) % width) * channels + c)];
  return out;
}

class WindowVectors : public CaseVectors {
 protected:
  using Inputs = std::map<std::string, Array>;
  Record with(const std::string& op, const std::string& params, const Inputs& inputs,
              const Array& y) const {
    Files files;
    for (const auto& [name, array] : inputs) files[name] = array.file();
    return CaseVectors::with(op, R"("heads":2,)" + params, files, y);
  }
};

const std::string kBatch = R"x("qkv_layout":"(nW, N, [q|k|v][head][d])")x",
                  kImage = R"x("qkv_layout":"(1,h,w,[q|k|v][head][d])")x";

/// Swin's rule for pixels of the image that was not rolled: they meet in a window of the rolled
/// one; -100 where only rolling brought them together, which is where the shorter way between them
/// is round an edge.
Image::Rule swin_rule(const Image& image, const Array& table, int64_t shift, bool separates,
                      double (*of)(double)) {
  return [&image, table, shift, separates, of](const Image::Pair& p) {
    const auto rolled = [&](int64_t at, int64_t size) { return (at - shift + size) % size; };
    const int64_t y = rolled(p.y, image.height), to_y = rolled(p.to_y, image.height),
                  x = rolled(p.x, image.width), to_x = rolled(p.to_x, image.width),
                  w = image.window;
    if (y / w != to_y / w || x / w != to_x / w) return kHidden;
    const int64_t row = (y - to_y + w - 1) * (2 * w - 1) + x - to_x + w - 1;
    const bool round_an_edge = std::abs(p.y - p.to_y) >= w || std::abs(p.x - p.to_x) >= w;
    return of(table.values[size_t(row * 2 + p.h)]) + (round_an_edge && separates ? -100 : 0);
  };
}
double as_it_is(double x) { return x; }
double sixteen_sigmoids(double x) { return 16 / (1 + std::exp(-x)); }

TEST_F(WindowVectors, SwinAsBatchAndAsImage) {
  const Image image{6, 9, 3};
  const Array table({25, 2}, 7);
  for (const int64_t shift : {0, 1}) {
    const std::string params =
        R"("scale":0.5,"window":3,"res":[6,9],"shift":)" + std::to_string(shift) + ",";
    const Array right = image.attend(swin_rule(image, table, shift, true, as_it_is)),
                wrong = image.attend(swin_rule(image, table, shift, false, as_it_is)),
                other_shift = image.attend(swin_rule(image, table, shift + 1, true, as_it_is));
    const Inputs in_image{{"qkv", image.qkv}, {"rel_pos_bias_table", table}};
    const Inputs in_batch{{"qkv", as_windows(image.qkv, 3, shift)}, {"rel_pos_bias_table", table}};
    EXPECT_EQ(with("swin_window", params + kImage, in_image, right).outcome.verdict(),
              Verdict::kPass)
        << judge().outcome.reason;
    EXPECT_EQ(with("swin_window", params + kBatch, in_batch, as_windows(right, 3, shift))
                  .outcome.verdict(),
              Verdict::kPass)
        << judge().outcome.reason;
    EXPECT_EQ(with("swin_window", params + kImage, in_image, other_shift).outcome.code,
              ReasonCode::kErrorReference);
    if (shift == 0) continue;
    EXPECT_EQ(with("swin_window", params + kImage, in_image, wrong).outcome.code,
              ReasonCode::kErrorReference);
    EXPECT_EQ(
        with("swin_window", params + kBatch, in_batch, as_windows(wrong, 3, shift)).outcome.code,
        ReasonCode::kErrorReference);
  }
  EXPECT_THAT(with("swin_window", R"("scale":0.5,"window":4,)" + kImage,
                   {{"qkv", image.qkv}, {"rel_pos_bias_table", table}}, image.qkv)
                  .outcome.reason,
              HasSubstr("swin_window: 6 x 9 is no multiple of the window"));
}

TEST_F(WindowVectors, SwinVersion2TakesCosines) {
  const Image image{4, 4, 2};
  const Array table({9, 2}, 8);
  Array logit_scale({2, 1, 1}, 0);
  logit_scale.values = {1.5f, 9};  // the second is cut at ln 100
  const auto cosines = [&](bool cut) {
    return image.attend(swin_rule(image, table, 1, true, sixteen_sigmoids),
                        [&image, cut, &logit_scale](const Image::Pair& p, double dot) {
                          double q = 0, k = 0;
                          for (int64_t d = 0; d < Image::kChannels; ++d) {
                            q += std::pow(image.at(0, p.y, p.x, p.h, d), 2);
                            k += std::pow(image.at(1, p.to_y, p.to_x, p.h, d), 2);
                          }
                          const double factor = double(logit_scale.values[size_t(p.h)]);
                          return dot / std::sqrt(q * k) *
                                 std::exp(cut ? std::min(factor, std::log(100.0)) : factor);
                        });
  };
  const Inputs inputs{
      {"qkv", image.qkv}, {"rel_pos_bias_table", table}, {"logit_scale", logit_scale}};
  const std::string params = R"("window":2,"shift":1,)" + kImage;
  EXPECT_EQ(with("swinv2_window", params, inputs, cosines(true)).outcome.verdict(), Verdict::kPass)
      << judge().outcome.reason;
  EXPECT_EQ(with("swinv2_window", params, inputs, cosines(false)).outcome.code,
            ReasonCode::kErrorReference);
  EXPECT_EQ(with("swinv2_window", params, inputs,
                 image.attend(swin_rule(image, table, 1, true, sixteen_sigmoids)))
                .outcome.code,
            ReasonCode::kErrorReference);
}

TEST_F(WindowVectors, SamPadsWithZerosThatAttend) {
  const Image image{.height = 5, .width = 7, .window = 3, .padded_height = 6, .padded_width = 9};
  const Array rows({5, 4}, 9), columns({5, 4}, 10);
  const auto rule = [&](bool masked, bool scaled) {
    return image.attend([&, masked, scaled](const Image::Pair& p) {
      if (p.y / 3 != p.to_y / 3 || p.x / 3 != p.to_x / 3) return kHidden;
      if (masked && (p.to_y >= image.height || p.to_x >= image.width)) return kHidden;
      return (image.dot_with(p, rows, p.y - p.to_y + 2) +
              image.dot_with(p, columns, p.x - p.to_x + 2)) *
             (scaled ? 0.5 : 1);
    });
  };
  const std::string params = R"("h":5,"w":7,"window":3,"scale":0.5,"padded":[6,9],)" + kImage;
  const Inputs inputs{{"qkv", image.qkv}, {"rel_pos_h", rows}, {"rel_pos_w", columns}};
  EXPECT_EQ(with("sam_relpos", params, inputs, rule(false, false)).outcome.verdict(),
            Verdict::kPass)
      << judge().outcome.reason;
  EXPECT_EQ(with("sam_relpos", params, inputs, rule(true, false)).outcome.code,
            ReasonCode::kErrorReference);
  EXPECT_EQ(with("sam_relpos", params, inputs, rule(false, true)).outcome.code,
            ReasonCode::kErrorReference);
  EXPECT_THAT(with("sam_relpos", R"("h":5,"w":7,"window":3,"scale":0.5,"padded":[6,12],)" + kImage,
                   inputs, image.qkv)
                  .outcome.reason,
              HasSubstr("padded to [6,12] where whole windows are [6,9]"));
}

TEST_F(WindowVectors, SamSeesAllOfAnImage) {
  const Image image{3, 4, 0};
  const Array rows({5, 4}, 9), columns({7, 4}, 10);
  const auto rule = [&](int64_t sign) {
    return image.attend([&, sign](const Image::Pair& p) {
      return image.dot_with(p, rows, sign * (p.y - p.to_y) + 2) +
             image.dot_with(p, columns, sign * (p.x - p.to_x) + 3);
    });
  };
  const Inputs inputs{{"qkv", image.qkv}, {"rel_pos_h", rows}, {"rel_pos_w", columns}};
  const std::string params = R"("h":3,"w":4,"window":0,"scale":0.5,)" + kImage;
  EXPECT_EQ(with("sam_relpos", params, inputs, rule(1)).outcome.verdict(), Verdict::kPass)
      << judge().outcome.reason;
  EXPECT_EQ(with("sam_relpos", params, inputs, rule(-1)).outcome.code, ReasonCode::kErrorReference);
}

}  // namespace
}  // namespace attest::core
