// Reads png and jpg images and resizes them.
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

/// Whether the file is an image by its extension.
bool is_image_file(const std::filesystem::path& path);
inline constexpr std::string_view kImageExtensions = ".png, .jpg or .jpeg";

inline constexpr int kLargestImageSide = 16384;
inline constexpr int64_t kMostImagePixels = int64_t{1} << 26;

/// Reads a png or jpg file. Throws Error as parse_image does, or if the file cannot be read.
Image read_image(const std::filesystem::path& path);

/// Decodes png or jpg by the scalar code of stb_image, so that every machine gets the same bytes.
/// Drops alpha; copies grey to all channels. Throws Error: not a png or jpg, truncated, damaged, a
/// side longer than kLargestImageSide, more than kMostImagePixels, or more pixels than the bytes
/// can hold. `name` is for messages.
Image parse_image(std::span<const std::byte> bytes, std::string_view name);

/// Shrinks with a triangle filter as wide as the scale (PIL's antialiased bilinear) and enlarges
/// bilinearly. Computes in float64 and rounds to nearest once in each direction. width, height
/// >= 1.
Image resize(const Image& image, int width, int height);

/// The built-in picture: a seeded horizon and road, with texture of several scales.
Image synthetic_image(uint64_t seed, int width, int height);

}  // namespace attest::core
