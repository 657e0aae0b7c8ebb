// What a bad record says of its bug, beyond the reason in its outcome.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// Errors as shares of their gates.
struct Errors {
  double largest = 0, rms = 0;
};
/// The errors that the verdict of a record comes from: those over the fills or, if all fills pass
/// and a relation does not, its own. A relation may judge another problem than the fills do. They
/// are absent if nothing was compared, or if something else than an error decided.
std::optional<Errors> errors_of_verdict(const core::Record& record);

/// In this order: reruns that gave other bits; where the output of the first explained check is
/// wrong and what the mistake may be; what the inputs that fail have and those that pass lack.
std::vector<std::string> findings(const core::Record& record);

/// The guess that names the mistake behind the output. It is empty if none does, and if outputs
/// change from run to run, because then no formula explains them.
std::string mistake(const core::Record& record);

}  // namespace attest::reports
