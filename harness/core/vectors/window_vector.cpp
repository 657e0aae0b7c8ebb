// Attention in windows of an image, as Swin and SAM have it: biases of relative positions become the bias of a softmax problem.
#include <fmt/format.h>

#include <vector>

#include "core/operations/softmax/softmax.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/upstream_case.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

/// Q, K or V (part 0, 1, 2) of [outer, tokens, q|k|v, head, channel].
Tensor part_of(const FileTensor& qkv, int64_t outer, int64_t tokens, int64_t heads, int64_t part) {
  const int64_t width = qkv.count() / (outer * tokens), channels = width / 3 / heads;
  if (width != 3 * heads * channels) throw Error(fmt::format("qkv: {} channels are no 3 * {} heads", width, heads));
  return view(qkv, {.dims = {outer, heads, tokens, channels},
                    .strides = {tokens * width, channels, width, 1},
                    .offset = part * heads * channels});
}

attest_softmax_params& give_packed(UpstreamCase& from, VectorCase& vector, int64_t outer, int64_t tokens) {
  const int64_t heads = from.params().whole("heads");
  const FileTensor &qkv = from.needed("qkv"), &y = from.output();
  if (heads < 1 || heads > 65536) throw Error(fmt::format("{}: heads: {}", from.params().where(), heads));
  const Tensor q = part_of(qkv, outer, tokens, heads, 0), k = part_of(qkv, outer, tokens, heads, 1),
               v = part_of(qkv, outer, tokens, heads, 2);
  const int64_t channels = q.spec.dim[3];
  if (y.count() * 3 != qkv.count())
    throw Error(fmt::format("Y: dims {} do not fit qkv {}", print_dims(y.dims), print_dims(qkv.dims)));
  const Tensor out = view(y, {.dims = {outer, heads, tokens, channels},
                              .strides = {tokens * heads * channels, channels, heads * channels, 1},
                              .offset = 0});
  auto& p = give_qkvo<attest_softmax_params>(vector, softmax_operation(), q, k, v, out);
  set_scale(vector, from.params().real("scale"));
  return p;
}

}  // namespace

// Windows as batch: the relative position bias and the mask between regions together are the bias.
void map_swin(UpstreamCase& from, VectorCase& vector) {
  JsonFields& params = from.params();
  from.demand("qkv_layout", "(nW, N, [q|k|v][head][d])");
  for (const char* key : {"shift", "res", "mask_value"}) params.skip(key);  // in the tensors already
  const int64_t window = params.whole("window"), tokens = window * window;
  if (window < 1 || window > 1024) throw Error(fmt::format("{}: window: {}", params.where(), window));
  const FileTensor &table = from.needed("rel_pos_bias_table"), &index = from.needed("rel_pos_index");
  const FileTensor* mask = from.input("attn_mask");
  const int64_t outer = table.dims.empty() ? 0 : vector.files.front().dims.at(0);
  auto& p = give_packed(from, vector, outer, tokens);
  expect_dims(table, {(2 * window - 1) * (2 * window - 1), p.num_heads}, "rel_pos_bias_table");
  expect_dims(index, {tokens, tokens}, "rel_pos_index");
  if (mask) expect_dims(*mask, {-1, tokens, tokens}, "attn_mask");
  if (mask && (mask->dims[0] < 1 || outer % mask->dims[0] != 0))
    throw Error(fmt::format("attn_mask: {} windows where a divisor of {} is right", mask->dims[0], outer));
  const int64_t windows = mask ? mask->dims[0] : 1, repeated = mask ? outer : 1;
  FileTensor& bias = make_file(vector, "bias", ATTEST_F64, {repeated, p.num_heads, tokens, tokens});
  int64_t at = 0;
  for (int64_t w = 0; w < repeated; ++w)
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t pair = 0; pair < tokens * tokens; ++pair) {
        const double row = index.at(pair);
        if (!(row >= 0 && row < double(table.dims[0])))
          throw Error(fmt::format("rel_pos_index: {} where 0 to {} is right", row, table.dims[0] - 1));
        const double region = mask ? mask->at(w % windows * tokens * tokens + pair) : 0;
        store(bias.bytes.data(), ATTEST_F64, at++, table.at(int64_t(row) * p.num_heads + h) + region);
      }
  give(vector, ATTEST_BIAS, view(bias, dense_axes(bias.dims)), vector.problem->dtype);
}

// Global attention with decomposed relative positions of the query before scaling: they are a bias.
void map_sam(UpstreamCase& from, VectorCase& vector) {
  JsonFields& params = from.params();
  from.demand("qkv_layout", "(1,h,w,[q|k|v][head][d])");
  const int64_t height = params.whole("h"), width = params.whole("w");
  if (height < 1 || width < 1 || height > 4096 || width > 4096)
    throw Error(fmt::format("{}: h, w: {}, {}", params.where(), height, width));
  if (params.whole("window") != 0 || params.any("padded") != json{height, width})
    throw Unsupported{"sam_relpos: windows with padding"};
  auto& p = give_packed(from, vector, 1, height * width);
  const FileTensor &rows = from.needed("rel_pos_h"), &columns = from.needed("rel_pos_w");
  expect_dims(rows, {2 * height - 1, p.head_dim}, "rel_pos_h");
  expect_dims(columns, {2 * width - 1, p.head_dim}, "rel_pos_w");
  const Tensor& q = vector.given[ATTEST_Q];
  const int64_t tokens = height * width;
  FileTensor& bias = make_file(vector, "bias", ATTEST_F64, {1, p.num_heads, tokens, tokens});
  auto dot = [&](int64_t h, int64_t i, const FileTensor& table, int64_t row) {
    double sum = 0;
    for (int64_t d = 0; d < p.head_dim; ++d) sum += q.at({0, h, i, d}) * table.at(row * p.head_dim + d);
    return sum;
  };
  std::vector<double> by_row(static_cast<size_t>(height)), by_column(static_cast<size_t>(width));
  int64_t at = 0;
  for (int64_t h = 0; h < p.num_heads; ++h)
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t y = 0; y < height; ++y) by_row[size_t(y)] = dot(h, i, rows, i / width - y + height - 1);
      for (int64_t x = 0; x < width; ++x) by_column[size_t(x)] = dot(h, i, columns, i % width - x + width - 1);
      for (int64_t j = 0; j < tokens; ++j)
        store(bias.bytes.data(), ATTEST_F64, at++, by_row[size_t(j / width)] + by_column[size_t(j % width)]);
    }
  give(vector, ATTEST_BIAS, view(bias, dense_axes(bias.dims)), vector.problem->dtype);
}

}  // namespace attest::core
