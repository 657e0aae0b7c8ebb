// The module of the golden's kernels, as nvcc has made it (ATTEST_GOLDEN_MODULE names the file), or
// none.
#include "core/device/cuda/cuda_golden.hpp"

#ifdef ATTEST_GOLDEN_MODULE
asm(R"(
  .section .rodata
  .balign 16
  .type attest_golden_module, %object
attest_golden_module:
  .incbin ")" ATTEST_GOLDEN_MODULE R"("
  .type attest_golden_module_end, %object
attest_golden_module_end:
  .byte 0
  .previous
)");
extern "C" const std::byte attest_golden_module[], attest_golden_module_end[];
#endif

namespace attest::core {

std::span<const std::byte> golden_module() {
#ifdef ATTEST_GOLDEN_MODULE
  return {attest_golden_module, attest_golden_module_end};
#else
  return {};
#endif
}

}  // namespace attest::core
