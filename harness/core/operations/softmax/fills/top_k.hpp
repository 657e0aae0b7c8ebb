// The fills of problems with top_k.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations/golden.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

inline constexpr std::string_view kTopKCloseName = "top_k_close", kTopKWildName = "top_k_wild";

/// Whether a fill is one of those below.
bool is_top_k_fill(std::string_view fill);
/// The fills of a problem with top_k besides "random":
///   top_k_levels  Logits have few levels far apart. At the edge of most rows several keys are
///                 equal, in every arithmetic and order; the next level is far from it. In five
///                 rows of eight, logits are all below 0, far from 0, all equal, or a few of them
///                 far below the others.
///   top_k_close   The four keys of a group have the same channels, each in an order of its own.
///                 Their scores differ only by roundings, so kernels disagree on which keys count.
///   top_k_wild    top_k_levels with a few NaN and infinities in V, which may show only in rows in
///                 which their keys count, with a query of each head whose logits are NaN, and
///                 with a NaN in one key of the last head. For gradients, only V has NaN, and
///                 nothing is infinite. Problems with ALiBi, a shift bias or a softcap do not have
///                 this fill, since their edges are not clear enough.
std::vector<std::string> top_k_fills(const Problem& problem);
/// Whether logits that this fill makes equal are equal in every kernel, however it rounds.
bool top_k_ties_hold(const Problem& problem, std::string_view fill);
/// Writes Q, K, BIAS and REL_BIAS, and what is not finite into V, over the inputs of "random".
/// Edits a MASK or BIAS of pairs so that some rows see just top_k keys, one more, or one less.
void write_top_k(const Problem& problem, const Fill& fill, const Tensors& tensors);
/// The golden of these fills.
std::unique_ptr<Golden> top_k_golden(const Problem& problem, const Fill& fill,
                                     const Tensors& tensors);

}  // namespace attest::core
