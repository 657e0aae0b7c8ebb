#include "core/problem/values.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "core/problem/quantities.hpp"

namespace attest::core {

std::optional<float> parse_float(std::string_view text) {
  if (text == "inf") return INFINITY;
  if (text == "-inf") return -INFINITY;
  float value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string print_float(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

std::optional<std::vector<int64_t>> parse_list(std::string_view text, size_t most, int64_t high) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<int64_t> values;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const auto value = parse_count(text.substr(0, comma), 0, high);
    if (!value || values.size() == most || comma + 1 == text.size()) return std::nullopt;
    values.push_back(*value);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return values;
}

std::string print_list(std::span<const int64_t> values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

}  // namespace attest::core
