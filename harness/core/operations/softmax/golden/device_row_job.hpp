// The job of the kernels in row_kernels.cuh: the rows of a softmax golden, their keys, the
// addresses of the tensors, and the parameters of scores. Plain data that the host writes and the
// device reads. C++17, for nvcc 11.
#pragma once
#include <cstddef>
#include <cstdint>

namespace attest::core::row_job {

constexpr int kThreads = 128, kRows = 8;  // of a block of threads
constexpr int kKeys = 64;      // of a step; partial sums are inspected after each (kReachKeys)
constexpr int kChannels = 64;  // of V, for a block of threads
constexpr int kMostHeadDim = 256;

/// Describes the rows of a tensor on the device.
struct Source {
  const void* data;  // null: absent
  int32_t dtype;     // of attest.h
  int64_t stride;    // in elements: between channels; for bias and mask, between keys
};

/// One row. Offsets are in elements.
struct Row {
  int64_t q;           // offset of the query
  int64_t begin, end;  // the key positions that it may see
  int64_t bias, mask;  // offsets of key position 0
  double slope;        // of ALiBi; 0: none
  int64_t diagonal;    // the key position where ALiBi's distance is 0
  // For the second pass: WeightModel::lse, ::eta_kappa, ::q0, ::small, and SigmaModel::Flushing.
  double lse, eta_kappa, q0, small, lost, kept, below, cut;
};

/// Rows first .. first + count - 1 of Job::rows. They are of one sequence and key head; `begin` and
/// `end` bound the keys that any of them sees.
struct Block {
  int64_t first, count;
  int64_t begin, end;  // key positions
  int64_t places;      // index of the sequence's position 0 in Inputs::k_row
  int64_t k, v;        // offset of the key head in K and V
};

/// The inputs of all rows.
struct Inputs {
  Source q, k, v, bias, mask;
  const int64_t *k_row, *v_row;  // for each key position: offset of its row in K and V, head 0
  int64_t head_dim, head_dim_v;
  double scale, softcap;  // softcap 0: none
  int32_t staged;         // whether scores are computed in more than one step
};

/// For the second pass: the fields of WeightModel that are the same for all rows, and
/// SigmaModel::staged_square as two factors.
struct Model {
  double u_p, score2, q1, q2, a_share, of_dot, of_kept, slope_at_cap;
  double apart;          // SigmaModel::Flushing
  int32_t squares;       // SigmaModel::squares
  int32_t lone_weights;  // needs_a2
};

struct Job {
  Inputs in;
  Model model;
  const Row* rows;
  const Block* blocks;
  int64_t first_row;  // the row whose results begin at `out`; the next rows follow
  double* out;
};

/// The results of the first kernel for a row: RowScores, with the sum of exp(s - largest).
enum Score { kLeast, kLargest, kSum, kSeen, kScores };
/// The results of the second kernel: these numbers, then the vectors of RowSums, head_dim_v each.
enum Sum { kP2, kA2, kE2, kP2t, kP2q, kPx2, kSmall, kCommon, kMeanDot, kAtCap, kSums };
enum Vector {
  kPv,
  kReach,
  kP2v2,
  kA2v2,
  kE2v,
  kE2v2,
  kFlushed,
  kFlushedMost,
  kFlushedLeast,
  kUnsure,
  kUnsure2,
  kVectors
};

inline constexpr const char* kScoresKernel = "attest_softmax_row_scores";
inline constexpr const char* kSumsKernel = "attest_softmax_row_sums";

/// Blocks of threads for each Block in the second pass.
constexpr int64_t channel_blocks(int64_t head_dim_v) {
  return (head_dim_v + kChannels - 1) / kChannels;
}
/// Numbers that the second kernel writes for each row.
constexpr int64_t sums_of_row(int64_t head_dim_v) { return kSums + kVectors * head_dim_v; }

}  // namespace attest::core::row_job
