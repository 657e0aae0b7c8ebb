#include "core/inputs/formats/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/inputs/formats/bytes.hpp"
#include "core/inputs/formats/stb.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

// Deflate packs 1,032 bytes into one; a png pixel may be one bit
constexpr int64_t kMostPixelsAByte = 10000;

/// `at` < bytes.size().
uint8_t byte_at(std::span<const std::byte> bytes, size_t index) {
  return std::to_integer<uint8_t>(bytes[index]);
}

/// Whether the Huffman tables of the segment at `at` (its marker) have at most 256 codes each.
/// stb_image 2.27 does not look and writes past its own table; it reads as long as the segment's
/// length says, be the rest another segment's.
bool huffman_tables_fit(std::span<const std::byte> bytes, size_t at, size_t length) {
  constexpr size_t kCounts = 16;
  size_t used = 2;
  while (used < length) {
    const size_t counts = at + 2 + used + 1;
    size_t codes = 0;
    for (size_t i = counts; i < std::min(counts + kCounts, bytes.size()); ++i)
      codes += byte_at(bytes, i);
    if (codes > 256) return false;
    used += 1 + kCounts + codes;
  }
  return true;
}

/// stb_image fills what a cut jpeg lacks with grey and calls it good: a whole one has an end marker
/// after its first scan. Error where there is none.
void check_jpeg(std::span<const std::byte> bytes, std::string_view name) {
  size_t start = 0;  // any number of 0xff may stand before a marker, the first one too
  while (start < bytes.size() && byte_at(bytes, start) == 0xff) ++start;
  if (start == 0 || start == bytes.size() || byte_at(bytes, start) != 0xd8) return;  // no jpeg
  bool scan = false;
  for (size_t i = start + 1; i + 1 < bytes.size();) {
    const uint8_t marker = byte_at(bytes, i + 1);
    const bool is_marker = byte_at(bytes, i) == 0xff && marker != 0xff;
    const bool has_length = is_marker && marker >= 0xc0 && !(marker >= 0xd0 && marker <= 0xd9);
    if (is_marker && marker == 0xd9 && scan) return;
    if (is_marker && marker == 0xda) scan = true;
    size_t length = 0;
    if (has_length && i + 3 < bytes.size())
      length = size_t(byte_at(bytes, i + 2)) << 8 | byte_at(bytes, i + 3);
    if (is_marker && marker == 0xc4 && !huffman_tables_fit(bytes, i, length))
      throw Error(fmt::format("{}: damaged jpg: a Huffman table at byte {} has more than 256 codes",
                              name, i));
    i += is_marker ? 2 + length : 1;
  }
  throw Error(fmt::format("{}: the jpg has no end marker: truncated?", name));
}

/// Weights of one output pixel over a run of input pixels; they sum to 1.
struct Taps {
  int first = 0;
  std::vector<double> weights;
};

Taps taps_at(int output, int input_size, int output_size) {
  const double scale = double(input_size) / output_size, radius = std::max(scale, 1.0);
  const double centre = (output + 0.5) * scale;
  Taps taps;
  taps.first = std::max(0, int(std::floor(centre - radius)));
  const int last = std::min(input_size - 1, int(std::floor(centre + radius)));
  double sum = 0;
  for (int i = taps.first; i <= last; ++i) {
    const double weight = std::max(0.0, 1 - std::fabs(i + 0.5 - centre) / radius);
    taps.weights.push_back(weight);
    sum += weight;
  }
  for (double& weight : taps.weights) weight /= sum;
  return taps;
}

/// Resizes along lines of `count` pixels `step` apart; there are `lines` such lines, `line_step`
/// apart.
struct Pass {
  int count, lines;
  size_t step, line_step;
};

void filter(const uint8_t* in, const Pass& from, uint8_t* out, const Pass& to) {
  for (int o = 0; o < to.count; ++o) {
    const Taps taps = taps_at(o, from.count, to.count);
    for (int line = 0; line < to.lines; ++line)
      for (size_t channel = 0; channel < 3; ++channel) {
        const uint8_t* pixel =
            in + line * from.line_step + size_t(taps.first) * from.step + channel;
        double sum = 0;
        for (const double weight : taps.weights) {
          sum += weight * *pixel;
          pixel += from.step;
        }
        out[line * to.line_step + size_t(o) * to.step + channel] = uint8_t(std::floor(sum + 0.5));
      }
  }
}

