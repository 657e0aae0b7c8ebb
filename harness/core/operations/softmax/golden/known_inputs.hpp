// What the golden for any inputs may know of them.
#pragma once
#include <memory>

#include "core/operations/golden_device.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"

namespace attest::core {

struct KnownInputs {
  /// kFewCodes: keys and queries are taken from a few vectors (SigmaModel::take_few_codes). kHuge:
  /// likewise; also, all keys that rows see are alike in channel 0, and scores are large by it.
  enum class Vectors { kAny, kFewCodes, kHuge };
  Vectors vectors = Vectors::kAny;
  RowBudget budget = {};
  WantedPlaces wanted = {};  // the rows that a sample should have
};

/// The golden for any inputs. `device` computes the rows if the host would take long; it may be
/// null. It does not compute Vectors::kHuge.
std::unique_ptr<Golden> golden_of(const Problem& problem, const Tensors& tensors,
                                  const KnownInputs& known, const GoldenDevice* device = nullptr);

}  // namespace attest::core
