// What the multiprocessors of GPUs can do at most, from documents and not measured.
//
//   if (const GpuArchitecture* sm = find_gpu_architecture("sm_87"))
//     gflops = multiprocessors * mhz * 1e-3 * sm->tensor_f16;
#pragma once
#include <string_view>

namespace attest::core {

/// A multiprocessor of one architecture. Operations are those of a clock; a multiply-add counts as
/// 2. Tensor cores multiply dense matrices.
struct GpuArchitecture {
  std::string_view name;  // "sm_87"
  double f32;
  double tensor_f16;        // f16, and bf16 but for sm_75
  double tensor_tf32;       // 0: they have no TF32
  double shared_bytes;      // of one block at most; 0: not known
  std::string_view source;  // documents that have these figures, or a device's peaks to divide
};

/// Null: attest does not know it.
const GpuArchitecture* find_gpu_architecture(std::string_view name);

}  // namespace attest::core
