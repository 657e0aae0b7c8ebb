// The scores and probabilities of softmax attention in float64, for ONNX's qk_matmul_output.
#pragma once
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// The values of qk_matmul_output_mode (ONNX 1.22 and later).
enum ScoreMode { kRawScores = 0, kCappedScores = 1, kBiasedScores = 2, kProbabilities = 3 };

/// The scores [batch, num_heads, seq_len_q, seq_len_kv] of a softmax problem that is neither packed
/// nor paged. From mode 2 on, hidden pairs have -inf. In mode 3, a row that sees no key has 0.
/// `tensors`: the problem's inputs.
std::vector<double> softmax_scores(const Problem& problem, const Tensors& tensors, int mode);

}  // namespace attest::core
