// Says of each fill what its inputs are and what they show.
#pragma once
#include <span>
#include <string_view>

namespace attest::reports {

struct FillWords {
  std::string_view fill;      // "huge"
  std::string_view inputs;    // "logits near 30,000, near -30,000 or near 0 in a row"
  std::string_view shows;     // "a maximum that starts too high, scores that overflow"
  std::string_view problems;  // that have it: "softmax attention, but not with top_k or in 8 bits"
  bool has_rounds = false;    // there may be "rising_2", "rising_3" and so on
};

/// Has an entry for each fill of attest's own operations. core/judge/INPUTS.md says more of them.
std::span<const FillWords> all_fill_words();
/// Finds the entry of a fill; further rounds have that of the first: "rising_3" that of "rising".
/// Returns null if the fill belongs to an operation of somebody else.
const FillWords* fill_words(std::string_view fill);

}  // namespace attest::reports
