// What the CPU kernels fetch into the cache before they use it.
//   Ahead ahead;  ahead.add<float>(k, stride, nullptr, {128, 256}, head_dim, 16);
//   for (int call = 0; call < 16; ++call) { ...; ahead.fetch(); }
#pragma once

#include <algorithm>
#include <cstdint>

#include "simd/sizes.hpp"

namespace impls {

/// Rows that are used next. They are fetched a few at a time between register tiles: the
/// processor's own prefetchers do not follow eight rows of K, or pieces of many rows of V.
struct Ahead {
  struct Rows {
    const char* next;
    const int32_t* order;                // which rows, from `next` on; null: one after another
    int64_t stride, bytes, count, step;  // stride, bytes: of a row; step: rows a call
  };
  Rows rows[4] = {};
  int64_t used = 0;
  // The next tiles of K and V. If they are given, `rows` is empty, and the kernel fetches one cache
  // line of them in each step. Few queries wait for memory more than for multiply-adds, and lines
  // that are fetched in bursts come too late.
  const char *next_keys = nullptr, *next_values = nullptr;

  template <class T>
  void add(const void* data, int64_t stride, const int32_t* order, Range range, int64_t depth,
           int64_t calls) {
    constexpr int64_t size = sizeof(T);
    const int64_t count = std::max<int64_t>(0, range.end - range.begin);
    const int64_t first = order != nullptr ? 0 : range.begin;
    rows[used++] = {static_cast<const char*>(data) + first * stride * size,
                    order != nullptr ? order + range.begin : nullptr,
                    stride * size,
                    depth * size,
                    count,
                    ceil_div(count, calls)};
  }
  void fetch() {
    for (int64_t i = 0; i < used; ++i) {
      Rows& x = rows[i];
      int64_t n = std::min(x.step, x.count);
      x.count -= n;
      if (x.order == nullptr)
        for (; n > 0; --n, x.next += x.stride) fetch_row(x.next, x.bytes);
      else
        for (; n > 0; --n) fetch_row(x.next + *x.order++ * x.stride, x.bytes);
    }
  }
  static void fetch_row(const char* row, int64_t bytes) {
    const char* const line = row - reinterpret_cast<uintptr_t>(row) % 64;
    for (const char* at = line; at < row + bytes; at += 64) __builtin_prefetch(at, 0, 2);
  }
};

}  // namespace impls
