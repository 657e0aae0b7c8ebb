// A sigma that no arithmetic gives.
#pragma once
#include "core/tensor/constants.hpp"

namespace attest::core {

/// In place of a sigma: rounding decides whether the element is a number.
inline constexpr double kUnsure = -kInfinity;

}  // namespace attest::core
