// Multi-scale deformable attention (Deformable DETR, BEVFormer): every query reads a few points of
// every level, bilinearly, zero outside, and weighs them.
#include "core/operations/deformable/deformable.hpp"

#include <fmt/format.h>

#include <iterator>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/upstream/upstream_case.hpp"

namespace attest::core {
namespace {

/// Sets the levels that the parameter lists. Their pixels are all `tokens` of `value`.
void set_levels(JsonFields& params, int64_t tokens, attest_deformable_params& p) {
  const nlohmann::json& shapes = params.any("shapes_hw");
  if (shapes.size() > std::size(p.level_height))
    throw Unsupported{fmt::format("ms_deform_attn: {} levels", shapes.size())};
  int64_t pixels = 0;
  for (const nlohmann::json& shape : shapes) {
    if (!shape.is_array() || shape.size() != 2 || !shape[0].is_number_integer() ||
        !shape[1].is_number_integer())
      throw Error(fmt::format("{}: shapes_hw: must be a list of [height, width]", params.where()));
    const auto height = shape[0].get<int64_t>(), width = shape[1].get<int64_t>();
    if (height < 1 || width < 1 || height > tokens || width > tokens ||
        pixels + height * width > tokens)
      throw Error(fmt::format("{}: shapes_hw: {} x {} where value has {} pixels in all",
                              params.where(), height, width, tokens));
    p.level_height[p.num_levels] = int32_t(height);
    p.level_width[p.num_levels++] = int32_t(width);
    pixels += height * width;
  }
  if (pixels != tokens)
    throw Error(
        fmt::format("{}: shapes_hw: {} pixels where value has {}", params.where(), pixels, tokens));
}

/// A view of a tensor [batch, tokens, heads, ...] with heads before tokens.
Tensor heads_before_tokens(const FileTensor& file) {
  Axes axes = dense_axes(file.dims);
  std::swap(axes.dims[1], axes.dims[2]);
  std::swap(axes.strides[1], axes.strides[2]);
  return view(file, axes);
}

/// A view of Y [batch, queries, heads * channels] as [batch, heads, queries, channels].
Tensor split_heads(const FileTensor& y, int64_t heads, int64_t channels) {
  const int64_t queries = y.dims[1], model = heads * channels;
  return view(y, {.dims = {y.dims[0], heads, queries, channels},
                  .strides = {queries * model, channels, model, 1}});
}

}  // namespace

void map_deformable(UpstreamCase& from, TestVector& vector) {
  JsonFields& params = from.params();
  from.demand("layout", "value (N,S,M,D), loc (N,Lq,M,L,P,[x,y]) in [0,1], weights (N,Lq,M,L,P)");
  from.demand("padding", "zeros");
  const FileTensor &value = usable(from.needed("value"), "the vector"),
                   &locations = usable(from.needed("sampling_locations"), "the vector"),
                   &weights = usable(from.needed("attention_weights"), "the vector"),
                   &y = from.output();
  auto& p =
      start_problem(vector, deformable_operation(), value.dtype).as<attest_deformable_params>();
  expect_dims(value, {-1, -1, -1, -1}, "value");
  p.batch = value.dims[0];
  p.num_heads = value.dims[2];
  p.head_dim_v = value.dims[3];
  p.align_corners = params.truth("align_corners", false);
  set_levels(params, value.dims[1], p);
  expect_dims(weights, {p.batch, -1, p.num_heads, p.num_levels, -1}, "attention_weights");
  p.seq_len_q = weights.dims[1];
  p.num_points = weights.dims[4];
  expect_dims(locations, {p.batch, p.seq_len_q, p.num_heads, p.num_levels, p.num_points, 2},
              "sampling_locations");
  expect_dims(y, {p.batch, p.seq_len_q, p.num_heads * p.head_dim_v}, "Y");
  if (params.whole("heads", p.num_heads) != p.num_heads ||
      params.whole("points", p.num_points) != p.num_points)
    throw Error(fmt::format("{}: heads, points: not those of the tensors, {} and {}",
                            params.where(), p.num_heads, p.num_points));
  give(vector, ATTEST_V, heads_before_tokens(value));
  give(vector, ATTEST_LOCATIONS, heads_before_tokens(locations));
  give(vector, ATTEST_WEIGHTS, heads_before_tokens(weights));
  expect_role(vector, ATTEST_O, "Y", split_heads(y, p.num_heads, p.head_dim_v), value.dtype);
}

}  // namespace attest::core
