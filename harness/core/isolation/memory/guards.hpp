// What lies around the elements of a tensor: canaries before, behind and between them; and poison
// in its elements.
#pragma once
#include <string>

#include "core/tensor/tensor.hpp"

namespace attest::core {

/// Which end of its memory a tensor lies at, so that one step beyond meets the guard page: an
/// overrun, or an underrun.
enum class Side { kEnd, kFront };

/// Canaries are NaNs in every floating-point dtype, so that reading a gap shows in a result, and
/// differ from poison. Those of inputs differ from those of outputs: a kernel that copies a gap
/// into another one shows too.
enum class Canary : uint16_t { kInput = 0xfffe, kOutput = 0x7ffd };

/// The memory of one tensor, or of the workspace: its map, and where the data lie in it, in bytes.
struct Surroundings {
  char* map = nullptr;
  int64_t map_bytes = 0, data_offset = 0, data_bytes = 0;
  const TensorSpec* spec = nullptr;  // null: no tensor, and no gaps between its elements
  Canary canary = Canary::kInput;
};

/// Bytes at either end of a gap that have canaries where the gap is beyond 4 KiB.
inline constexpr int64_t kGapEdge = 256;
/// Writes canaries into all gaps; of a vast gap between elements into its edges alone, so that a
/// sparse tensor stays sparse.
void write_canaries(const Surroundings& around);
/// The byte that a canary has at byte `at` of its map.
inline unsigned char canary_byte(Canary canary, int64_t at) {
  return static_cast<unsigned char>(uint16_t(canary) >> (at & 1 ? 8 : 0) & 0xff);
}
/// "" or what was written: "was written past its end, at byte 3 behind it".
std::string broken_canary(const Surroundings& around);

/// NaN into every element of the tensor and nowhere else.
void poison_tensor(const Tensor& tensor);
/// Whether every element still has it.
bool is_poison(const Tensor& tensor);
/// Bytes at either end of a workspace beyond twice so much that are filled: more would take longer
/// than the run.
inline constexpr int64_t kPoisonedWorkspace = int64_t{32} << 20;
/// What a workspace holds before a run. Nothing is promised of it, and each of these is a number
/// that some bug takes for its own: NaN; numbers in (0, 1), as weights, maxima and shares of the
/// work are; 1e30; 1.0f; zeros; the integer 1, as a semaphore or a flag may be.
enum class Leftover { kNaN, kFractions, kLarge, kOnes, kZeros, kIntegerOnes };
inline constexpr Leftover kLeftovers[] = {Leftover::kNaN,   Leftover::kFractions,
                                          Leftover::kLarge, Leftover::kOnes,
                                          Leftover::kZeros, Leftover::kIntegerOnes};
/// "NaN", "numbers in (0, 1)", ...
const char* name(Leftover leftover);
/// Writes it over the workspace, or over its ends.
void fill_workspace(void* workspace, int64_t bytes, Leftover leftover);

}  // namespace attest::core
