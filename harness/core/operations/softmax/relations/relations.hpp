// Relations of softmax attention beyond those that operations share; each is null where the problem
// has nothing to apply it to.
#pragma once
#include <memory>

#include "core/operations/relation.hpp"

namespace attest::core {

/// Keys that the same queries see, in the order of their scores with one of them, so that its
/// maximum rises at every key. BIAS and MASK go along.
std::unique_ptr<Relation> key_permutation(const Problem& problem, const Tensors& inputs);
/// Queries that see the same keys, shuffled.
std::unique_ptr<Relation> query_permutation(const Problem& problem, const Tensors& inputs);
/// K and V that a row does not see (behind the diagonal, outside of windows, beyond lengths, under
/// masks, in unread pages) and queries beyond the lengths, `wild`: NaN and infinities in their
/// place; else 64 times as large.
std::unique_ptr<Relation> hidden(const Problem& problem, const Tensors& inputs, bool wild);
/// One channel of Q and K adds the same to every logit of a row, 128 up in one row and down in the
/// next.
std::unique_ptr<Relation> common_shift(const Problem& problem, const Tensors& inputs);
/// The last channel of V is 1: so is that of O.
std::unique_ptr<Relation> row_sum(const Problem& problem, const Tensors& inputs);
/// Attention to the first three eighths of the keys and to the rest, merged by their log-sum-exp.
std::unique_ptr<Relation> split_merge(const Problem& problem, const Tensors& inputs);

}  // namespace attest::core
