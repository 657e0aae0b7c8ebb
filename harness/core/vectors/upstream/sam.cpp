// SAM's attention over an image or over windows of it. What is beyond the image is zeros that
// attend and are attended; the terms of relative positions, of rows and of columns, become a bias.
#include <fmt/format.h>

#include <limits>
#include <vector>

#include "core/operations/softmax/softmax.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/upstream/packed_qkv.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

/// An image cut into windows; beyond its edges there are zeros, which attend and are attended.
struct Cut {
  int64_t batch, height, width;         // of the image
  int64_t window_height, window_width;  // of a window
  int64_t windows_down, windows_across;
  int64_t tokens() const { return window_height * window_width; }
  int64_t windows() const { return batch * windows_down * windows_across; }
  /// Which pixels of all images stand in the windows, window after window; -1: none.
  std::vector<int64_t> pixels() const {
    std::vector<int64_t> found;
    for (int64_t window = 0; window < windows(); ++window)
      for (int64_t token = 0; token < tokens(); ++token) found.push_back(pixel(window, token));
    return found;
  }

 private:
  int64_t pixel(int64_t window, int64_t token) const {
    const int64_t across = window % windows_across, down = window / windows_across % windows_down,
                  image = window / (windows_across * windows_down);
    const int64_t y = down * window_height + token / window_width,
                  x = across * window_width + token % window_width;
    return y < height && x < width ? (image * height + y) * width + x : -1;
  }
};

Cut cut_of(UpstreamCase& from, const FileTensor& qkv) {
  JsonFields& params = from.params();
  const int64_t height = pixels(params, "h", 1), width = pixels(params, "w", 1),
                window = pixels(params, "window", 0);
  expect_dims(qkv, {-1, height, width, -1}, "qkv");
  Cut cut{qkv.dims[0], height, width, window, window, 1, 1};
  if (window == 0) {
    cut.window_height = height;
    cut.window_width = width;
  } else {
    cut.windows_down = (height + window - 1) / window;
    cut.windows_across = (width + window - 1) / window;
  }
  const json padded{cut.windows_down * cut.window_height, cut.windows_across * cut.window_width};
  if (params.has("padded") && params.any("padded") != padded)
    throw Unsupported{fmt::format("sam_relpos: padded to {} where whole windows are {}",
                                  params.any("padded").dump(), padded.dump())};
  return cut;
}

/// q_i . R_h[y_i - y_j] + q_i . R_w[x_i - x_j], of q before scaling.
void give_decomposed_bias(UpstreamCase& from, TestVector& vector, const Cut& cut,
                          const FileTensor& q) {
  const int64_t heads = q.dims[1], channels = q.dims[3], tokens = cut.tokens();
  const FileTensor &rows = from.needed("rel_pos_h"), &columns = from.needed("rel_pos_w");
  expect_dims(rows, {2 * cut.window_height - 1, channels}, "rel_pos_h");
  expect_dims(columns, {2 * cut.window_width - 1, channels}, "rel_pos_w");
  FileTensor& bias = make_file(vector, "bias", ATTEST_F64, {cut.windows(), heads, tokens, tokens});
  std::vector<double> by_row(static_cast<size_t>(cut.window_height)),
      by_column(static_cast<size_t>(cut.window_width));
  int64_t at = 0;
  for (int64_t row = 0; row < cut.windows() * heads * tokens; ++row) {
    const int64_t i = row % tokens, y = i / cut.window_width, x = i % cut.window_width;
    const auto dot = [&](const FileTensor& table, int64_t offset) {
      double sum = 0;
      for (int64_t d = 0; d < channels; ++d)
        sum += q.at(row * channels + d) * table.at(offset * channels + d);
      return sum;
    };
    for (int64_t j = 0; j < cut.window_height; ++j)
      by_row[size_t(j)] = dot(rows, y - j + cut.window_height - 1);
    for (int64_t j = 0; j < cut.window_width; ++j)
      by_column[size_t(j)] = dot(columns, x - j + cut.window_width - 1);
    for (int64_t j = 0; j < tokens; ++j)
      store(bias.bytes.data(), ATTEST_F64, at++,
            by_row[size_t(j / cut.window_width)] + by_column[size_t(j % cut.window_width)]);
  }
  give(vector, ATTEST_BIAS, view(bias, dense_axes(bias.dims)), vector.problem->dtype);
}

}  // namespace

void map_sam(UpstreamCase& from, TestVector& vector) {
  from.demand("qkv_layout", "(1,h,w,[q|k|v][head][d])");
  const FileTensor &qkv = from.needed("qkv"), &y = from.output();
  const Cut cut = cut_of(from, qkv);
  const PackedQkv x = packed_qkv(from, qkv, cut.batch, cut.height * cut.width);
  const int64_t model = x.heads * x.channels;
  expect_dims(y, {cut.batch, cut.height, cut.width, model}, "Y");
  const std::vector<int64_t> pixels = cut.pixels();
  const FileTensor* parts[3];
  for (int64_t part = 0; part < 3; ++part)
    parts[part] =
        &gather_sets(vector, "qkv", x, qkv, 3 * model, part * model, pixels, cut.tokens(), 0);
  const double unsaid =
      std::numeric_limits<double>::quiet_NaN();  // Y has no rows for what was padded
  const FileTensor& expected =
      gather_sets(vector, "Y", x, y, model, 0, pixels, cut.tokens(), unsaid);
  const auto all = [](const FileTensor& file) { return view(file, dense_axes(file.dims)); };
  give_qkvo<attest_softmax_params>(vector, softmax_operation(), all(*parts[0]), all(*parts[1]),
                                   all(*parts[2]), all(expected));
  vector.outputs.back().partial = cut.windows() * cut.tokens() > cut.batch * cut.height * cut.width;
  set_scale(vector, from.params().real("scale"));
  give_decomposed_bias(from, vector, cut, *parts[0]);
}

}  // namespace attest::core
