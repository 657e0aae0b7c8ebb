// Fuzzer of ONNX models.
#include "core/vectors/formats/onnx.hpp"
#include "core/vectors/testing/fuzz_tensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  return fuzz_with(data, size, [](std::span<const std::byte> bytes) {
    const OnnxModel model = parse_onnx_model(bytes, "fuzz.onnx");
    demand(!model.nodes.empty(), "a model without nodes");
    use_tensors(model.initializers, bytes.size());
  });
}
