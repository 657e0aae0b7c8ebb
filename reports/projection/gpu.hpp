// The least time of a record's problem on a GPU, from the GPU's published limits and the tiles that
// they allow.
//
// A block of threads keeps a tile of rows of Q in shared memory, beside two stages of 64 keys, and
// reads all keys and values of its head once. So
//   - shared memory limits the rows of a tile: 128, 64, 32 or 16 of them;
//   - blocks run in waves of one a multiprocessor, of which the last is not full; those of causal
//     problems have more work the later their rows are;
//   - a wave reads K and V of a head once. Where L2 holds them, later waves find them there;
//     otherwise each wave reads them from memory (Dao et al., "FlashAttention", NeurIPS 2022, count
//     reads likewise).
#pragma once
#include <optional>
#include <string>

#include "core/datasheets/gpu_architectures.hpp"
#include "core/record/results.hpp"
#include "reports/projection/boards.hpp"
#include "reports/projection/bound.hpp"

namespace attest::reports {

struct GpuLimits {
  std::string name;                                     // "NVIDIA H100 80GB HBM3"
  const core::GpuArchitecture* architecture = nullptr;  // never null, with shared_bytes
  int multiprocessors = 0;
  double mhz = 0, l2_bytes = 0, memory_gbs = 0;  // l2_bytes 0: not known
};

/// Of the board's GPU.
GpuLimits gpu_of(const BoardMode& board);
/// Of the GPU on which a record was timed, at the clock that was seen then. Nothing, and `why`: it
/// is none whose limits attest knows, or its clock was not seen.
std::optional<GpuLimits> gpu_of(const core::Results& file, const core::Record& record,
                                std::string& why);

/// The rows of a tile that shared memory allows; 0: not even 16.
int tile_rows(double shared_bytes, int64_t head_dim, int64_t head_dim_v, double element_bytes);

/// Known for softmax attention whose products are in f16 or bf16, without a workspace larger than
/// its tensors.
MaybeBound bound_on(const GpuLimits& gpu, const core::Record& record);

}  // namespace attest::reports
