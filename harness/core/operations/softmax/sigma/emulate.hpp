// Honest softmax attention in any declared arithmetic, row by row: the output of a kernel that
// rounds exactly where it declares to. Plain and slow. The tolerance check runs it on a few rows,
// tests run it on many.
#pragma once
#include <cstdint>
#include <span>

#include "core/operations/operation.hpp"
#include "core/operations/softmax/arithmetic.hpp"

namespace attest::core {

/// What a kernel multiplies by softmax_scale: scores, or operands before it rounds them.
enum class ScalePlace {
  kScores,
  kQueries,
  kQueriesBase2,  // Q by softmax_scale log2(e), for an exp to the base of 2
  kBoth,          // Q and K by the root of softmax_scale
  kCount
};

/// How a kernel computes, as far as the declaration leaves it open. The defaults are the plainest
/// kernel: it finds the maximum of a row first, and takes keys in their order.
struct EmulationStyle {
  bool reversed = false;  // the last key comes first
  ScalePlace scale = ScalePlace::kScores;
  bool mixed_orders = false;  // every eighth dot product is summed in two halves, as at the edge of
                              // a vectorised loop
  bool cuts_towards_zero = false;  // exp errs to one side, by the declared error
  bool online = false;             // sums are rescaled by that exp as the maximum rises
  int64_t parts = 1;  // into which the keys are split; each rounds its p beside its own maximum
};

/// Calls sink(role, row, values) for O, and for LSE if the problem has one. `rows` are numbered as
/// in row_offset (leading 3).
void emulate_softmax(const Problem& problem, const Tensors& tensors,
                     const SoftmaxArithmetic& arithmetic, const EmulationStyle& style,
                     std::span<const int64_t> rows, const EmulationSink& sink);

}  // namespace attest::core
