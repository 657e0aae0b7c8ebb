// Identifies a record: which case, which build, how it was run.
#pragma once
#include <compare>
#include <cstdint>
#include <string>

#include "core/record/record.hpp"

namespace attest::core {

/// Two records with one key answer the same question.
struct CaseKey {
  std::string suite, case_name, dtype, impl;
  std::string plugin_hash;  // of the library; empty: of whichever build, or no plugin's
  int32_t threads = 0;      // of the implementation; 0: however many

  auto operator<=>(const CaseKey&) const = default;
  /// "vit/vit_b_16_224/self f16 flash_cuda".
  std::string name() const;
};

/// The full key of a record.
CaseKey key_of(const Record& record);
/// The key without build and threads, by which comparisons match records.
CaseKey question_of(const Record& record);

}  // namespace attest::core
