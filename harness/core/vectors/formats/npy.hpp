// .npy holds one NumPy array: magic, version, a header that is a Python dict, the elements. .npz is
// a zip archive of them.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensor/tensor.hpp"
#include "core/vectors/formats/file_tensor.hpp"

namespace attest::core {

/// The array of an .npy file. Throws Error if it is in Fortran order, big-endian, of objects or
/// records, or not as long as its shape says.
FileTensor parse_npy(std::span<const std::byte> bytes, std::string_view file_name);

/// The arrays of an .npz file in the order of the archive, named without ".npy". Members may be
/// stored or deflated. Sizes are checked before anything is unpacked. Throws Error.
std::vector<FileTensor> parse_npz(std::span<const std::byte> bytes, std::string_view file_name);

/// Writes the elements in the order of the dims, bit for bit. NumPy has no bfloat16: its elements
/// become float32, which has all of them. Throws Error: a dtype that NumPy does not have, an array
/// that would be too large to read, or a file that cannot be written.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace attest::core
