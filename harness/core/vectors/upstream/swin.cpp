// Swin's windows, of both versions, in the two forms that they are stored in: windows as batch,
// where relative positions and the mask between regions become a bias; or the image, which is the
// grid of a softmax problem.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/operations/softmax/softmax.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/upstream/packed_qkv.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

attest_softmax_params& give_packed(UpstreamCase& from, TestVector& vector, const PackedQkv& x) {
  auto& p =
      give_qkvo<attest_softmax_params>(vector, softmax_operation(), part_of(x, 0), part_of(x, 1),
                                       part_of(x, 2), output_of(x, from.output()));
  return p;
}

/// [height, width] of a parameter that is one number or two.
std::pair<int64_t, int64_t> sides(JsonFields& params, const char* key) {
  const json& given = params.any(key);
  const bool pair = given.is_array() && given.size() == 2 && given[0].is_number_integer() &&
                    given[1].is_number_integer();
  if (!pair && !given.is_number_integer())
    throw Error(fmt::format("{}: {}: must be a whole number or two", params.where(), key));
  const int64_t height = pair ? given[0].get<int64_t>() : given.get<int64_t>(),
                width = pair ? given[1].get<int64_t>() : height;
  if (std::min(height, width) < 1 || std::max(height, width) > kLongestSide)
    throw Error(fmt::format("{}: {}: {} x {} where 1 to {} is right", params.where(), key, height,
                            width, kLongestSide));
  return {height, width};
}

/// Row of the table for a query and a key of one window: by their offset, rows first.
int64_t table_row(int64_t window, int64_t query, int64_t key) {
  const int64_t dy = query / window - key / window + window - 1,
                dx = query % window - key % window + window - 1;
  return dy * (2 * window - 1) + dx;
}

/// The table's values, 16 sigmoid of them in version 2; the index of the model is only checked: it
/// holds what table_row says.
std::vector<double> bias_table(UpstreamCase& from, int64_t window, int64_t heads, bool version_2) {
  const FileTensor& table = from.needed("rel_pos_bias_table");
  expect_dims(table, {(2 * window - 1) * (2 * window - 1), heads}, "rel_pos_bias_table");
  if (const FileTensor* index = from.input("rel_pos_index")) {
    const int64_t tokens = window * window;
    expect_dims(*index, {tokens, tokens}, "rel_pos_index");
    for (int64_t pair = 0; pair < tokens * tokens; ++pair)
      if (index->at(pair) != double(table_row(window, pair / tokens, pair % tokens)))
        throw Unsupported{"swin_window: a rel_pos_index that does not go by rows and columns"};
  }
  std::vector<double> values(static_cast<size_t>(table.count()));
  for (int64_t i = 0; i < table.count(); ++i)
    values[size_t(i)] = version_2 ? 16 / (1 + std::exp(-table.at(i))) : table.at(i);
  return values;
}

/// What separates the regions that rolling brought into one window: [windows, tokens, tokens], or
/// nothing.
class RegionMask {
 public:
  RegionMask(UpstreamCase& from, int64_t window, int64_t outer)
      : window_(window), tokens_(window * window) {
    JsonFields& params = from.params();
    mask_ = from.input("attn_mask");
    shift_ = params.whole("shift", 0);
    value_ = params.real("mask_value", -100);
    if (shift_ < 0 || shift_ >= window)
      throw Error(fmt::format("{}: shift: {}", params.where(), shift_));
    if (mask_ || shift_ == 0) params.skip("res");
    if (mask_) {
      expect_dims(*mask_, {-1, tokens_, tokens_}, "attn_mask");
      windows_ = mask_->dims[0];
    } else if (shift_ > 0) {
      std::tie(height_, width_) = sides(params, "res");
      if (height_ % window != 0 || width_ % window != 0)
        throw Unsupported{
            fmt::format("swin_window: {} x {} is no multiple of the window", height_, width_)};
      windows_ = height_ / window * (width_ / window);
    }
    if (windows_ < 1 || outer % windows_ != 0)
      throw Error(
          fmt::format("attn_mask: {} windows where a divisor of {} is right", windows_, outer));
  }
  bool any() const { return mask_ || shift_ > 0; }
  double at(int64_t outer, int64_t query, int64_t key) const {
    const int64_t w = outer % windows_;
    if (mask_) return mask_->at((w * tokens_ + query) * tokens_ + key);
    return shift_ > 0 && region(w, query) != region(w, key) ? value_ : 0;
  }

 private:
  /// The last `shift` rows and columns of the rolled image came round its edges.
  int region(int64_t w, int64_t token) const {
    const int64_t across = width_ / window_, y = w / across * window_ + token / window_,
                  x = w % across * window_ + token % window_;
    return (y >= height_ - shift_ ? 2 : 0) + (x >= width_ - shift_ ? 1 : 0);
  }

  const int64_t window_, tokens_;
  const FileTensor* mask_ = nullptr;
  int64_t windows_ = 1, shift_ = 0, height_ = 0, width_ = 0;
  double value_ = 0;
};

