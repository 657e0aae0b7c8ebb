// Sizes in whole pieces.
#pragma once

#include <cstdint>

namespace impls {

/// How many pieces of `by` hold n.
constexpr int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
/// The multiple of `to` that is not below n.
constexpr int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

}  // namespace impls
