// Sizes in whole pieces, and ranges of rows.
#pragma once

#include <cstdint>

namespace impls {

struct Range {  // [begin, end)
  int64_t begin, end;
};

/// How many pieces of `by` hold n.
constexpr int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
/// The multiple of `to` that is not below n.
constexpr int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

}  // namespace impls
