// Fuzzes the parsers of quantities: no text crashes them, and what they read comes back equal from
// its own printed form.
#include <cstdlib>
#include <string_view>

#include "core/problem/quantities.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto count = parse_count(text, -1000, 1 << 20))
    if (*count < -1000 || *count > 1 << 20 ||
        parse_count(std::to_string(*count), -1000, 1 << 20) != count)
      std::abort();
  if (const auto seconds = parse_seconds(text))
    if (parse_seconds(print_seconds(*seconds)) != seconds) std::abort();
  if (const auto period = parse_period(text))
    if (!(*period > 0) || parse_period(print_period(*period)) != period) std::abort();
  if (const auto bytes = parse_bytes(text))
    if (parse_bytes(print_whole_bytes(*bytes)) != bytes) std::abort();
  return 0;
}
