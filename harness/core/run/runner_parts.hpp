// What the files of the runner share: setting a verdict, hashing outputs.
#pragma once
#include <string>

#include "core/record/record.hpp"

namespace attest::core {

inline void set_verdict(Record& record, Verdict verdict, std::string code, std::string reason) {
  record.verdict = verdict, record.code = std::move(code), record.reason = std::move(reason);
}

/// Of all outputs of the problem, role by role.
std::string hash_outputs(const Problem& problem, const Tensors& tensors);

}  // namespace attest::core
