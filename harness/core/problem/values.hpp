// Values of a spec line as text. Parsing is strict; printing gives the shortest text.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attest::core {

/// The float nearest to the number that `text` spells; also "inf" and "-inf". Nothing if it is not
/// a number or overflows.
std::optional<float> parse_float(std::string_view text);
/// The fewest digits that parse_float turns into the same float.
std::string print_float(float value);
/// The numbers of a list such as "[1,12,4k]" (see parse_count): at most `most` numbers in [0,
/// high], without blanks. The list may be empty.
std::optional<std::vector<int64_t>> parse_list(std::string_view text, size_t most, int64_t high);
std::string print_list(std::span<const int64_t> values);

}  // namespace attest::core
