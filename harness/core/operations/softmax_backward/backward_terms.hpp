// The terms of sigma of the gradients of softmax attention.
#pragma once
#include "core/operations/term_factor.hpp"

namespace attest::core::backward {

/// Each stands for one error of honest arithmetic. README.md beside this file derives them.
enum class Term {
  kOutput,         // rounding of a gradient
  kSmallOutput,    // the same below the smallest normal number
  kScore,          // the logit: q.k, its scaling, the bias
  kArgument,       // logit - lse, and its product with log2(e)
  kProbability,    // p, relative; half a subnormal of its dtype besides
  kExp,            // the declared error of exp: of one sign, perhaps, in all pairs
  kCap,            // 1 - tanh^2 of a score under a softcap
  kAtCap,          // coarse scores at the softcap share the rounding of the cap
  kSharedBias,     // pairs with one bias may all round their logits alike
  kDot,            // do.v
  kDelta,          // do.o
  kCoarseDelta,    // delta, dO, O and their products rounded to less than float32
  kScoreOperands,  // Q and K rounded before q.k, each pair for itself
  kFoldedScale,    // the same to one side: the scale was multiplied into them before
  kCommonOperand,  // what all pairs of a sum read is rounded once: it moves all of them
  kValueOperands,  // dO and V rounded before do.v
  kRows,           // K, Q and dO rounded before ds k, ds q and p do
  kEqualRows,      // the same where their elements are equal
  kSmallOperands,  // all of these below the smallest normal number
  kGivenO,         // O as it is given is rounded; a kernel may know it better
  kRepeatedO,      // the same where channels of O are equal, since V has few codes
  kEqualO,         // both where queries are equal, and have one O: in sums over queries
  kGivenLse,       // likewise LSE
  kProduct,        // p and ds rounded to the operand of a product, and ds itself
  kSmallProduct,   // the same below the smallest normal number
  kLost,           // numbers so small that they become 0
  kEqual,          // equal keys, and equal queries, have equal logits: their errors add up
  kEqualPairs,     // equal keys, or queries, with one ds or p: all errors but that of O add up
  kAccumulator,    // sums over keys and over queries
  kSmallSum,       // the same below the smallest normal number; numbers alike err alike
  kOneWay,         // sums in less than float32 may err the same way at each step
  kEqualAddends,   // sums in float32 of equal numbers, whose additions err alike
  kAlikeAddends,   // the same of numbers that differ, but lie alike in the ulps of the sum
  kSwapped,        // keys near the edge of top_k that a rounded score moves across it
  kCount
};

inline double factor(Term term) { return ScopedTermFactor<Term>::of(term); }
/// Of a variance.
inline double squared(Term term) { return factor(term) * factor(term); }

}  // namespace attest::core::backward
