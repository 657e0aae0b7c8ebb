#include "core/operations/deformable/sampling.hpp"

#include <algorithm>
#include <cmath>

namespace attest::core::deformable {

std::vector<Level> levels_of(const Params& params) {
  std::vector<Level> levels;
  int64_t first = 0;
  for (int l = 0; l < params.num_levels; ++l) {
    levels.push_back({params.level_height[l], params.level_width[l], first});
    first += levels.back().height * levels.back().width;
  }
  return levels;
}

int64_t token_count(const Params& params) {
  int64_t tokens = 0;
  for (int l = 0; l < params.num_levels; ++l)
    tokens += int64_t{params.level_height[l]} * params.level_width[l];
  return tokens;
}

Points::Points(const Problem& problem, const Tensors& tensors)
    : params_(problem.as<Params>()),
      levels_(levels_of(params_)),
      locations_(tensors[ATTEST_LOCATIONS]),
      weights_(tensors[ATTEST_WEIGHTS]) {}

void Points::read(int64_t b, int64_t h, int64_t i, std::vector<Point>& points,
                  double margin) const {
  points.clear();
  const auto &at = locations_.spec.stride, &weight_at = weights_.spec.stride;
  const int64_t first = b * at[0] + h * at[1] + i * at[2],
                first_weight = b * weight_at[0] + h * weight_at[1] + i * weight_at[2];
  for (int64_t level = 0; level < params_.num_levels; ++level)
    for (int64_t number = 0; number < params_.num_points; ++number) {
      const int64_t place = first + level * at[3] + number * at[4];
      Point point{.level = level,
                  .number = number,
                  .location_x = load(locations_.data, locations_.spec.dtype, place),
                  .location_y = load(locations_.data, locations_.spec.dtype, place + at[5])};
      const Level& size = levels_[size_t(level)];
      point.x = coordinate(params_, point.location_x, size.width);
      point.y = coordinate(params_, point.location_y, size.height);
      point.inside = is_inside(point.x, size.width) && is_inside(point.y, size.height);
      if (!is_inside(point.x, size.width, margin) || !is_inside(point.y, size.height, margin))
        continue;
      point.weight = load(weights_.data, weights_.spec.dtype,
                          first_weight + level * weight_at[3] + number * weight_at[4]);
      if (point.inside || std::isfinite(point.weight)) points.push_back(point);
    }
}

Pixels::Pixels(const Problem& problem, const Tensors& tensors)
    : v_(tensors[ATTEST_V]), channels_(problem.as<Params>().head_dim_v) {}

void Pixels::read(int64_t b, int64_t h, const Level& level, int64_t y, int64_t x,
                  double* values) const {
  if (y < 0 || y >= level.height || x < 0 || x >= level.width) {
    std::fill_n(values, channels_, 0.0);
    return;
  }
  const auto& stride = v_.spec.stride;
  const int64_t token = level.first + y * level.width + x;
  load_row(v_.data, v_.spec.dtype, b * stride[0] + h * stride[1] + token * stride[2], channels_,
           stride[3], values);
}

}  // namespace attest::core::deformable