/// Smooth noise in [0, 1): random values on a lattice, blended by 3 t^2 - 2 t^3.
double lattice_noise(uint64_t seed, double x, double y) {
  const double x0 = std::floor(x), y0 = std::floor(y);
  const auto value = [&](int dx, int dy) {
    return double(
        random_uniform(seed, uint64_t(int64_t(x0) + dx) << 32 | uint32_t(int32_t(y0) + dy)));
  };
  const auto smooth = [](double t) { return t * t * (3 - 2 * t); };
  const double u = smooth(x - x0), v = smooth(y - y0);
  const double top = value(0, 0) + u * (value(1, 0) - value(0, 0)),
               bottom = value(0, 1) + u * (value(1, 1) - value(0, 1));
  return top + v * (bottom - top);
}

/// x, y in [0, 1): sky above, ground below, a road that widens towards the viewer.
std::array<double, 3> street_colour(uint64_t seed, double x, double y) {
  constexpr double kHorizon = 0.45;
  std::array<double, 3> colour = {0.45, 0.4, 0.3};
  if (y < kHorizon)
    colour = {0.5 + 0.3 * y, 0.6 + 0.3 * y, 0.9};
  else if (std::fabs(x - 0.5) < 0.05 + 0.8 * (y - kHorizon))
    colour = {0.3, 0.3, 0.32};
  const bool building = lattice_noise(seed + 1, x * 9, 0) * 0.5 > kHorizon - y && y < 0.62 &&
                        std::fabs(x - 0.5) > 0.12;
  if (building) colour = {0.55, 0.45, 0.4};
  for (int octave = 0; octave < 6; ++octave) {
    const double frequency = double(4 << octave);
    for (size_t channel = 0; channel < 3; ++channel)
      colour[channel] +=
          (lattice_noise(seed + 16 + uint64_t(octave) * 4 + channel, x * frequency, y * frequency) -
           0.5) *
          0.5 / (octave + 1);
  }
  return colour;
}

}  // namespace

Image parse_image(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.empty()) throw Error(fmt::format("{}: the file is empty", name));
  check_jpeg(bytes, name);
  const auto size = bytes.size() > size_t(INT32_MAX) ? std::nullopt : stb::read_size(bytes);
  if (!size) throw Error(fmt::format("{}: not an image: png or jpg is needed", name));
  const auto [width, height] = *size;
  const int64_t pixels = int64_t(width) * height;
  if (width < 1 || height < 1 || std::max(width, height) > kLargestImageSide ||
      pixels > kMostImagePixels)
    throw Error(fmt::format("{}: {} x {} pixels, at most {} a side and {} in all are read", name,
                            width, height, kLargestImageSide, kMostImagePixels));
  if (pixels / kMostPixelsAByte > int64_t(bytes.size()))
    throw Error(
        fmt::format("{}: the header promises {} x {} pixels, the file holds {} bytes: truncated?",
                    name, width, height, bytes.size()));
  std::string reason;
  std::vector<uint8_t> rgb = stb::decode_rgb(bytes, reason);
  if (rgb.size() != size_t(pixels) * 3)
    throw Error(fmt::format("{}: damaged or truncated image ({})", name, shown(reason)));
  return {width, height, std::move(rgb)};
}

bool is_image_file(const std::filesystem::path& path) {
  const std::string extension = lower_extension(path);
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

Image read_image(const std::filesystem::path& path) {
  return parse_image(read_bytes(path), path.string());
}

Image resize(const Image& image, int width, int height) {
  Image wide{width, image.height, std::vector<uint8_t>(size_t(width) * image.height * 3)};
  filter(image.rgb.data(), {image.width, image.height, 3, size_t(image.width) * 3}, wide.rgb.data(),
         {width, image.height, 3, size_t(width) * 3});
  Image result{width, height, std::vector<uint8_t>(size_t(width) * height * 3)};
  filter(wide.rgb.data(), {image.height, width, size_t(width) * 3, 3}, result.rgb.data(),
         {height, width, size_t(width) * 3, 3});
  return result;
}

Image synthetic_image(uint64_t seed, int width, int height) {
  Image image{width, height, std::vector<uint8_t>(size_t(width) * height * 3)};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const auto colour = street_colour(seed, (x + 0.5) / width, (y + 0.5) / height);
      for (size_t channel = 0; channel < 3; ++channel)
        image.rgb[(size_t(y) * width + x) * 3 + channel] =
            uint8_t(std::lround(std::clamp(colour[channel], 0.0, 1.0) * 255));
    }
  return image;
}

}  // namespace attest::core
