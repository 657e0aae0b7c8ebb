// Images from png and jpg files, resized and ready to be cut into patches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace attest::core {

/// 8-bit red, green, blue, rows from the top; rgb is [height, width, 3].
struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

inline constexpr int kLargestImageSide = 16384;
inline constexpr int64_t kMostImagePixels = int64_t{1} << 26;

/// Reads a png or jpg file. Error as of parse_image, or where the file is missing or unreadable.
Image read_image(const std::filesystem::path& path);

/// Decodes png or jpg by stb_image's scalar paths, the same bytes on every machine; alpha is
/// dropped, grey is spread. Error, one line: not such an image, truncated, damaged, a side beyond
/// kLargestImageSide, more than kMostImagePixels, or more pixels than the bytes can hold.
Image parse_image(std::span<const std::byte> bytes, std::string_view name);

/// Triangle filter as wide as the scale where the image shrinks (as PIL's antialiased bilinear),
/// plain bilinear where it grows. float64 arithmetic, rounded to nearest once a direction. width,
/// height >= 1.
Image resize(const Image& image, int width, int height);

/// A seeded picture with a horizon, a road and texture of several scales, where no file is named.
Image synthetic_image(uint64_t seed, int width, int height);

}  // namespace attest::core
