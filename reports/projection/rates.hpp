// What processors can do at most in one clock, with sources, from documents and not measured.
#pragma once

namespace attest::reports {

/// The multiprocessor of a GPU.
struct MultiprocessorRates {
  const char* architecture;  // "sm_87"
  double tensor_flops;       // of dense f16 and bf16 products, a clock; a multiply-add counts as 2
  double shared_bytes;       // of one block at most
  const char* source;
};

inline constexpr MultiprocessorRates kSm80{
    "sm_80", 2048, 163 * 1024,
    "NVIDIA A100 white paper (312 TFLOP/s of 108 multiprocessors at 1.41 GHz); CUDA programming "
    "guide, compute capability 8.0"};
inline constexpr MultiprocessorRates kSm87{
    "sm_87", 2048, 163 * 1024,
    "NVIDIA Jetson AGX Orin technical brief; CUDA programming guide, compute capability 8.7"};
inline constexpr MultiprocessorRates kSm90{
    "sm_90", 4096, 227 * 1024,
    "NVIDIA H100 white paper (989 TFLOP/s of 132 multiprocessors at 1.83 GHz); CUDA programming "
    "guide, compute capability 9.0"};

/// Of a core of Cortex-A78AE: two pipes of 128 bits with fused multiply-adds.
inline constexpr double kA78Flops32 = 16, kA78Flops16 = 32;
inline constexpr const char* kA78Source =
    "Arm Cortex-A78AE software optimisation guide: two FMLA a clock";

}  // namespace attest::reports
