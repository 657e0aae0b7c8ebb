// The loops of the probe, for the widest SIMD vectors of this CPU.
#pragma once
#include <cstddef>
#include <cstdint>

namespace attest::core {

/// Runs `rounds` times a fixed number of independent FP32 multiply-adds in registers. Returns the
/// number of flops, 2 for each multiply-add.
double run_multiply_adds(int64_t rounds);
/// Runs `rounds` times a fixed number of independent FP32 exponentials in registers. Returns the
/// number of exponentials. Their largest error is 1 ulp (Highway's Exp).
double run_exponentials(int64_t rounds);
/// Reads all whole vectors in the `bytes` bytes at `data`, which is aligned to 64 bytes, `passes`
/// times. Returns a value that depends on all of them.
uint32_t run_reads(const std::byte* data, size_t bytes, int64_t passes = 1);
/// Computes a = b + 0.5 c over three FP32 arrays of `count` elements each, aligned to 64 bytes,
/// `passes` times. `count` is a multiple of 64. STREAM calls this Triad (McCalpin 1995).
void run_triad(float* a, const float* b, const float* c, size_t count, int64_t passes);
/// Highway's name of the instruction set in use.
const char* vectors_in_use();

}  // namespace attest::core
