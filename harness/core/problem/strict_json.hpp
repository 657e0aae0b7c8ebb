// Reads JSON that people write by hand, strictly: no comments, no key twice. Errors name the line.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace attest::core {

inline constexpr size_t kLargestJson_bytes = size_t{4} << 20;
inline constexpr int kDeepestJson = 16;

/// Throws Error ("FILE: line 3, column 7: ...") if the text is not JSON, has a key twice in one
/// object, nests deeper than kDeepestJson or is larger than kLargestJson_bytes.
nlohmann::json parse_strict_json(std::string_view text, std::string_view file_name);

}  // namespace attest::core
