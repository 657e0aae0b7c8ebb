// Which parameters and tensors of an operation the records vary, and which they never touch.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "reports/input/input.hpp"

namespace attest::reports {

/// A parameter or tensor of an operation, over the records that were judged.
struct AxisCoverage {
  enum class State { kVaried, kPinned, kNever };
  std::string operation, axis;      // "softmax", "head_dim"
  std::vector<std::string> values;  // each once, numbers in order; "-" where it is not given
  State state = State::kNever;
  // The same over the problems of attest's own suites, and the values that no judged record has;
  // where input.suites has the operation.
  std::optional<State> in_suites;
  std::vector<std::string> only_in_suites;
};

/// "varied", "pinned", "never given".
std::string name(AxisCoverage::State state);

/// Returns the axes of all operations that the records have, in the order of input.axes. Axes that
/// input.axes lacks come last: another attest wrote the records. The dtype is an axis too.
std::vector<AxisCoverage> axes_of(const Input& input);

/// Returns the operations that attest's own suites have and no judged record has.
std::vector<std::string> operations_of_suites_alone(const Input& input);

}  // namespace attest::reports
