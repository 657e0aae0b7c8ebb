// What softmax attention has between Q K^T and its output, in float64: ONNX's qk_matmul_output.
#pragma once
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// Modes of ONNX (v1.22 and later).
enum ScoreMode { kRawScores = 0, kCappedScores = 1, kBiasedScores = 2, kProbabilities = 3 };

/// [batch, num_heads, seq_len_q, seq_len_kv] of a softmax problem that is neither packed nor paged.
/// From mode 2 on a pair that is hidden has -inf; the probabilities of a row that sees no key are
/// 0. `tensors`: the problem's inputs.
std::vector<double> softmax_scores(const Problem& problem, const Tensors& tensors, int mode);

}  // namespace attest::core
