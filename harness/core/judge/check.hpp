// Golden + output -> judgement. The only home of the thresholds.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/judge/verdict.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// Gates, in standard deviations of the error that the declared arithmetic may make. An honest kernel's largest error stays near
/// 3 sigma over a million elements and its root mean square below 1. README.md beside this file derives sigma and says why these.
struct Gates {
  static constexpr double kLargest = 6.0;
  static constexpr double kRms = 1.5;
  /// The gate of a root mean square over `rows` rows that err independently: kRms from 95 rows on. Elements of one row share its
  /// errors, and over few rows a mean is not much steadier than one error: a single one exceeds 1.5 sigma one time in eight. The
  /// bound is the tail of chi squared that is exceeded with a chance of e^-18 (Laurent and Massart, Adaptive estimation of a
  /// quadratic functional by model selection, Annals of Statistics 28(5), 2000, lemma 1), and never above kLargest.
  static double rms(int64_t rows);
  /// Where an element's own rounding is at least kOwnRounding of its sigma, errors point either way: their mean, away from 0 and
  /// in sigmas, stays below kOneSided and four of its own standard deviations. Who cuts in place of rounding has 1.25 there, and
  /// a root mean square of 1.47 that no gate for honest kernels sees. Fewer than kFewestRounded elements are not asked.
  static constexpr double kOwnRounding = 0.975, kOneSided = 0.7, kFewestRounded = 256;
  static double one_sided(double elements);
};

/// One element of an output.
struct Mismatch {
  std::string tensor;          // role name
  std::vector<int64_t> index;  // in the order of the tensor's dims
  double expected = 0, got = 0;
  double sigma = 0;  // 0 in a sweep, where `expected` is the bound that was left
  double ratio = 0;  // |got - expected| / (kLargest * sigma)
};

struct Judgement {
  Verdict verdict = Verdict::kPass;
  std::string code;      // "fail:tolerance"; empty for a pass
  std::string reason;    // one sentence; empty for a pass
  double max_ratio = 0;  // largest error / its gate; <= 1 passes; infinite where no error can be given
  double rms_ratio = 0;  // root mean square error / its gate
  std::optional<Mismatch> worst;
  int64_t exact_elements = 0;  // judged against an exact value
  int64_t swept_elements = 0;  // judged against the range they may have
  std::string method;          // Golden::method
  std::optional<std::string> golden_device;  // Golden::device; absent: the host
};

/// Judges all outputs of `problem` lying in `tensors`. Exact chunks give the ratios; sweeps only fail. With `inputs`, what would
/// be fail:tolerance is error:tolerance-model where the declared arithmetic, emulated, exceeds the gates itself.
Judgement judge(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic, const Tensors& tensors,
                const Tensors* inputs = nullptr);

}  // namespace attest::core
