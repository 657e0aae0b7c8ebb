// The relations that only softmax attention has. Each function returns null if the relation does
// not apply to the problem.
#pragma once
#include <memory>

#include "core/operations/relation.hpp"

namespace attest::core {

/// Sorts keys that the same queries see by their scores with one query, so that its running maximum
/// rises at every key. BIAS and MASK are permuted too.
std::unique_ptr<Relation> key_permutation(const Problem& problem, const Tensors& inputs);
/// Shuffles queries that see the same keys.
std::unique_ptr<Relation> query_permutation(const Problem& problem, const Tensors& inputs);
/// Changes keys and values that a row does not see (behind the diagonal, outside of windows, beyond
/// lengths, under masks, in unread pages), and queries beyond the lengths. `wild`: they become NaN
/// and infinities; otherwise they are multiplied by 64, up to half of what f16 holds.
std::unique_ptr<Relation> hidden(const Problem& problem, const Tensors& inputs, bool wild);
/// Adds 128 to every logit of a row and subtracts it in the next row, by one channel of Q and K.
std::unique_ptr<Relation> common_shift(const Problem& problem, const Tensors& inputs);
/// Sets the last channel of V to 1; that of O must be 1.
std::unique_ptr<Relation> row_sum(const Problem& problem, const Tensors& inputs);
/// For value_scales: what values are rounded to must hold the largest of them; the accumulator, any
/// sum of them.
std::vector<StageRange> value_ranges(const Problem& problem, const Tensors& inputs);
/// Attention to the first three eighths of the keys, and to the rest, merged by the log-sum-exps.
std::unique_ptr<Relation> split_merge(const Problem& problem, const Tensors& inputs);

}  // namespace attest::core
