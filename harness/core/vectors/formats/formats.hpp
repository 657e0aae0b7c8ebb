// The file formats of tensors. A new one is an entry of the table in formats.cpp and a word in the
// constants below; what reads and lists files follows from it.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/vectors/formats/file_tensor.hpp"

namespace attest::core {

struct TensorFormat {
  std::string_view extension;  // ".npy"
  bool holds_cases;            // a file may have all tensors of a case, by their names
  bool needs_onnx;             // reads_onnx() has to be true
  /// Throws Error: the file is damaged.
  std::vector<FileTensor> (*parse)(std::span<const std::byte> bytes, std::string_view file_name);
};
std::span<const TensorFormat> tensor_formats();

/// The format of a file by its extension; null: none.
const TensorFormat* tensor_format(const std::filesystem::path& file);
/// Whether the extension is that of a format that holds cases.
bool holds_cases(const std::filesystem::path& file);

/// The table's extensions in words, for messages: all, and those that hold cases.
inline constexpr std::string_view kAnyTensorFile = "a .safetensors, .npy, .npz or .pb file",
                                  kFilesOfCases = ".safetensors and .npz files";

}  // namespace attest::core
