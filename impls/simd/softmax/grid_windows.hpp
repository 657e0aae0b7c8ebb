// Windows of a grid (Swin) as a Slice takes them: tokens in the order of their windows, the sides
// of the seams around which the grid was rolled, and the relative position bias.
#pragma once

#include <algorithm>
#include <cstdint>

#include "simd/softmax/softmax.hpp"
#include "simd/storage.hpp"

namespace impls {

/// Tokens of one window.
inline int64_t window_tokens(const attest_softmax_params& p) {
  return p.window_height * p.window_width;
}

/// The tokens of a window, row by row of the rolled grid, and which side of the seams each comes
/// from: [window_tokens] each.
inline void list_window(const attest_softmax_params& p, int64_t window, int32_t* order,
                        int32_t* region) {
  const auto modulo = [](int64_t n, int64_t size) { return (n % size + size) % size; };
  const int64_t across = p.grid_width / p.window_width;
  const int64_t seam_y = modulo(p.shift_y, p.grid_height), seam_x = modulo(p.shift_x, p.grid_width);
  int64_t y = (window / across * p.window_height + seam_y) % p.grid_height;
  const int64_t left = (window % across * p.window_width + seam_x) % p.grid_width;
  for (int64_t i = 0; i < p.window_height; ++i, y = y + 1 == p.grid_height ? 0 : y + 1) {
    int64_t x = left;
    for (int64_t j = 0; j < p.window_width; ++j, x = x + 1 == p.grid_width ? 0 : x + 1) {
      *order++ = static_cast<int32_t>(y * p.grid_width + x);
      *region++ = 2 * (y < seam_y) + (x < seam_x);
    }
  }
}

/// Whether tokens of a window come from several sides of a seam.
inline bool crosses_seam(const int32_t* region, int64_t tokens) {
  return std::any_of(region, region + tokens, [&](int32_t side) { return side != region[0]; });
}

/// Slice::rel_place of the tokens of a window, [window_tokens], and Slice::rel_centre.
inline void list_rel_places(const attest_softmax_params& p, int32_t* places) {
  for (int64_t n = 0; n < window_tokens(p); ++n)
    places[n] =
        static_cast<int32_t>(n / p.window_width * (2 * p.window_width - 1) + n % p.window_width);
}
inline int32_t rel_centre(const attest_softmax_params& p) {
  return static_cast<int32_t>((p.window_height - 1) * (2 * p.window_width - 1) + p.window_width -
                              1);
}

/// The relative position bias as dense floats: [num_heads][2 * window_height - 1]
/// [2 * window_width - 1].
inline void widen_rel_bias(const attest_problem& problem, void* const* data, float* target) {
  const attest_softmax_params& p = softmax_params(problem);
  const attest_tensor& t = problem.tensor[ATTEST_REL_BIAS];
  for (int64_t h = 0; h < p.num_heads; ++h)
    for (int64_t y = 0; y < 2 * p.window_height - 1; ++y)
      for (int64_t x = 0; x < 2 * p.window_width - 1; ++x)
        *target++ = element(t.dtype, data[ATTEST_REL_BIAS],
                            h * t.stride[0] + y * t.stride[1] + x * t.stride[2]);
}

}  // namespace impls
