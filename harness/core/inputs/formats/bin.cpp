// Headerless float32 sweeps; points.hpp says how the number of values a point is decided.
#include <fmt/format.h>

#include <cmath>

#include "core/inputs/formats/bytes.hpp"
#include "core/inputs/formats/points.hpp"

namespace attest::core {
namespace {

float value_at(std::span<const std::byte> bytes, size_t index) {
  return load_scalar<float>(bytes.data() + 4 * index, false);
}

/// Whether every fifth value could be the number of a laser.
bool holds_rings(std::span<const std::byte> bytes) {
  constexpr float kMostRings = 1024;
  if (bytes.size() < 20) return false;
  for (size_t i = 4; i < bytes.size() / 4; i += 5) {
    const float ring = value_at(bytes, i);
    if (!(ring >= 0 && ring < kMostRings && ring == std::floor(ring))) return false;
  }
  return true;
}

size_t values_a_point(std::span<const std::byte> bytes, std::string_view name) {
  const bool rings = holds_rings(bytes);
  if (rings && bytes.size() % 20 == 0) return 5;
  // A few values prove nothing; from eight points on, a cloud of four values is no longer this
  // regular.
  const bool cut_short = rings && bytes.size() >= 8 * 20;
  if (bytes.size() % 16 == 0 && !cut_short) return 4;
  if (bytes.size() % 20 == 0)
    throw Error(
        fmt::format("{}: {} bytes would be points of x y z intensity ring in float32, but some "
                    "fifth value is no ring in 0..1023: "
                    "truncated, or another byte order?",
                    name, bytes.size()));
  throw Error(fmt::format(
      "{}: {} bytes is {}: truncated?", name, bytes.size(),
      cut_short ? "no multiple of 20 (x y z intensity ring in float32), which its values suggest"
                : "no multiple of 16 (x y z intensity in float32) nor of 20 (and ring)"));
}

}  // namespace

PointCloud parse_bin(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.empty()) throw Error(fmt::format("{}: the file is empty", name));
  const size_t width = values_a_point(bytes, name);
  PointCloud cloud;
  for (size_t i = 0; i < bytes.size() / 4; i += width) {
    const double position[3] = {value_at(bytes, i), value_at(bytes, i + 1), value_at(bytes, i + 2)};
    points_detail::add_point(cloud, position, value_at(bytes, i + 3), true);
  }
  return points_detail::checked(std::move(cloud), name);
}

}  // namespace attest::core
