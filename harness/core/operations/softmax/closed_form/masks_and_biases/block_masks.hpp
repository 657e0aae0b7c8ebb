// Fills BLOCK_MASK.
#pragma once
#include <cstdint>

#include "core/operations/operation.hpp"

namespace attest::core {

/// How much of a block mask is seen.
enum class BlockDensity {
  kSparse,  // about an eighth, as in kernels that skip blocks; rows of blocks are drawn one by one
  kDense    // about two thirds; the rows of blocks of a head have at most 16 patterns
};

/// Fills BLOCK_MASK [batch|1, num_heads|1, rows of blocks, columns of blocks]. The rows of blocks
/// of a head take turns: all blocks seen, none, the first alone, the last alone, all but the first
/// or the last, those near the diagonal, every other block, some at random. Each head begins with
/// another, so that a few rows show many.
void fill_block_mask(const Tensor& block_mask, uint64_t seed, BlockDensity density);

}  // namespace attest::core
