// How many times a text contains another.
#pragma once
#include <cstddef>
#include <string>

namespace attest::testing {

inline size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

}  // namespace attest::testing
