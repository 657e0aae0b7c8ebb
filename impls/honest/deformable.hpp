// Deformable attention by a method: in which form a point is read and weighed, and in which order
// points are summed.
#pragma once
#include <algorithm>
#include <cmath>

#include "attest.hpp"
#include "honest/method.hpp"

namespace honest {

constexpr uint64_t kDeformableFeatures = ATTEST_WITH_ALIGN_CORNERS | ATTEST_WITH_STRIDES |
                                         ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_UNALIGNED;

/// What a kernel rounds to, by the stages of deformable attention; and what it would declare.
struct SamplingArithmetic {
  int32_t location = ATTEST_F32, weight = ATTEST_F32, product = ATTEST_F32,
          accumulator = ATTEST_F32;
  uint32_t ways = 0;
};

enum class Form {
  kSample,       // four products with the bilinear factors are summed, then weighed
  kFactor,       // the weight is multiplied with the factors first: four addends of the sum
  kAlongRows,    // a + f (b - a) along both rows of pixels, then down between these; then weighed
  kAlongColumns  // the same, along both columns first
};
enum class Sum {
  kForward,
  kBackward,  // the last point of the last level comes first
  kLevels,    // each level apart, then the levels
  kCorners    // the upper left pixels of all points apart, and so on, then these four
};

struct SamplingMethod {
  const char *name, *summary;
  SamplingArithmetic computes, declares;
  Form form = Form::kSample;
  Sum sum = Sum::kForward;
};

/// The method of a kernel that computes in `arithmetic` and declares it.
constexpr SamplingMethod honest_sampling(const char* name, const char* summary, Form form, Sum sum,
                                         SamplingArithmetic arithmetic = {}) {
  return {name, summary, arithmetic, arithmetic, form, sum};
}

class DeformableKernel {
 public:
  DeformableKernel(const attest_problem& problem, void* const* data, void* workspace,
                   const SamplingMethod& method)
      : a_(problem, data), m_(method), x_(a_.p, workspace) {}

  static void query(const attest_problem& problem, const SamplingMethod& method,
                    attest_support& support) {
    const auto& p = attest::params<attest_deformable_params>(problem);
    support.stage[ATTEST_DEFORMABLE_LOCATION].dtype = method.declares.location;
    support.stage[ATTEST_DEFORMABLE_WEIGHT].dtype = method.declares.weight;
    support.stage[ATTEST_DEFORMABLE_PRODUCT].dtype = method.declares.product;
    support.stage[ATTEST_DEFORMABLE_ACCUMULATOR].dtype = method.declares.accumulator;
    support.arithmetic = method.declares.ways;
    const int64_t points = p.num_levels * p.num_points;
    if (method.sum == Sum::kLevels) support.sum_chain = 4 * p.num_points + p.num_levels;
    if (method.sum == Sum::kCorners) support.sum_chain = points + 4;
    if (support.sum_chain >= 4 * points) support.sum_chain = 0;
    support.workspace_bytes = Buffers(p, nullptr).bytes;
  }

  void run() {
    const attest_deformable_params& p = a_.p;
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.num_heads; ++h)
        for (int64_t i = 0; i < p.seq_len_q; ++i) sum_row(b, h, i);
  }

 private:
  static constexpr int64_t kSums = 8;  // levels or corners

  struct Buffers {
    Buffers(const attest_deformable_params& p, void* memory) {
      Arena arena(memory);
      for (float*& one : pixels) one = arena.take(p.head_dim_v);
      sample = arena.take(p.head_dim_v);
      for (float*& one : sums) one = arena.take(p.head_dim_v);
      bytes = arena.bytes();
    }
    float *pixels[4], *sample, *sums[kSums];  // [head_dim_v] each
    size_t bytes;
  };

  void keep(float* x, int64_t count, int32_t dtype) const {
    round_row(x, count, dtype);
    if ((m_.computes.ways & ATTEST_FLUSHES_SUBNORMALS) == 0) return;
    const float least = smallest_normal(dtype);
    for (int64_t n = 0; n < count; ++n) x[n] = std::fabs(x[n]) < least ? 0 : x[n];
  }
  float kept(float x, int32_t dtype) const {
    keep(&x, 1, dtype);
    return x;
  }

  float coordinate(float stored, int32_t pixels) const {
    const auto at = [this](float x) { return kept(x, m_.computes.location); };
    const float location = at(stored), size = static_cast<float>(pixels);
    if (m_.computes.ways & ATTEST_LOCATES_ON_GRID) {
      const float from_edge = at(at(2 * location - 1) + 1);
      return a_.p.align_corners ? at(from_edge / 2 * (size - 1)) : at(at(from_edge * size) - 1) / 2;
    }
    return a_.p.align_corners ? at(location * (size - 1)) : at(at(location * size) - 0.5f);
  }

