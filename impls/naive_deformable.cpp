// naive_deformable: multi-scale deformable attention by definition, in float32: each point is read
// at its four pixels, weighed and added. What others are measured against: every feature, no
// cleverness.
#include <algorithm>
#include <cmath>
#include <vector>

#include "attest.hpp"

namespace {

struct NaiveDeformable {
  static constexpr attest::Info kInfo{
      .name = "naive_deformable",
      .version = "1",
      .summary = "four pixels of each point, weighed and added in float32, threads over queries",
      .operation = ATTEST_DEFORMABLE,
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_ALIGN_CORNERS | ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE |
                  ATTEST_WITH_UNALIGNED};
  const attest_problem& problem;

  using Tensors = attest::Deformable<attest::Any>;

  template <class T>
  void run(void* const* data, void* /*workspace*/, void* /*stream*/) const {
    const Tensors a(problem, data);
    const attest::View<T> v(problem, data, ATTEST_V);
    const int64_t rows = a.p.batch * a.p.num_heads * a.p.seq_len_q;
#pragma omp parallel num_threads(problem.threads)
    {
      std::vector<float> o(static_cast<size_t>(a.p.head_dim_v));
#pragma omp for schedule(static)
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t i = row % a.p.seq_len_q, h = row / a.p.seq_len_q % a.p.num_heads,
                      b = row / a.p.seq_len_q / a.p.num_heads;
        std::fill(o.begin(), o.end(), 0.0f);
        for (int64_t level = 0; level < a.p.num_levels; ++level)
          for (int64_t point = 0; point < a.p.num_points; ++point)
            add(a, v, b, h, i, level, point, o);
        for (int64_t d = 0; d < a.p.head_dim_v; ++d) a.o(b, h, i, d) = o[static_cast<size_t>(d)];
      }
    }
  }

 private:
  template <class T>
  static void add(const Tensors& a, const attest::View<T>& v, int64_t b, int64_t h, int64_t i,
                  int64_t level, int64_t point, std::vector<float>& o) {
    const int32_t height = a.p.level_height[level], width = a.p.level_width[level];
    const float x = a.coordinate(a.locations(b, h, i, level, point, 0), width),
                y = a.coordinate(a.locations(b, h, i, level, point, 1), height);
    if (!Tensors::inside(x, width) || !Tensors::inside(y, height)) return;
    const float weight = a.weights(b, h, i, level, point);
    const auto left = static_cast<int64_t>(std::floor(x)),
               upper = static_cast<int64_t>(std::floor(y));
    const float right_share = x - std::floor(x), lower_share = y - std::floor(y);
    for (int k = 0; k < 4; ++k) {
      const int64_t column = left + k % 2, row = upper + k / 2;
      if (column < 0 || column >= width || row < 0 || row >= height) continue;
      const float share = weight * (k % 2 ? right_share : 1 - right_share) *
                          (k / 2 ? lower_share : 1 - lower_share);
      const T* pixel = &v(b, h, a.first_token(level) + row * width + column, 0);
      for (size_t d = 0; d < o.size(); ++d)
        o[d] += share * static_cast<float>(pixel[static_cast<int64_t>(d) * v.stride(3)]);
    }
  }
};

}  // namespace

ATTEST_PLUGIN(attest::table<NaiveDeformable>())
