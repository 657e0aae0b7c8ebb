// Fuzzes parse_gate_rules: no text crashes it, and of what it reads every limit is in range.
#include <cstdlib>
#include <string_view>

#include "cli/comparison/gate_rules.hpp"
#include "core/tensor/error.hpp"

namespace {

bool is_in_range(attest::reports::Limit limit, double value) {
  for (const attest::reports::LimitName& name : attest::reports::kLimits)
    if (name.limit == limit) return value >= name.least && value <= name.most;
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest;
  reports::GateRules rules;
  try {
    rules = cli::parse_gate_rules({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  } catch (const core::Error&) {
    return 0;
  }
  const core::CaseKey key{.suite = "vit", .case_name = "a", .dtype = "f16", .impl = "naive"};
  for (const reports::GateRule& rule : rules.rules) {
    rule.scope(key);
    if (!rule.verdict && rule.limits.empty()) std::abort();
    for (const auto& [limit, value] : rule.limits)
      if (!is_in_range(limit, value)) std::abort();
  }
  for (const reports::GateWaiver& waiver : rules.waivers) {
    waiver.scope(key);
    if (waiver.expires.size() != 10 || waiver.reason.empty()) std::abort();
  }
  return 0;
}
