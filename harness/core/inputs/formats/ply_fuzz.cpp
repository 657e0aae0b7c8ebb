// Fuzzer of the ply parser.
#include "core/inputs/testing/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  return fuzz_with(data, size, [](std::span<const std::byte> bytes) {
    use_points(parse_ply(bytes, "fuzz.ply"));
  });
}
