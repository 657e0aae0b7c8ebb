// Fuzzer of the npz parser.
#include "core/vectors/formats/npy.hpp"
#include "core/vectors/testing/fuzz_tensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  return fuzz_with(data, size, [](std::span<const std::byte> bytes) {
    use_tensors(parse_npz(bytes, "fuzz.npz"), bytes.size());
  });
}
