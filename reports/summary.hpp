// What the records of a report come to: counts with their denominators, the worst records, and one
// sentence.
#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "reports/input.hpp"

namespace attest::reports {

/// How many of the worst records a summary shows.
inline constexpr size_t kWorstShown = 20;

/// How many records have each verdict.
struct Tally {
  std::array<size_t, std::size(core::kVerdictNames)> verdicts{};

  void add(core::Verdict verdict) { ++verdicts[size_t(verdict)]; }
  size_t of(core::Verdict verdict) const { return verdicts[size_t(verdict)]; }
  size_t all() const;
  size_t bad() const;     // fail, suspect, error, crash and timeout
  size_t judged() const;  // those that pass and the bad ones: the denominator
};

/// A record and the run that it is of.
struct Placed {
  const core::Results* run = nullptr;
  const core::Record* record = nullptr;
};

struct Summary {
  Tally all;
  std::vector<std::pair<std::string, Tally>> impls;  // in the order in which they first occur
  std::vector<Placed> bad;                           // the worst first
  std::string sentence;                              // the verdict, with its denominator
};

/// Records of one implementation name count together, whatever its plugin. The input must outlive
/// the summary.
Summary summary_of(const Input& input);

/// "vit/vit_b_16_224/self f16 flash_cpu".
std::string title(const core::Record& record);
/// Wall time of the judged and timed runs.
double spent_ns(const core::Record& record);

}  // namespace attest::reports
