// What the records of a report come to: counts with their denominators, the worst records, and one
// sentence.
#pragma once
#include <string>
#include <vector>

#include "reports/input/input.hpp"
#include "reports/tally.hpp"

namespace attest::reports {

/// How many of the worst records a summary shows.
inline constexpr size_t kWorstShown = 20;

/// A record and the run that it is of.
struct Placed {
  const core::Results* run = nullptr;
  const core::Record* record = nullptr;
};

struct Summary : Tallies {
  std::vector<Placed> bad;  // the worst first, of those that the input has
  std::string sentence;     // the verdict, with its denominator
};

/// Records of one implementation name count together, whatever its plugin. The input must outlive
/// the summary.
Summary summary_of(const Input& input);

/// "vit/vit_b_16_224/self f16 flash_cpu".
std::string title(const core::Record& record);
/// Wall time of the judged and timed runs.
double spent_ns(const core::Record& record);

}  // namespace attest::reports
