// Fuzzer of the image decoder with our limits around it.
#include "core/inputs/formats/image.hpp"
#include "core/inputs/testing/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  return fuzz_with(data, size, [](std::span<const std::byte> bytes) {
    const Image image = parse_image(bytes, "fuzz.png");
    demand(image.rgb.size() == size_t(image.width) * image.height * 3, "pixels are missing");
    if (image.rgb.size() < 1 << 20)
      demand(resize(image, 7, 5).rgb.size() == 7 * 5 * 3, "a resized image has another size");
  });
}
