#include "core/record/case_key.hpp"

#include <fmt/format.h>

namespace attest::core {

std::string CaseKey::name() const {
  return fmt::format("{}{}{} {} {}", suite, suite.empty() ? "" : "/", case_name, dtype, impl);
}

CaseKey key_of(const Record& record) {
  CaseKey key = question_of(record);
  key.plugin_hash = record.plugin_hash;
  key.threads = record.threads;
  return key;
}

CaseKey question_of(const Record& record) {
  return {.suite = record.suite,
          .case_name = record.case_name,
          .dtype = record.dtype,
          .impl = record.impl,
          .plugin_hash = "",
          .threads = 0};
}

}  // namespace attest::core
