// Honest softmax attention in any declared arithmetic, row by row: the output of a kernel that
// rounds exactly where it declares to. Plain and slow. The tolerance check runs it on a few rows,
// tests run it on many.
#pragma once
#include <cstdint>
#include <span>

#include "core/operations/operation.hpp"
#include "core/operations/softmax/arithmetic.hpp"

namespace attest::core {

/// What is multiplied by softmax_scale: the scores, or operands before they are rounded.
enum class ScalePlace {
  kScores,
  kQueries,
  kQueriesBase2,  // times log2(e), for an exp to the base of 2
  kBoth,          // Q and K by its root
  kCount
};

/// What a declaration leaves open. The defaults are the plainest kernel: the maximum of a row is
/// known first, keys in their order.
struct EmulationStyle {
  bool reversed = false;  // the last key comes first
  ScalePlace scale = ScalePlace::kScores;
  bool mixed_orders = false;  // every eighth dot product is summed in two halves, as at the edge of
                              // a vectorised loop
  bool cuts_towards_zero = false;  // the exp leans to one side by the error that is declared
  bool online = false;             // tiles are rescaled by that exp as the maximum rises
};

/// Calls sink(role, row, values) for O and, where there is one, LSE of each row (as row_offset
/// counts them, leading 3).
void emulate_softmax(const Problem& problem, const Tensors& tensors,
                     const SoftmaxArithmetic& arithmetic, const EmulationStyle& style,
                     std::span<const int64_t> rows, const EmulationSink& sink);

}  // namespace attest::core
