// Golden + output -> judgement.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/judge/locate.hpp"
#include "core/judge/verdict.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// One element of an output.
struct Mismatch {
  std::string tensor;          // role name
  std::vector<int64_t> index;  // in the order of the tensor's dims
  double expected = 0, got = 0;
  double sigma = 0;  // 0 in a sweep; `expected` is then the bound that was exceeded
  double ratio = 0;  // |got - expected| / (kLargest * sigma)
};

struct Judgement {
  Outcome outcome;
  // Largest error / its gate; <= 1 passes; infinite if there is no finite error
  double max_ratio = 0;
  double rms_ratio = 0;  // root mean square error / its gate
  std::optional<Mismatch> worst;
  std::optional<Location> location;  // if it failed and elements are wrong by themselves
  // Of the other outputs with such elements, if there are any
  std::optional<std::vector<Location>> more_locations;
  std::optional<std::string> guess;          // guess_mistake of the record's first location
  int64_t exact_elements = 0;                // compared with their true value
  int64_t swept_elements = 0;                // compared with a range
  std::string method;                        // Golden::method
  std::optional<std::string> golden_device;  // Golden::device; absent: the host
};

/// Returns whether the output looks like that of other inputs: an element is beyond its gate, or no
/// element could be compared. The root mean square does not matter. If the tolerance model is at
/// fault, the output is not far off.
inline bool is_far_off(const Judgement& judgement) {
  return judgement.outcome.is_bad() && judgement.outcome.code != ReasonCode::kErrorToleranceModel &&
         !(judgement.max_ratio <= 1);
}

/// The locations of all outputs.
std::vector<Location> locations(const Judgement& judgement);
/// Sets the locations to those of locate_all.
void set_locations(Judgement& judgement, std::vector<Location> found);

/// Judges all outputs of `problem` in `tensors`. The ratios come from exact chunks; a sweep can
/// only fail an output. If `inputs` is not null, the tolerance check runs before fail:tolerance: if
/// the emulated arithmetic exceeds the gates too, and the output is at most Gates::kBeyondEmulation
/// times as far off, the outcome is error:tolerance-model. Otherwise the reason gives the error of
/// the emulation. Throws GoldenRefused if the golden does not confirm a row that would fail.
Judgement judge(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic,
                const Tensors& tensors, const Tensors* inputs = nullptr);

}  // namespace attest::core
