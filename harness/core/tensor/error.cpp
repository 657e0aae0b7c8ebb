#include "core/tensor/error.hpp"

namespace attest::core {

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string clean = "'";
  for (const char c : text.substr(0, kLongest)) clean += c >= ' ' && c <= '~' ? c : '?';
  return clean + (text.size() > kLongest ? "...'" : "'");
}

}  // namespace attest::core
