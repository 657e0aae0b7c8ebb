// What the inputs of each fill are, in the words of a hint below a failure.
#pragma once
#include <span>
#include <string_view>

namespace attest::reports {

struct FillWords {
  std::string_view fill;    // "huge"
  std::string_view inputs;  // "logits near 30,000, near -30,000 or near 0 in a row"
  std::string_view shows;   // "a maximum that starts too high, scores that overflow"
};

/// The fills of all operations that attest has, as core/judge/INPUTS.md describes them.
std::span<const FillWords> all_fill_words();
/// Null: the fill belongs to an operation of somebody else.
const FillWords* fill_words(std::string_view fill);

}  // namespace attest::reports
