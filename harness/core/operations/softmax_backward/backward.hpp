// The gradients of softmax attention: dQ, dK and dV of the sum of dO * O, from Q, K, V, O, LSE and
// dO. README.md beside this file says what is judged and how.
//
//   p = exp(logit - lse), delta = do.o, ds = p (do.v - delta) c
//   c = 1 - tanh(scaled score / softcap)^2, or 1 without a softcap
//   dq = softmax_scale * sum over keys of ds k
//   dk = softmax_scale * sum over queries of ds q, dv = sum over queries of p do
//
// O and LSE count as they are given. A gradient of any key is then a sum over the queries alone, so
// that a sample of the keys can be judged at any size.
#pragma once
#include <memory>

#include "core/operations/operation.hpp"
#include "core/operations/softmax_backward/backward_arithmetic.hpp"

namespace attest::core {

/// ATTEST_SOFTMAX_BACKWARD over attest_softmax_params, whose neutral values are those of softmax.
const Operation& softmax_backward_operation();

namespace backward {

/// The forward problem whose O and LSE these gradients take.
Problem forward_problem(const Problem& problem);

/// Operation::fills and Operation::fill:
/// - "random": as that of softmax, with normal dO. Some rows of dO are 0.
/// - "cancelling": V and dO have large means, so that do.v and delta nearly cancel.
/// - "late": the last keys of each sequence have large scores. The last query of one head of each
///   key head gives all of its weight to one key, which has nearly no weight of other queries.
/// - "sized": kinds of rows take turns. Rows of the first kind have scores near 90, and those
///   of the second near -90, unless there is a softcap. In the third kind dO is 128 times as large,
///   and in the fourth it is 65,536 times smaller. In a fifth kind scores are below -10,000 and dO
///   is 1,024 times smaller. Problems with a softcap, top_k, ALiBi, rel_bias, shift_bias or 8 bits
///   do not have it.
/// - "wild": one element of dO is NaN, and one of Q. Not with top_k.
/// - "hidden": keys that no query sees are NaN, and so are queries that see no key. A problem has
///   this fill if it has a band, a mask, a bias or lengths, which may hide some. A mask and a bias
///   hide one key from all queries, all keys from one query, and all but one from another. A bias
///   has the finite numbers of write_finite_biases(), but not beside ALiBi, rel_bias or shift_bias.
/// - "top_k_levels", "top_k_close" and "top_k_wild" are the fills of softmax with top_k
///   (fills/top_k.hpp). Here "top_k_wild" has NaN in V alone. A run uses "top_k_close" only if the
///   user names it: rounding may swap its keys at the edge, and no known bug needs it.
/// - "codebook" and "codebook_peaked": keys and queries repeat, as in softmax, and O has a closed
///   form. Where it would take long to compute O of other inputs, a problem has these two and
///   "repeated" alone.
/// - "repeated" has the keys and queries of "codebook". Equal keys also have equal rows of V. Equal
///   queries have equal rows of dO with one sign and the other by turns. So the sums over queries
///   nearly cancel, and a few lost queries show. The gradients have a closed form. It judges all
///   rows of dQ, dK and dV for any number of tokens. A problem may have this fill if every query
///   sees every key, nothing is added to the scores, and it has neither top_k nor 8 bits. A run
///   uses the fill where the golden samples the rows of other inputs, or where the user names it.
///
/// O and LSE are computed in float64, by definition or by the closed form, and rounded to their
/// dtypes.
std::vector<std::string> fills(const Problem& problem);
inline constexpr const char* kRepeatedName = "repeated";
/// Operation::more_fills.
std::vector<std::string> more_fills(const Problem& problem);
void fill(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own);

/// Writes O and LSE of the other inputs, by definition, rounded to their dtypes: 0 and -inf where a
/// query sees no key.
void write_forward(const Problem& problem, const Tensors& tensors);
/// Whether that takes some seconds at most.
bool forward_is_cheap(const Problem& problem);

/// Which pairs of a query and a key the golden reads. Tests name the last two.
enum class Judged {
  kAffordable,  // as many as take some seconds
  kAllPairs,    // however long it takes
  kClasses      // those of classes, if there are any, even where all pairs are affordable
};
/// The golden in float64: every row of dQ, dK and dV, or, where that takes too long, a sample of
/// the rows of each head, and bounds of the others. If few rows of the inputs are distinct, it has
/// every row of any number of tokens (backward_classes.hpp), as long as the distinct rows have no
/// more pairs than the sample. Its memory grows with the tokens of one key head and of the
/// query heads that read it.
/// `ties_hold`: every kernel finds the same logits equal, so that top_k picks the same keys.
/// `repeats`: the fill kRepeatedName made the inputs. All of its sequences have the same few rows.
std::unique_ptr<Golden> golden(const Problem& problem, const Tensors& tensors,
                               bool ties_hold = false, Judged judged = Judged::kAffordable,
                               bool repeats = false);
/// Whether the golden has every row, whatever the inputs.
bool affords_all_rows(const Problem& problem);

/// The keys of a sequence of `length` keys whose rows of dK and dV that golden computes.
std::vector<int64_t> judged_keys(const Problem& problem, int64_t b, int64_t kv_head,
                                 int64_t length);

/// Operation::events and Operation::count_events. events/events.hpp lists them.
std::vector<NumericEvent> events(const Problem& problem);
std::set<std::string> count_events(const Problem& problem, const Tensors& inputs,
                                   const std::vector<bool>& judged);

std::vector<std::unique_ptr<Relation>> relations(const Problem& problem, const Tensors& inputs);

/// Operation::kernels: delta is taken from O, and sums run forwards; or delta is the sum of p do.v,
/// p is divided by a sum of its own, and sums run backwards.
inline constexpr int kKernels = 2;
/// Operation::emulate. A number stands for that row of dQ, dK and dV.
void emulate(const Problem& problem, const Tensors& tensors, const BackwardArithmetic& arithmetic,
             int kernel, std::span<const int64_t> rows, const EmulationSink& sink);

}  // namespace backward
}  // namespace attest::core
