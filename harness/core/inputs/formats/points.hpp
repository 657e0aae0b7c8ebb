// LiDAR sweeps from files: .pcd (ascii, binary, binary_compressed), .ply (ascii, binary of both
// ends), .bin (float32).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace attest::core {

/// Points in metres in the sensor's or the map's frame; all coordinates are finite.
struct PointCloud {
  std::vector<float> x, y, z;
  std::vector<float> intensity;  ///< empty where the file has none
  // /< points left out because a coordinate was NaN or infinite (organised clouds hold such)
  int64_t dropped = 0;

  size_t size() const { return x.size(); }
};

/// No sensor or map frame reaches further (UTM northings end at 1e7 m): larger coordinates are
/// another byte order or type.
inline constexpr double kLargestCoordinate = 2e7;

/// Reads the file in the format that its extension names. Error, one line with file, field and what
/// would be right: missing, empty, truncated or malformed file, header that promises more points
/// than follow, no point with finite coordinates, coordinates beyond kLargestCoordinate or mostly
/// below 1e-20 (wrong byte order), unknown extension.
PointCloud read_points(const std::filesystem::path& path);

/// The same from bytes already read; `path` gives the format and the name in messages.
PointCloud parse_points(std::span<const std::byte> bytes, const std::filesystem::path& path);

/// PCD 0.7 (https://pointclouds.org/documentation/tutorials/pcd_file_format.html): FIELDS in any
/// order, of which x y z are read, and `intensity` or `reflectivity`; the others are skipped.
/// `name` goes into the messages.
PointCloud parse_pcd(std::span<const std::byte> bytes, std::string_view name);

/// PLY 1.0 (Turk, "The PLY polygon file format", 1994): the properties x y z (and intensity or
/// reflectivity) of the element `vertex`; other properties and the elements before it are skipped,
/// lists included; what follows it is not looked at.
PointCloud parse_ply(std::span<const std::byte> bytes, std::string_view name);

/// Headerless little-endian float32, 4 (x y z intensity: KITTI) or 5 values a point (and ring:
/// nuScenes, Ouster). The width: 5 where the size is a multiple of 20 bytes and every fifth value
/// is a whole number in 0..1023, a ring; else 4 where the size is a multiple of 16. Every fifth
/// value being a whole number in a file of no multiple of 20 bytes is taken for a truncated file
/// of 5. Other sizes are Errors.
PointCloud parse_bin(std::span<const std::byte> bytes, std::string_view name);

namespace points_detail {
/// Common end of the parsers: appends a point, or counts it where a coordinate is not finite.
void add_point(PointCloud& cloud, const double (&position)[3], double intensity,
               bool has_intensity);
/// Error where no point is left or a coordinate is too large; returns the cloud.
PointCloud checked(PointCloud cloud, std::string_view name);
}  // namespace points_detail

}  // namespace attest::core
