#include "core/vectors/formats/formats.hpp"

#include <algorithm>
#include <string>

#include "core/vectors/formats/npy.hpp"
#include "core/vectors/formats/onnx.hpp"
#include "core/vectors/formats/safetensors.hpp"

namespace attest::core {
namespace {

constexpr TensorFormat kFormats[] = {
    {".safetensors", true, false, parse_safetensors},
    {".npy", false, false,
     [](std::span<const std::byte> bytes, std::string_view file_name) {
       return std::vector<FileTensor>{parse_npy(bytes, file_name)};
     }},
    {".npz", true, false, parse_npz},
    {".pb", false, true, [](std::span<const std::byte> bytes, std::string_view file_name) {
       return std::vector<FileTensor>{parse_onnx_tensor(bytes, file_name)};
     }}};

}  // namespace

std::span<const TensorFormat> tensor_formats() { return kFormats; }

const TensorFormat* tensor_format(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  const auto* const found = std::ranges::find(kFormats, extension, &TensorFormat::extension);
  return found == std::end(kFormats) ? nullptr : found;
}

bool holds_cases(const std::filesystem::path& file) {
  const TensorFormat* const format = tensor_format(file);
  return format && format->holds_cases;
}

}  // namespace attest::core
