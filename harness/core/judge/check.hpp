// Golden + output -> judgement.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/judge/verdict.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// One element of an output.
struct Mismatch {
  std::string tensor;          // role name
  std::vector<int64_t> index;  // in the order of the tensor's dims
  double expected = 0, got = 0;
  double sigma = 0;  // 0 in a sweep, where `expected` is the bound that was left
  double ratio = 0;  // |got - expected| / (kLargest * sigma)
};

struct Judgement {
  Outcome outcome;
  // Largest error / its gate; <= 1 passes; infinite where no error can be given
  double max_ratio = 0;
  double rms_ratio = 0;  // root mean square error / its gate
  std::optional<Mismatch> worst;
  int64_t exact_elements = 0;                // judged against an exact value
  int64_t swept_elements = 0;                // judged against the range they may have
  std::string method;                        // Golden::method
  std::optional<std::string> golden_device;  // Golden::device; absent: the host
};

/// Judges all outputs of `problem` lying in `tensors`. Exact chunks give the ratios; sweeps only
/// fail. With `inputs`, what would be fail:tolerance is error:tolerance-model where the declared
/// arithmetic, emulated, exceeds the gates itself and comes near; where it does not come near, the
/// reason says how far it gets. Throws GoldenRefused where the golden does not confirm a row by
/// which something is to be failed.
Judgement judge(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic,
                const Tensors& tensors, const Tensors* inputs = nullptr);

}  // namespace attest::core
