// safetensors: eight bytes that give the length of a JSON header, the header, the tensors' bytes one after the other.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/vectors/file_tensor.hpp"

namespace attest::core {

/// All tensors in the order of their bytes. Throws Error where the file is not whole: a header longer than the file, an unknown
/// dtype, offsets that overlap, leave a hole or do not fit the shape.
std::vector<FileTensor> parse_safetensors(std::span<const std::byte> bytes, std::string_view file_name);

}  // namespace attest::core
