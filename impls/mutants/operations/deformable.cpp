// Deformable attention point by point, right or with one mutation.
#include <algorithm>
#include <cmath>

#include "mutants/operations/load.hpp"
#include "mutants/operations/plan.hpp"
#include "mutants/operations/tiles.hpp"

namespace mutants {
namespace {

constexpr int64_t kTail = 16;
constexpr float kSmallWeight = 0x1p-12f, kMostValue = 256;

/// Where a point lies along one axis: pixels `first` and first + 1, whose shares are 1 - share and
/// share.
struct Place {
  int64_t first;
  float share;
};

template <class T>
class DeformableKernel {
 public:
  DeformableKernel(Mutation mutation, const attest_problem& problem, void* const* data)
      : a_(problem, data),
        mutation_(mutation),
        threads_(problem.threads),
        channels_(a_.p.head_dim_v) {
    if (is(Mutation::kDeformableChannelTail) && channels_ >= kTail)
      channels_ = channels_ / kTail * kTail;
  }

  void run(void* workspace) const {
    const attest_deformable_params& p = a_.p;
    // A row of sums for each query: no thread shares one with another.
    auto* rows = static_cast<float*>(workspace);
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int64_t row = 0; row < p.batch * p.num_heads * p.seq_len_q; ++row) {
      const int64_t i = row % p.seq_len_q, h = row / p.seq_len_q % p.num_heads,
                    b = row / p.seq_len_q / p.num_heads;
      float* sum = rows + row * p.head_dim_v;
      std::fill_n(sum, p.head_dim_v, 0.0f);
      for (int64_t level = 0; level < p.num_levels; ++level)
        for (int64_t point = 0; point < p.num_points; ++point)
          add_point(b, h, i, level, point, sum);
      for (int64_t d = 0; d < p.head_dim_v; ++d) a_.o(b, h, i, d) = sum[d];
    }
  }

 private:
  bool is(Mutation mutation) const { return mutation_ == mutation; }

  float coordinate(float location, int32_t size) const {
    if (is(Mutation::kDeformableLocationF16)) location = rounded(location, 11);
    if (is(Mutation::kDeformableNanLocation) && std::isnan(location)) location = 0;
    const bool aligned = (a_.p.align_corners != 0) != is(Mutation::kDeformableOtherCorners) &&
                         !(is(Mutation::kDeformableOnePixel) && size == 1);
    const auto pixels = static_cast<float>(size);
    if (aligned) return location * (pixels - 1);
    return location * pixels - (is(Mutation::kDeformableNoHalfPixel) ? 0.0f : 0.5f);
  }

  Place place(float coordinate) const {
    float below = std::floor(coordinate);
    if (is(Mutation::kDeformableTruncated)) below = std::trunc(coordinate);
    if (!is(Mutation::kDeformableWrap32)) return {static_cast<int64_t>(below), coordinate - below};
    // As the conversion to 64 bits does on x86, whose lower half is kept.
    const bool fits = std::fabs(below) < 0x1p63f;
    return {fits ? static_cast<int32_t>(static_cast<int64_t>(below)) : 0, coordinate - below};
  }

  float weight(int64_t b, int64_t h, int64_t i, int64_t level, int64_t point) const {
    const int64_t levels = a_.p.num_levels, points = a_.p.num_points;
    if (is(Mutation::kDeformableNextWeight)) point = (point + 1) % points;
    if (is(Mutation::kDeformableWeightsTurned)) {
      const int64_t at = point * levels + level;  // as in [points, levels]
      level = at / points;
      point = at % points;
    }
    const float weight = a_.weights(b, h, i, level, point);
    if (is(Mutation::kDeformableNanWeightZero) && std::isnan(weight)) return 0;
    if (is(Mutation::kDeformableSmallWeight) && std::fabs(weight) < kSmallWeight) return 0;
    return is(Mutation::kDeformableWeightCut) ? std::min(weight, 1.0f) : weight;
  }

