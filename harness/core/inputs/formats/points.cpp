#include "core/inputs/formats/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/inputs/formats/bytes.hpp"

namespace attest::core {
namespace points_detail {

void add_point(PointCloud& cloud, const double (&position)[3], double intensity,
               bool has_intensity) {
  if (!std::isfinite(position[0]) || !std::isfinite(position[1]) || !std::isfinite(position[2])) {
    ++cloud.dropped;
    return;
  }
  // A float64 beyond the float32 range would become infinite: held at a number that checked()
  // refuses.
  const auto coordinate = [](double value) { return float(std::clamp(value, -1e30, 1e30)); };
  cloud.x.push_back(coordinate(position[0]));
  cloud.y.push_back(coordinate(position[1]));
  cloud.z.push_back(coordinate(position[2]));
  if (has_intensity)
    cloud.intensity.push_back(std::isfinite(intensity) ? coordinate(intensity) : 0.0f);
}

PointCloud checked(PointCloud cloud, std::string_view name) {
  if (cloud.size() == 0 && cloud.dropped == 0)
    throw Error(fmt::format("{}: 0 points, at least 1 is needed", name));
  if (cloud.size() == 0)
    throw Error(
        fmt::format("{}: all {} points have NaN or infinite coordinates, at least 1 must be finite",
                    name, cloud.dropped));
  constexpr double kTiny = 1e-20;  // metres; a sensor gives 0 or more, whole numbers of another
                                   // byte order are of this size
  double largest = 0;
  size_t tiny = 0, nonzero = 0;
  for (const auto* axis : {&cloud.x, &cloud.y, &cloud.z})
    for (const float value : *axis) {
      const double size = std::fabs(double(value));
      largest = std::max(largest, size);
      nonzero += size > 0;
      tiny += size > 0 && size < kTiny;
    }
  if (largest > kLargestCoordinate)
    throw Error(
        fmt::format("{}: coordinates up to {:.3g} m, at most {:.0e} are plausible: wrong byte "
                    "order or element type?",
                    name, largest, kLargestCoordinate));
  if (2 * tiny > nonzero)
    throw Error(
        fmt::format("{}: {} of {} coordinates other than 0 are below {:.0e} m: wrong byte order or "
                    "element type?",
                    name, tiny, nonzero, kTiny));
  return cloud;
}

}  // namespace points_detail

namespace {

struct Format {
  std::string_view extension;
  PointCloud (*parse)(std::span<const std::byte>, std::string_view);
};
constexpr Format kFormats[] = {{".pcd", parse_pcd}, {".ply", parse_ply}, {".bin", parse_bin}};

const Format* format_of(const std::filesystem::path& path) {
  const auto* const found = std::ranges::find(kFormats, lower_extension(path), &Format::extension);
  return found == std::end(kFormats) ? nullptr : found;
}

const Format& known_format_of(const std::filesystem::path& path) {
  if (const Format* const format = format_of(path)) return *format;
  throw Error(fmt::format("{}: not a sweep by its name, which must end in {}", path.string(),
                          kPointExtensions));
}

}  // namespace

PointCloud read_points(const std::filesystem::path& path) {
  known_format_of(path);  // a wrong name is told before a wrong file
  return parse_points(read_bytes(path), path);
}

PointCloud parse_points(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  return known_format_of(path).parse(bytes, path.string());
}

bool is_point_file(const std::filesystem::path& path) { return format_of(path) != nullptr; }

}  // namespace attest::core
