// One line of `attest doctor`.
#pragma once
#include <string>

namespace attest::core {

struct Finding {
  enum class Kind { kOk, kNote, kMissing };
  Kind kind;
  std::string what;    // "frequency governor"
  std::string found;   // "powersave"
  std::string advice;  // how to get or mend it; empty: nothing to do
};

}  // namespace attest::core
