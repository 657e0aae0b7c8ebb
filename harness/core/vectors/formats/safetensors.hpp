// safetensors: eight bytes that give the length of a JSON header, the header, the tensors' bytes
// one after the other.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/tensor.hpp"
#include "core/vectors/formats/file_tensor.hpp"

namespace attest::core {

/// All tensors in the order of their bytes. Throws Error if the file is damaged: a header longer
/// than the file, an unknown dtype, offsets that overlap, leave a hole or do not match the shape.
std::vector<FileTensor> parse_safetensors(std::span<const std::byte> bytes,
                                          std::string_view file_name);

struct NamedTensor {
  std::string name;
  Tensor tensor;  // may have any strides; the file has it in the order of its dims
};
/// Writes the tensors, bit for bit. Throws Error: a dtype that the format does not have, a file
/// that would be too large to read, or that cannot be written.
void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors);

}  // namespace attest::core
