// What people do about a reason code: its likely causes, and the next step.
#pragma once
#include <span>
#include <string_view>

#include "core/judge/verdict.hpp"

namespace attest::core {

struct Advice {
  std::span<const std::string_view> causes;  // each one a sentence, the most frequent first
  std::string_view next;                     // what to do, in whole sentences
};

/// The advice for a reason code. Every code but kPass has at least one cause and a next step; the
/// advice for kPass is empty.
Advice advice(ReasonCode code);

}  // namespace attest::core
