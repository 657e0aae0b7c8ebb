// Which parameters and tensors of an operation the records vary, and which they never touch.
#pragma once
#include <string>
#include <vector>

#include "reports/input.hpp"

namespace attest::reports {

/// A parameter or tensor of an operation, over the records that were judged.
struct AxisCoverage {
  enum class State { kVaried, kPinned, kNever };
  std::string operation, axis;      // "softmax", "head_dim"
  std::vector<std::string> values;  // each once, numbers in order; "-" where it is not given
  State state = State::kNever;
};

/// "varied", "pinned", "never given".
std::string name(AxisCoverage::State state);

/// Returns the axes of all operations that the records have, in the order of input.axes. Axes that
/// input.axes lacks come last: another attest wrote the records. The dtype is an axis too.
std::vector<AxisCoverage> axes_of(const Input& input);

}  // namespace attest::reports
