// What the files of the runner share: setting a verdict, hashing outputs.
#pragma once
#include <string>

#include "core/record/record.hpp"

namespace attest::core {

inline void set_verdict(Record& record, Verdict verdict, std::string code, std::string reason) {
  record.verdict = verdict, record.code = std::move(code), record.reason = std::move(reason);
}

/// The output that every problem of the operation has. Throws Error where there is none.
const TensorSpec& main_output(const Problem& problem);

/// Of all outputs of the problem, role by role.
std::string hash_outputs(const Problem& problem, const Tensors& tensors);

}  // namespace attest::core
