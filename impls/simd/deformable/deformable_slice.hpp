// One head of a problem of deformable attention, as the kernel reads it.
#pragma once

#include <cstdint>

namespace impls {

/// One (batch, head). Strides count elements; that of a dim of 1 may be anything.
struct DeformableSlice {
  int32_t v_dtype = 0, location_dtype = 0, weight_dtype = 0, o_dtype = 0;  // ATTEST_F32, F16, BF16
  const void* v = nullptr;                                                 // [tokens, channels]
  const void* locations = nullptr;  // [queries, levels, points, 2]
  const void* weights = nullptr;    // [queries, levels, points]
  void* o = nullptr;                // [queries, channels]
  int64_t v_stride[2] = {}, location_stride[4] = {}, weight_stride[3] = {}, o_stride[2] = {};
  int64_t channels = 0, levels = 0, points = 0;       // points: of one level
  const int32_t *height = nullptr, *width = nullptr;  // [levels], pixels
  bool align_corners = false;
};

}  // namespace impls
