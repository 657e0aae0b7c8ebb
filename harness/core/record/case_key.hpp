// What a record is of.
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

/// All of it.
CaseKey key_of(const Record& record);
/// The same for every build and number of threads: what comparisons match records by.
CaseKey question_of(const Record& record);

}  // namespace attest::core
