// What the kernels of row_kernels.cuh are given: the rows of a softmax golden, their keys, where
// the tensors lie, what a score is made of. Plain data that the host fills in and a device reads;
// C++17, since nvcc 11 knows no more.
#pragma once
#include <cstddef>
#include <cstdint>

namespace attest::core::row_job {

constexpr int kThreads = 128, kRows = 8;  // a block's
constexpr int kKeys = 64;      // a step's; partial sums are looked at after each (kReachKeys)
constexpr int kChannels = 64;  // of V, a block's
constexpr int kMostHeadDim = 256;

/// A tensor of the device, as far as a row of it goes.
struct Source {
  const void* data;  // null: absent
  int32_t dtype;     // of attest.h
  int64_t stride;    // in elements: of channels, of a bias or a mask of keys
};

/// One row. Offsets are in elements.
struct Row {
  int64_t q;           // of its query
  int64_t begin, end;  // key places that it may see
  int64_t bias, mask;  // of key place 0
  double slope;        // ALiBi's; 0: none
  int64_t diagonal;    // where its distance is 0
  // Of the second pass: WeightModel::lse, ::eta_kappa, ::small, and SigmaModel::Flushing.
  double lse, eta_kappa, small, lost, kept;
};

/// Rows first .. first + count - 1 of Job::rows, of one sequence and key head, and the keys that
/// any of them sees.
struct Block {
  int64_t first, count;
  int64_t begin, end;  // key places
  int64_t places;      // of place 0 of the sequence in Job::k_row
  int64_t k, v;        // offset of the key head in K and V
};

/// What is read, for all rows.
struct Inputs {
  Source q, k, v, bias, mask;
  const int64_t *k_row, *v_row;  // offset of each key place's row in K and V, but for the head
  int64_t head_dim, head_dim_v;
  double scale, softcap;  // softcap 0: none
  int32_t staged;         // whether scores are made in more steps than one
};

/// Of the second pass: what is alike for all rows of WeightModel, and SigmaModel::staged_square as
/// two factors.
struct Model {
  double u_p, score2, q0, q1, q2, a_share, of_dot, of_kept;
  int32_t squares;       // SigmaModel::squares
  int32_t lone_weights;  // needs_a2
};

struct Job {
  Inputs in;
  Model model;
  const Row* rows;
  const Block* blocks;
  int64_t first_row;  // its numbers stand at `out`, those of the next row behind them
  double* out;
};

/// What the first kernel writes of a row: RowScores, with the sum of exp(s - largest).
enum Score { kLeast, kLargest, kSum, kSeen, kScores };
/// What the second one does: these, then RowSums' vectors one after the other, head_dim_v each.
enum Sum { kP2, kA2, kE2, kP2t, kP2q, kPx2, kSmall, kCommon, kMeanDot, kSums };
enum Vector { kPv, kReach, kP2v2, kA2v2, kE2v, kE2v2, kFlushed, kUnsure, kUnsure2, kVectors };

inline constexpr const char* kScoresKernel = "attest_softmax_row_scores";
inline constexpr const char* kSumsKernel = "attest_softmax_row_sums";

/// Blocks of threads that a Block takes in the second pass, and numbers that a row has then.
constexpr int64_t channel_blocks(int64_t head_dim_v) {
  return (head_dim_v + kChannels - 1) / kChannels;
}
constexpr int64_t sums_of_row(int64_t head_dim_v) { return kSums + kVectors * head_dim_v; }

}  // namespace attest::core::row_job
