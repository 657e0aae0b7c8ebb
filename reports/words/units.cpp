#include "reports/words/units.hpp"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>

namespace attest::reports {
namespace {

std::string scaled(double value, double step, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (value >= step * 0.9995 && unit + 1 != units.end()) {
    value /= step;
    ++unit;
  }
  return three_digits(value) + " " + *unit;
}

}  // namespace

std::string three_digits(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string print_flops(double flops) {
  return scaled(flops, 1000, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"});
}

std::string print_time(double ns) { return scaled(ns, 1000, {"ns", "us", "ms", "s"}); }

std::string print_bytes(double bytes) {
  return bytes < 1      ? "0"
         : bytes < 1024 ? fmt::format("{:.0f} B", bytes)
                        : scaled(bytes / 1024, 1024, {"KiB", "MiB", "GiB", "TiB"});
}

}  // namespace attest::reports
