// Finds the declared features and dtypes that a run did not judge.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/record/record.hpp"
#include "core/run/plugins/registry.hpp"

namespace attest::core {

using NeverJudged = std::map<std::string, std::vector<std::string>>;

/// For each implementation: the features and dtypes that its table lists but no judged record had.
/// Unsupported and skipped records were not judged. Implementations of which everything was judged
/// are left out, and so are those without a record of their operation: no case was for them.
NeverJudged never_judged(const std::vector<Registry::Entry>& chosen,
                         const std::vector<Record>& records);
/// A line for each implementation: "flash_cpu: declared, never judged: VARLEN, PAGES, bf16".
std::string print_never_judged(const NeverJudged& left);

}  // namespace attest::core
