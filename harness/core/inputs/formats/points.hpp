// Reads LiDAR sweeps from files: .pcd (ascii, binary, binary_compressed), .ply (ascii, binary of
// either byte order), .bin (float32).
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
  std::vector<float> intensity;  ///< empty: the file has none
  /// The number of points dropped because a coordinate was NaN or infinite (in organised clouds).
  int64_t dropped = 0;

  size_t size() const { return x.size(); }
};

/// The largest plausible coordinate in metres (UTM northings end at 1e7 m). Larger ones mean a
/// wrong byte order or type.
inline constexpr double kLargestCoordinate = 2e7;

/// Reads the file in the format of its extension. Throws Error, one line with file, field and what
/// would be right: a missing, empty, truncated or malformed file, a header that promises more
/// points than follow, no point with finite coordinates, coordinates above kLargestCoordinate or
/// mostly below 1e-20 (wrong byte order), or an unknown extension.
PointCloud read_points(const std::filesystem::path& path);

/// Whether the file is a sweep by its extension.
bool is_point_file(const std::filesystem::path& path);
inline constexpr std::string_view kPointExtensions = ".pcd, .ply or .bin";

/// The same, from bytes. `path` gives the format, and the name in messages.
PointCloud parse_points(std::span<const std::byte> bytes, const std::filesystem::path& path);

/// PCD 0.7 (https://pointclouds.org/documentation/tutorials/pcd_file_format.html). Reads the fields
/// x y z, and `intensity` or `reflectivity`; skips others. FIELDS may be in any order. `name` is
/// for messages, here and below.
PointCloud parse_pcd(std::span<const std::byte> bytes, std::string_view name);

/// PLY 1.0 (Turk, "The PLY polygon file format", 1994). Reads the properties x y z, and intensity
/// or reflectivity, of the element `vertex`. Skips other properties and the elements before
/// `vertex`, lists included; ignores everything after it.
PointCloud parse_ply(std::span<const std::byte> bytes, std::string_view name);

/// Little-endian float32 without a header: 4 values a point (x y z intensity: KITTI), or 5 (and
/// ring: nuScenes, Ouster). There are 5 if every fifth value is a whole number in 0..1023 and the
/// size is a multiple of 20 bytes; if only the size does not fit, the file counts as truncated.
/// Otherwise there are 4, and the size must be a multiple of 16. Throws Error.
PointCloud parse_bin(std::span<const std::byte> bytes, std::string_view name);

namespace points_detail {
/// Appends a point, or counts it as dropped if a coordinate is not finite.
void add_point(PointCloud& cloud, const double (&position)[3], double intensity,
               bool has_intensity);
/// Returns the cloud. Throws Error if it has no point or an implausible coordinate.
PointCloud checked(PointCloud cloud, std::string_view name);
}  // namespace points_detail

}  // namespace attest::core
