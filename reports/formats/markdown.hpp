// The Markdown summary with a limit on its size.
#pragma once
#include <cstddef>
#include <string>

#include "reports/input/input.hpp"

namespace attest::reports {

/// As print_markdown. Parts that would make it larger than `largest_bytes` are left out, and named.
std::string print_markdown_within(const Input& input, size_t largest_bytes);

}  // namespace attest::reports
