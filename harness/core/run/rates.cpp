#include "core/run/rates.hpp"

#include <algorithm>
#include <array>

namespace attest::core {
namespace {

// From the closest question to the widest.
std::array<std::string, 2> keys(const std::string& implementation, const Rates::Kind& kind) {
  return {implementation + "/" + kind.dtype + "/" + kind.features, implementation};
}

}  // namespace

Rates::Kind Rates::kind_of(const Problem& problem) {
  return {std::string(dtype_name(problem.dtype)), print_features(problem.features)};
}

double Rates::of(const std::string& implementation, const Kind& kind) const {
  for (const std::string& key : keys(implementation, kind))
    if (const auto at = best_.find(key); at != best_.end()) return at->second;
  return 0;
}

void Rates::note(const std::string& implementation, const Kind& kind, double flops, double run_ns) {
  if (flops < kLeastFlops || run_ns <= 0) return;
  for (const std::string& key : keys(implementation, kind))
    best_[key] = std::max(best_[key], flops / run_ns);
}

}  // namespace attest::core
