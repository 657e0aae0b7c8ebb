// What a run left unjudged of what implementations say of themselves.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/record/record.hpp"
#include "core/run/registry.hpp"

namespace attest::core {

using NeverJudged = std::map<std::string, std::vector<std::string>>;

/// By implementation: features and dtypes that its table lists and that no judged record had. A
/// record that is unsupported or skipped was not judged. An implementation of which all was judged
/// is left out.
NeverJudged never_judged(const std::vector<Registry::Entry>& chosen,
                         const std::vector<Record>& records);
/// A line for each implementation: "flash_cpu: declared, never judged: VARLEN, PAGES, bf16"; empty:
/// none.
std::string print_never_judged(const NeverJudged& left);

}  // namespace attest::core
