// Fuzzer of the token sources: what is parsed prints to a text that parses to the same.
#include "core/inputs/testing/fuzz.hpp"
#include "core/inputs/tokens.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  return fuzz_with(data, size, [](std::span<const std::byte> bytes) {
    const std::string text =
        print(parse_token_source({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    demand(print(parse_token_source(text)) == text, "print and parse are not inverse");
  });
}
