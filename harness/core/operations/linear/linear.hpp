// Linear attention (Katharopoulos et al., "Transformers are RNNs", ICML 2020; LoFTR): o = phi(q)
// (sum phi(k)^T v) / (phi(q) sum phi(k) + eps), phi = elu + 1. Masks multiply phi. A masked key and
// its value are never read.
#pragma once
#include <memory>

#include "core/operations/linear/linear_arithmetic.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// ATTEST_LINEAR over attest_linear_params.
const Operation& linear_operation();

/// Operation::fill: writes q, k, v and the masks.
/// "random": normal numbers. "faint": q and some 16 keys are near -8, and the other keys are near
/// -30. The normaliser phi(q) sum phi(k) is then so small that an error in eps shows. If there is a
/// mask of keys, this fill hides whole tiles of them.
/// "large": in some keys and queries every other channel is some 50 times as large, and some values
/// are.
/// "cancelling": the true output is 0. Storing it rounds nothing, so the rounding inside a kernel
/// shows. "wild": as "random", with a few NaN that the masks let through.
void fill_linear(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own);

std::vector<std::unique_ptr<Relation>> linear_relations(const Problem& problem,
                                                        const Tensors& inputs);
std::vector<Variant> linear_variants(const Problem& problem);

/// The golden of every row, in float64. Time: O(tokens head_dim head_dim_v). Memory: a few matrices
/// [head_dim, head_dim_v] for each thread.
std::unique_ptr<Golden> linear_golden(const Problem& problem, const Tensors& tensors);

/// Operation::emulate.
void emulate_linear(const Problem& problem, const Tensors& tensors,
                    const LinearArithmetic& arithmetic, std::span<const int64_t> rows,
                    const EmulationSink& sink);

}  // namespace attest::core