/// Version 2: q and k of length 1, times exp(min(logit_scale, ln 100)) of the head; q . k is the
/// score then.
void give_cosines(UpstreamCase& from, TestVector& vector, const PackedQkv& x) {
  const FileTensor& logit_scale = from.needed("logit_scale");
  if (logit_scale.count() != x.heads)
    throw Error(fmt::format("logit_scale: dims {} where {} numbers are right",
                            print_dims(logit_scale.dims), x.heads));
  for (const int64_t part : {int64_t(0), int64_t(1)}) {
    const Tensor given = part_of(x, part);
    FileTensor& unit = make_file(vector, part == 0 ? "q" : "k", ATTEST_F64,
                                 {x.outer, x.heads, x.tokens, x.channels});
    for (int64_t row = 0; row < x.outer * x.heads * x.tokens; ++row) {
      const int64_t head = row / x.tokens % x.heads;
      double square = 0;
      const auto at = [&](int64_t d) {
        return given.at({row / (x.tokens * x.heads), head, row % x.tokens, d});
      };
      for (int64_t d = 0; d < x.channels; ++d) square += at(d) * at(d);
      const double length = std::max(std::sqrt(square), 1e-12),
                   factor =
                       part == 0 ? std::exp(std::min(logit_scale.at(head), std::log(100.0))) : 1;
      for (int64_t d = 0; d < x.channels; ++d)
        store(unit.bytes.data(), ATTEST_F64, row * x.channels + d, at(d) / length * factor);
    }
    give(vector, part == 0 ? ATTEST_Q : ATTEST_K, view(unit, dense_axes(unit.dims)), x.qkv->dtype);
  }
  set_scale(vector, 1);
}

/// Windows as batch: the relative position bias and the mask between regions together are the bias.
void map_window_batch(UpstreamCase& from, TestVector& vector, int64_t window, bool version_2) {
  const FileTensor& qkv = from.needed("qkv");
  expect_dims(qkv, {-1, window * window, -1}, "qkv");
  const PackedQkv x = packed_qkv(from, qkv, qkv.dims[0], window * window);
  give_packed(from, vector, x);
  if (version_2)
    give_cosines(from, vector, x);
  else
    set_scale(vector, from.params().real("scale"));
  const std::vector<double> table = bias_table(from, window, x.heads, version_2);
  const RegionMask mask(from, window, x.outer);
  FileTensor& bias = make_file(vector, "bias", ATTEST_F64,
                               {mask.any() ? x.outer : 1, x.heads, x.tokens, x.tokens});
  int64_t at = 0;
  for (int64_t w = 0; w < bias.dims[0]; ++w)
    for (int64_t h = 0; h < x.heads; ++h)
      for (int64_t i = 0; i < x.tokens; ++i)
        for (int64_t j = 0; j < x.tokens; ++j)
          store(bias.bytes.data(), ATTEST_F64, at++,
                table[size_t(table_row(window, i, j) * x.heads + h)] + mask.at(w, i, j));
  give(vector, ATTEST_BIAS, view(bias, dense_axes(bias.dims)), vector.problem->dtype);
}

/// The image: the grid of attest.h, which implementations cut themselves.
void map_window_grid(UpstreamCase& from, TestVector& vector, int64_t window, bool version_2) {
  JsonFields& params = from.params();
  const FileTensor& qkv = from.needed("qkv");
  expect_dims(qkv, {-1, -1, -1, -1}, "qkv");
  const int64_t height = qkv.dims[1], width = qkv.dims[2], shift = params.whole("shift", 0);
  params.skip("res");
  if (height % window != 0 || width % window != 0)
    throw Unsupported{
        fmt::format("swin_window: {} x {} is no multiple of the window", height, width)};
  const PackedQkv x = packed_qkv(from, qkv, qkv.dims[0], height * width);
  auto& p = give_packed(from, vector, x);
  if (version_2)
    give_cosines(from, vector, x);
  else
    set_scale(vector, params.real("scale"));
  p.grid_height = height;
  p.grid_width = width;
  p.window_height = p.window_width = window;
  p.shift_y = p.shift_x = shift;
  const double between = params.real("mask_value", -100);
  if (shift > 0) p.shift_bias = float(between);
  const std::vector<double> table = bias_table(from, window, x.heads, version_2);
  FileTensor& bias =
      make_file(vector, "rel_bias", ATTEST_F64, {x.heads, 2 * window - 1, 2 * window - 1});
  for (int64_t h = 0, offsets = bias.count() / x.heads; h < x.heads; ++h)
    for (int64_t at = 0; at < offsets; ++at)
      store(bias.bytes.data(), ATTEST_F64, h * offsets + at, table[size_t(at * x.heads + h)]);
  give(vector, ATTEST_REL_BIAS, view(bias, dense_axes(bias.dims)), vector.problem->dtype);
}

}  // namespace

void map_swin(UpstreamCase& from, TestVector& vector) {
  const bool version_2 = from.op() == "swinv2_window";
  const int64_t window = pixels(from.params(), "window", 1);
  const std::string batch = "(nW, N, [q|k|v][head][d])", image = "(1,h,w,[q|k|v][head][d])",
                    layout = from.params().text("qkv_layout", batch);
  if (layout == batch) return map_window_batch(from, vector, window, version_2);
  if (layout == image) return map_window_grid(from, vector, window, version_2);
  throw Unsupported{fmt::format("{}: qkv_layout {}", from.op(), in_quotes(layout))};
}

}  // namespace attest::core
