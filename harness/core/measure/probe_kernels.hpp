// The loops of the probe, for the best vectors that this CPU has.
#pragma once
#include <cstddef>
#include <cstdint>

namespace attest::core {

/// `rounds` times a fixed number of independent FP32 multiply-adds in registers. Returns the flops
/// done (2 each).
double run_multiply_adds(int64_t rounds);
/// Reads all whole vectors of `bytes` bytes at `data` (aligned to 64). Returns a value that depends
/// on every one of them.
uint32_t run_reads(const std::byte* data, size_t bytes);
/// Highway's name of the vectors in use.
const char* vectors_in_use();

}  // namespace attest::core
