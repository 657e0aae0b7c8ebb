// What a fill tells the golden that computes rows one by one.
#pragma once
#include <memory>

#include "core/operations/golden_device.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"

namespace attest::core {

struct KnownInputs {
  /// kFewCodes: keys and queries are taken from a few vectors (SigmaModel::take_few_codes). kHuge:
  /// the same holds, and all keys that rows see have one large number in channel 0, which makes all
  /// scores large.
  enum class Vectors { kAny, kFewCodes, kHuge };
  Vectors vectors = Vectors::kAny;
  bool values_may_follow = false;  // from keys, as those of tokens do: SigmaModel::take_any_values
  // Logits that are equal in the golden are equal in every honest kernel (passes::TopKSwaps).
  bool ties_hold = false;
  bool few_scores = false;     // scores take few values: SigmaModel::take_few_scores
  bool scores_spread = false;  // over thousands: SigmaModel::take_spread_scores
  /// The magnitude of operands of QK that are multiplied with subnormal ones:
  /// SigmaModel::take_subnormal_operands. 0: none are.
  double beside_subnormals = 0;
  RowBudget budget = {};
  WantedPlaces wanted = {};  // the rows that a sample should have
};

/// The golden that computes rows one by one, whatever the inputs are. `device` computes them if the
/// host would take long, except for Vectors::kHuge; it may be null.
std::unique_ptr<Golden> golden_of(const Problem& problem, const Tensors& tensors,
                                  const KnownInputs& known, const GoldenDevice* device = nullptr);

}  // namespace attest::core
