// The loops of the probe, for the widest SIMD vectors of this CPU.
#pragma once
#include <cstddef>
#include <cstdint>

namespace attest::core {

/// Runs `rounds` times a fixed number of independent FP32 multiply-adds in registers. Returns the
/// number of flops, 2 for each multiply-add.
double run_multiply_adds(int64_t rounds);
/// Reads all whole vectors in the `bytes` bytes at `data`, which is aligned to 64 bytes. Returns a
/// value that depends on all of them.
uint32_t run_reads(const std::byte* data, size_t bytes);
/// Highway's name of the instruction set in use.
const char* vectors_in_use();

}  // namespace attest::core
