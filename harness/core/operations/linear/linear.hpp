// Linear attention (Katharopoulos et al., "Transformers are RNNs", ICML 2020; LoFTR): o = phi(q)
// (sum phi(k)^T v) / (phi(q) sum phi(k) + eps), phi = elu + 1. Masks multiply phi; what a masked
// key holds is never read.
#pragma once
#include <memory>

#include "core/operations/linear/linear_arithmetic.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// ATTEST_LINEAR over attest_linear_params.
const Operation& linear_operation();

/// Writes q, k, v and the masks. "random": normal. "faint": q near -8, and so are some 16 keys,
/// while the others are near -30: phi(q) sum phi(k) is small and eps shows. "cancelling": the true
/// output is 0, so that nothing of it is rounded when it is stored, and what a kernel computes in
/// shows.
void fill_linear(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own);

std::vector<std::unique_ptr<Relation>> linear_relations(const Problem& problem,
                                                        const Tensors& inputs);
std::vector<Variant> linear_variants(const Problem& problem);

/// Float64, every row, O(tokens head_dim head_dim_v) time; a few matrices [head_dim, head_dim_v] a
/// thread of memory.
std::unique_ptr<Golden> linear_golden(const Problem& problem, const Tensors& tensors);

/// Operation::emulate.
void emulate_linear(const Problem& problem, const Tensors& tensors,
                    const LinearArithmetic& arithmetic, std::span<const int64_t> rows,
                    const EmulationSink& sink);

}  // namespace attest::core
