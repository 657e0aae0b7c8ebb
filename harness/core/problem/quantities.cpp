#include "core/problem/quantities.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>

namespace attest::core {
namespace {

/// A unit is `multiplied` / `divided` of the base unit; one of the two is 1, so that converting a
/// number rounds once.
struct Unit {
  std::string_view name;
  double multiplied = 1, divided = 1;
};

constexpr Unit kCounts[] = {{"k", 1024}, {"m", 1024.0 * 1024}};
constexpr Unit kTimes[] = {{"ns", 1, 1e9}, {"us", 1, 1e6}, {"ms", 1, 1e3},
                           {"s"},          {"min", 60},    {"h", 3600}};
constexpr Unit kSizes[] = {{"b"},           {"kib", 0x1p10}, {"mib", 0x1p20},
                           {"gib", 0x1p30}, {"tib", 0x1p40}, {"kb", 1e3},
                           {"mb", 1e6},     {"gb", 1e9},     {"tb", 1e12}};
constexpr double kMostBytes = 0x1p60;

struct Quantity {
  double number = 0;
  std::string unit;  // in lower case; empty: none
};

std::optional<Quantity> split(std::string_view text) {
  Quantity quantity;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, quantity.number);
  if (error != std::errc{} || !std::isfinite(quantity.number)) return std::nullopt;
  std::string_view unit(stopped, size_t(end - stopped));
  if (unit.size() > 1 && unit.front() == ' ') unit.remove_prefix(1);
  for (const char c : unit) quantity.unit += char(std::tolower(static_cast<unsigned char>(c)));
  return quantity;
}

/// In base units; nothing if there is no such unit.
std::optional<double> convert(const Quantity& quantity, std::span<const Unit> units) {
  for (const Unit& unit : units)
    if (unit.name == quantity.unit) return quantity.number * unit.multiplied / unit.divided;
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> parse_count(std::string_view text, int64_t low, int64_t high) {
  const auto in_range = [&](int64_t n) {
    return n >= low && n <= high ? std::optional(n) : std::nullopt;
  };
  int64_t whole = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, whole);
  if (error == std::errc{} && stopped == end) return in_range(whole);
  if (text.find_first_of("eE") != std::string_view::npos) return std::nullopt;  // no exponents
  const std::optional<Quantity> quantity = split(text);
  const std::optional<double> value = quantity ? convert(*quantity, kCounts) : std::nullopt;
  if (!value || *value != std::floor(*value) || std::abs(*value) > 0x1p53) return std::nullopt;
  return in_range(int64_t(*value));
}

std::optional<double> parse_seconds(std::string_view text) {
  std::optional<Quantity> quantity = split(text);
  if (!quantity) return std::nullopt;
  if (quantity->unit.empty()) quantity->unit = "s";
  const std::optional<double> seconds = convert(*quantity, kTimes);
  return seconds && *seconds >= 0 && std::isfinite(*seconds) ? seconds : std::nullopt;
}

std::string print_seconds(double seconds) {
  for (const char* name : {"s", "ms", "us", "ns"}) {
    const Unit& unit = *std::ranges::find(kTimes, name, &Unit::name);
    const double number = seconds * unit.divided;
    const std::string text = fmt::format("{}{}", number, name);
    if (number >= 1 && parse_seconds(text) == seconds) return text;
  }
  return fmt::format("{}s", seconds);
}

std::optional<double> parse_period(std::string_view text) {
  const std::optional<Quantity> quantity = split(text);
  if (!quantity || quantity->number <= 0) return std::nullopt;
  const std::optional<double> seconds =
      quantity->unit == "hz" ? 1 / quantity->number : parse_seconds(text);
  return seconds && *seconds > 0 && std::isfinite(*seconds) ? seconds : std::nullopt;
}

std::string print_period(double seconds) {
  const std::string rate = fmt::format("{:.0f}Hz", 1 / seconds);
  return parse_period(rate) == seconds ? rate : print_seconds(seconds);
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
  std::optional<Quantity> quantity = split(text);
  if (!quantity) return std::nullopt;
  if (quantity->unit.empty()) quantity->unit = "gib";
  const std::optional<double> bytes = convert(*quantity, kSizes);
  if (!bytes || !(*bytes >= 0 && *bytes < kMostBytes)) return std::nullopt;
  return uint64_t(std::llround(*bytes));
}

std::string print_whole_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes > 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

}  // namespace attest::core
