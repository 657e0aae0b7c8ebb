// Multi-scale deformable attention (Deformable DETR, BEVFormer): every query reads a few points of
// every level, bilinearly, zero outside, and weighs them. The reference computes it alone.
#include <fmt/format.h>

#include <cmath>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/upstream/upstream_case.hpp"

namespace attest::core {
namespace {

struct Level {
  int64_t height, width, first;  // pixel (y, x) is token first + y * width + x
};

/// Levels as the parameter lists them; their pixels are all tokens of `value`.
std::vector<Level> levels_of(JsonFields& params, int64_t tokens) {
  const nlohmann::json& shapes = params.any("shapes_hw");
  std::vector<Level> levels;
  int64_t first = 0;
  for (const nlohmann::json& shape : shapes) {
    if (!shape.is_array() || shape.size() != 2 || !shape[0].is_number_integer() ||
        !shape[1].is_number_integer())
      throw Error(fmt::format("{}: shapes_hw: must be a list of [height, width]", params.where()));
    const auto height = shape[0].get<int64_t>(), width = shape[1].get<int64_t>();
    if (height < 1 || width < 1 || height > tokens || width > tokens ||
        first + height * width > tokens)
      throw Error(fmt::format("{}: shapes_hw: {} x {} where value has {} pixels in all",
                              params.where(), height, width, tokens));
    levels.push_back({height, width, first});
    first += height * width;
  }
  if (first != tokens)
    throw Error(
        fmt::format("{}: shapes_hw: {} pixels where value has {}", params.where(), first, tokens));
  return levels;
}

class Sampler {
 public:
  /// value [batch, tokens, heads, channels]
  Sampler(const FileTensor& value, std::vector<Level> levels)
      : value_(value), levels_(std::move(levels)) {}

  int64_t levels() const { return int64_t(levels_.size()); }
  /// Adds weight times what lies at (x, y), both 0 to 1 from edge to edge of the level, to `sum` of
  /// all channels.
  void add(int64_t b, int64_t head, int64_t level, double x, double y, double weight,
           double* sum) const {
    const Level& at = levels_[size_t(level)];
    const double column = x * double(at.width) - 0.5, row = y * double(at.height) - 0.5;
    for (const double r : {std::floor(row), std::floor(row) + 1})
      for (const double c : {std::floor(column), std::floor(column) + 1}) {
        if (!(r >= 0 && r < double(at.height) && c >= 0 && c < double(at.width))) continue;
        const double share = weight * (1 - std::fabs(row - r)) * (1 - std::fabs(column - c));
        add_pixel(b, head, at.first + int64_t(r) * at.width + int64_t(c), share, sum);
      }
  }

 private:
  void add_pixel(int64_t b, int64_t head, int64_t token, double share, double* sum) const {
    const int64_t channels = value_.dims[3],
                  first = ((b * value_.dims[1] + token) * value_.dims[2] + head) * channels;
    for (int64_t d = 0; d < channels; ++d) sum[d] += share * value_.at(first + d);
  }

  const FileTensor& value_;
  const std::vector<Level> levels_;
};

}  // namespace

void map_deformable(UpstreamCase& from, TestVector& vector) {
  JsonFields& params = from.params();
  from.demand("layout", "value (N,S,M,D), loc (N,Lq,M,L,P,[x,y]) in [0,1], weights (N,Lq,M,L,P)");
  from.demand("padding", "zeros");
  if (params.truth("align_corners", false)) throw Unsupported{"ms_deform_attn: align_corners"};
  const FileTensor &value = usable(from.needed("value"), "the vector"),
                   &locations = usable(from.needed("sampling_locations"), "the vector"),
                   &weights = usable(from.needed("attention_weights"), "the vector");
  expect_dims(value, {-1, -1, -1, -1}, "value");
  const int64_t batch = value.dims[0], heads = value.dims[2], channels = value.dims[3];
  const Sampler sampler(value, levels_of(params, value.dims[1]));
  expect_dims(weights, {batch, -1, heads, sampler.levels(), -1}, "attention_weights");
  const int64_t queries = weights.dims[1], points = weights.dims[4];
  expect_dims(locations, {batch, queries, heads, sampler.levels(), points, 2},
              "sampling_locations");
  if (params.whole("heads", heads) != heads || params.whole("points", points) != points)
    throw Error(fmt::format("{}: heads, points: not those of the tensors, {} and {}",
                            params.where(), heads, points));
  const FileTensor& y = from.output();
  expect_dims(y, {batch, queries, heads * channels}, "Y");
  std::vector<double> sums(size_t(y.count()));
  for (int64_t at = 0, end = weights.count(); at < end; ++at) {
    const int64_t level = at / points % sampler.levels(),
                  row = at / (points * sampler.levels());  // [batch, queries, heads]
    sampler.add(row / (queries * heads), row % heads, level, locations.at(2 * at),
                locations.at(2 * at + 1), weights.at(at), sums.data() + row * channels);
  }
  vector.operation = "deformable";
  vector.dtype = dtype_name(value.dtype);
  expect_values(vector, "Y", y, std::move(sums));
}

}  // namespace attest::core
