// Values of a spec line as text: strict on the way in, shortest on the way out.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attest::core {

/// The whole number that the entire text is (an optional minus, decimal digits), if it lies in
/// [low, high].
std::optional<int64_t> parse_whole(std::string_view text, int64_t low, int64_t high);
/// The float nearest to the number that the entire text is; "inf" and "-inf"; nothing where it
/// overflows or is not a number.
std::optional<float> parse_float(std::string_view text);
/// The fewest digits that parse_float turns into the same float.
std::string print_float(float value);
/// "[1,12,197]": at most `most` numbers in [0, high], no blanks; may be empty.
std::optional<std::vector<int64_t>> parse_list(std::string_view text, size_t most, int64_t high);
std::string print_list(std::span<const int64_t> values);

}  // namespace attest::core
