// Where ONNX's schema was not found when the build was configured.
#include <fmt/format.h>

#include "core/tensor/error.hpp"
#include "core/vectors/formats/onnx.hpp"

namespace attest::core {
namespace {

[[noreturn]] void refuse(std::string_view file_name) {
  throw Error(
      fmt::format("{}: this build reads no ONNX files: libonnx-dev and libprotobuf-dev were not "
                  "there when it was configured",
                  file_name));
}

}  // namespace

bool reads_onnx() { return false; }
FileTensor parse_onnx_tensor(std::span<const std::byte>, std::string_view file_name) {
  refuse(file_name);
}
OnnxModel parse_onnx_model(std::span<const std::byte>, std::string_view file_name) {
  refuse(file_name);
}

}  // namespace attest::core
