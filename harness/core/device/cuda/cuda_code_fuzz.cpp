// Fuzzes the reader of CUDA code in libraries: no file crashes it, and no container of no file has
// more kinds of code than there are entries.
#include <cstdlib>

#include "core/device/cuda/cuda_code.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  const std::vector<CudaCode> codes = parse_cuda_code(std::as_bytes(std::span(data, size)));
  constexpr size_t kEntry_bytes = 64;
  if (codes.size() > size / kEntry_bytes) std::abort();
  if (codes.empty() != print(codes).empty()) std::abort();
  for (const CudaCode& code : codes)
    if (code.architecture >= 0 && fit(code, code.architecture) != CudaFit::kYes) std::abort();
  return 0;
}
