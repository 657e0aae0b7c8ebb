// Whether a record names the mistake behind a wrong output.
#pragma once
#include "core/judge/check.hpp"
#include "core/judge/guess.hpp"

namespace attest::core {

inline bool names_mistake(const Judgement& judgement) {
  return judgement.guess && judgement.guess->starts_with(kAsIf);
}

}  // namespace attest::core