  void sum_row(int64_t b, int64_t h, int64_t i) {
    const attest_deformable_params& p = a_.p;
    for (float* const sum : x_.sums) std::fill_n(sum, p.head_dim_v, 0.0f);
    const int64_t count = p.num_levels * p.num_points;
    for (int64_t n = 0; n < count; ++n) {
      const int64_t point = m_.sum == Sum::kBackward ? count - 1 - n : n;
      add_point(b, h, i, point / p.num_points, point % p.num_points);
    }
    for (int64_t n = 1; n < kSums; ++n) {
      const bool is_used = m_.sum == Sum::kLevels    ? n < p.num_levels
                           : m_.sum == Sum::kCorners ? n < 4
                                                     : false;
      if (is_used) add(x_.sums[n], x_.sums[0]);
    }
    for (int64_t d = 0; d < p.head_dim_v; ++d) a_.o(b, h, i, d) = x_.sums[0][d];
  }

  void add(const float* addend, float* sum) const {
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d) sum[d] += addend[d];
    keep(sum, a_.p.head_dim_v, m_.computes.accumulator);
  }
  float* sum_of(int64_t level, int corner) const {
    return x_.sums[m_.sum == Sum::kLevels ? level : m_.sum == Sum::kCorners ? corner : 0];
  }

  void add_point(int64_t b, int64_t h, int64_t i, int64_t level, int64_t point) {
    const int32_t height = a_.p.level_height[level], width = a_.p.level_width[level];
    const float x = coordinate(a_.locations(b, h, i, level, point, 0), width),
                y = coordinate(a_.locations(b, h, i, level, point, 1), height);
    if (!a_.inside(x, width) || !a_.inside(y, height)) return;
    const int32_t of_weight = m_.computes.weight, of_product = m_.computes.product;
    const float weight = kept(a_.weights(b, h, i, level, point), of_weight),
                right = kept(x - std::floor(x), of_weight),
                lower = kept(y - std::floor(y), of_weight), left = kept(1 - right, of_weight),
                upper = kept(1 - lower, of_weight);
    const auto column = static_cast<int64_t>(std::floor(x)),
               row = static_cast<int64_t>(std::floor(y));
    const int64_t channels = a_.p.head_dim_v;
    std::fill_n(x_.sample, channels, 0.0f);
    for (int k = 0; k < 4; ++k) {
      float factor = kept((k % 2 ? right : left) * (k / 2 ? lower : upper), of_weight);
      if (m_.form == Form::kFactor) factor = kept(weight * factor, of_weight);
      float* const pixel = x_.pixels[k];
      const bool is_read = read_pixel(b, h, level, row + k / 2, column + k % 2, pixel);
      if (by_differences() || !is_read) continue;
      for (int64_t d = 0; d < channels; ++d) pixel[d] *= factor;
      keep(pixel, channels, of_product);
      if (m_.form == Form::kFactor) {
        add(pixel, sum_of(level, k));
        continue;
      }
      for (int64_t d = 0; d < channels; ++d) x_.sample[d] += pixel[d];
      keep(x_.sample, channels, of_product);
    }
    if (by_differences()) interpolate(right, lower);
    if (m_.form != Form::kFactor) weigh_sample(weight, level);
  }

  bool by_differences() const {
    return m_.form == Form::kAlongRows || m_.form == Form::kAlongColumns;
  }

  void interpolate(float right, float lower) const {
    const bool rows = m_.form == Form::kAlongRows;
    const float along = rows ? right : lower, across = rows ? lower : right;
    float* const* const pixel = x_.pixels;
    approach(pixel[0], pixel[rows ? 1 : 2], along);
    approach(pixel[rows ? 2 : 1], pixel[3], along);
    approach(pixel[0], pixel[rows ? 2 : 1], across);
    std::copy_n(pixel[0], a_.p.head_dim_v, x_.sample);
  }

  /// from += share * (to - from); `to` is overwritten.
  void approach(float* from, float* to, float share) const {
    const int64_t channels = a_.p.head_dim_v;
    const int32_t dtype = m_.computes.product;
    for (int64_t d = 0; d < channels; ++d) to[d] -= from[d];
    keep(to, channels, dtype);
    for (int64_t d = 0; d < channels; ++d) to[d] *= share;
    keep(to, channels, dtype);
    for (int64_t d = 0; d < channels; ++d) from[d] += to[d];
    keep(from, channels, dtype);
  }

  void weigh_sample(float weight, int64_t level) {
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d) x_.sample[d] *= weight;
    keep(x_.sample, a_.p.head_dim_v, m_.computes.product);
    add(x_.sample, sum_of(level, 0));
  }

  /// Whether the pixel lies inside its level; zeros if not.
  bool read_pixel(int64_t b, int64_t h, int64_t level, int64_t y, int64_t x, float* pixel) const {
    const int32_t height = a_.p.level_height[level], width = a_.p.level_width[level];
    const bool is_inside = y >= 0 && y < height && x >= 0 && x < width;
    const int64_t token = a_.first_token(level) + y * width + x;
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d)
      pixel[d] = is_inside ? static_cast<float>(a_.v(b, h, token, d)) : 0.0f;
    keep(pixel, a_.p.head_dim_v, m_.computes.product);
    return is_inside;
  }

  const attest::Deformable<attest::Any> a_;
  const SamplingMethod& m_;
  const Buffers x_;
};

}  // namespace honest
