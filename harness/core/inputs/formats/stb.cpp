#include "core/inputs/formats/stb.hpp"

#include <memory>

#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_NO_SIMD  // one code path, so that every machine decodes to the same bytes
#define STBI_MAX_DIMENSIONS 16384
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace attest::core::stb {
namespace {

const stbi_uc* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const stbi_uc*>(bytes.data());
}

}  // namespace

std::optional<Size> read_size(std::span<const std::byte> bytes) {
  Size size{};
  int channels = 0;
  if (!stbi_info_from_memory(data_of(bytes), int(bytes.size()), &size.width, &size.height,
                             &channels))
    return std::nullopt;
  return size;
}

std::vector<uint8_t> decode_rgb(std::span<const std::byte> bytes, std::string& reason) {
  Size size{};
  int channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(data_of(bytes), int(bytes.size()), &size.width, &size.height, &channels,
                            3),
      &stbi_image_free);
  if (pixels) return {pixels.get(), pixels.get() + size_t(size.width) * size_t(size.height) * 3};
  const char* why = stbi_failure_reason();
  reason = why ? why : "no reason given";
  return {};
}

}  // namespace attest::core::stb
