#include "core/measure/machine/reading.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace attest::core {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{64} << 20;  // more than any: a node may have no end

// Text of a message: what cannot be printed is shown as '?', and no more than a few words.
std::string shown(std::string_view text) {
  std::string shown(text.substr(0, 24));
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  return shown + (text.size() > 24 ? "..." : "");
}

}  // namespace

Reading<std::string> read_reading(const fs::path& file) {
  const auto none = [&](const char* why) {
    return Reading<std::string>::none(fmt::format("{}: {}", file.filename().string(), why));
  };
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return none(std::strerror(errno));
  std::string text;
  char part[4096];
  ssize_t length = 0;
  while (text.size() < kMostBytes && (length = ::read(descriptor, part, sizeof(part))) > 0)
    text.append(part, size_t(length));
  const int error = errno;
  close(descriptor);
  if (length < 0) return none(std::strerror(error));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0' || text.back() == ' '))
    text.pop_back();
  if (text.empty()) return none("it is empty");
  return Reading<std::string>::of(std::move(text));
}

Reading<double> parse_value(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value - value != 0)
    return Reading<double>::none(fmt::format("'{}' is no number", shown(text)));
  return Reading<double>::of(value);
}

Reading<double> read_value(const fs::path& file) {
  const Reading<std::string> text = read_reading(file);
  if (!text.value) return Reading<double>::none(text.missing);
  Reading<double> value = parse_value(*text.value);
  if (!value.value) value.missing = fmt::format("{}: {}", file.filename().string(), value.missing);
  return value;
}

Reading<double> within(const Reading<double>& reading, double scale, double low, double high,
                       std::string_view unit, std::string_view what) {
  if (!reading.value) return reading;
  const double value = *reading.value * scale;
  if (value >= low && value <= high) return Reading<double>::of(value);
  return Reading<double>::none(fmt::format("{:.6g} {} cannot be {}, which has {:.6g} to {:.6g}",
                                           value, unit, what, low, high));
}

}  // namespace attest::core