  void add_point(int64_t b, int64_t h, int64_t i, int64_t level, int64_t point, float* sum) const {
    int32_t height = a_.p.level_height[level], width = a_.p.level_width[level];
    if (is(Mutation::kDeformableTurnedLevel)) std::swap(height, width);
    const bool turned = is(Mutation::kDeformableSwappedXY);
    const float x = coordinate(a_.locations(b, h, i, level, point, turned ? 1 : 0), width),
                y = coordinate(a_.locations(b, h, i, level, point, turned ? 0 : 1), height);
    const bool inside = a_.inside(x, width) && a_.inside(y, height);
    const float w = weight(b, h, i, level, point);
    if (!inside && is(Mutation::kDeformableOutsideTimesZero)) {
      for (int64_t d = 0; d < channels_; ++d) sum[d] += 0 * w;
      return;
    }
    if (!inside && is(Mutation::kDeformableOutsideClamped)) {
      const auto nearest = [](float at, int32_t size) {
        return at > 0 ? static_cast<int64_t>(std::min(at, static_cast<float>(size - 1))) : 0;
      };
      return add_pixel(b, h, level, nearest(y, height), nearest(x, width), height, width, 0, sum);
    }
    if (!inside && !(is(Mutation::kDeformableWrap32) && std::isfinite(x) && std::isfinite(y)))
      return;
    const Place across = place(x);
    Place down = place(y);
    if (is(Mutation::kDeformableNearestRow) && across.share == 0)
      down = {static_cast<int64_t>(std::nearbyint(y)), 0};
    for (int k = 0; k < 4; ++k)
      add_pixel(
          b, h, level, down.first + k / 2, across.first + k % 2, height, width,
          w * (k / 2 ? down.share : 1 - down.share) * (k % 2 ? across.share : 1 - across.share),
          sum);
  }

  void add_pixel(int64_t b, int64_t h, int64_t level, int64_t row, int64_t column, int32_t height,
                 int32_t width, float share, float* sum) const {
    if (is(Mutation::kDeformableBorder)) {
      row = std::clamp<int64_t>(row, 0, height - 1);
      column = std::clamp<int64_t>(column, 0, width - 1);
    }
    if (is(Mutation::kDeformableBeyondLevel) && column >= 0 && column < width &&
        (row < 0 || row >= height))
      return add_beyond(b, h, a_.first_token(level) + row * width + column, sum);
    if (row < 0 || column < 0) return;
    if (row >= height - (is(Mutation::kDeformableLastRow) ? 1 : 0)) return;
    if (column >= width - (is(Mutation::kDeformableLastColumn) ? 1 : 0)) return;
    const int64_t first =
        a_.first_token(is(Mutation::kDeformableLevelOffset) && level > 0 ? level - 1 : level);
    const T* pixel = &a_.v(b, h, first + row * width + column, 0);
    for (int64_t d = 0; d < channels_; ++d) {
      float v = static_cast<float>(pixel[d * a_.v.stride(3)]);
      const bool is_zero =
          is(Mutation::kDeformableNanPixelZero) ||
          (is(Mutation::kDeformableNanInnerLevel) && level > 0 && level + 1 < a_.p.num_levels);
      if (is_zero && std::isnan(v)) v = 0;
      if (is(Mutation::kDeformableValueCut)) v = std::min(v, kMostValue);
      sum[d] += share * v;
      if (is(Mutation::kDeformableSumF16)) sum[d] = rounded(sum[d], 11);
    }
  }

  /// Adds 0 times a token of another level.
  void add_beyond(int64_t b, int64_t h, int64_t token, float* sum) const {
    if (token < 0 || token >= a_.first_token(a_.p.num_levels)) return;
    for (int64_t d = 0; d < channels_; ++d) sum[d] += 0 * static_cast<float>(a_.v(b, h, token, d));
  }

  const attest::Deformable<T> a_;
  const Mutation mutation_;
  const int threads_;
  int64_t channels_;
};

}  // namespace

const char* query_deformable(const attest_problem& problem, attest_support& support) {
  const auto& p = attest::params<attest_deformable_params>(problem);
  support.workspace_bytes = sizeof(float) * static_cast<uint64_t>(p.batch * p.num_heads) *
                            static_cast<uint64_t>(p.seq_len_q * p.head_dim_v);
  return nullptr;
}

std::unique_ptr<Plan> plan_deformable(Mutation mutation, const attest_problem& problem) {
  return std::make_unique<TypedPlan<DeformableKernel>>(mutation, problem, ATTEST_V);
}

}  // namespace mutants
