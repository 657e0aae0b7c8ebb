// stb_image behind two functions, so that its warnings, undefined arithmetic and macros stay in one
// file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attest::core::stb {

struct Size {
  int width, height;
};

/// The size in the header; nothing if the bytes are not a png or jpg. bytes.size() <= INT32_MAX.
std::optional<Size> read_size(std::span<const std::byte> bytes);

/// The pixels, [height, width, 3]. If the data is damaged, the result is empty and `reason` is
/// stb_image's message, which may quote the file.
std::vector<uint8_t> decode_rgb(std::span<const std::byte> bytes, std::string& reason);

}  // namespace attest::core::stb
