// stb_image behind two functions: its warnings, its undefined arithmetic and its macros stay in one
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

/// What the header says, nothing where it is no png or jpg. bytes.size() <= INT32_MAX.
std::optional<Size> read_size(std::span<const std::byte> bytes);

/// The pixels as [height, width, 3]; empty where the data is damaged, with stb_image's reason,
/// which may quote the file.
std::vector<uint8_t> decode_rgb(std::span<const std::byte> bytes, std::string& reason);

}  // namespace attest::core::stb
