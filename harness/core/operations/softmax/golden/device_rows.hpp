// The two passes of the softmax golden on a device. The host computes some of the rows too; the
// device's results are used only if these rows agree.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/operations/golden_device.hpp"
#include "core/operations/softmax/golden/passes/key_passes.hpp"
#include "core/operations/softmax/problem/equal_keys.hpp"

namespace attest::core {

class DeviceRows {
 public:
  /// The number of rows that the host computes too.
  static constexpr int64_t kChecked = 64;

  /// Why the device's kernels cannot compute this problem (grids, block masks, global tokens,
  /// top_k, equal keys, wide heads, rare dtypes); "": they can.
  static std::string unknown(const Problem& problem, std::span<const EqualKeys> equal);
  /// The limits for the rows that the device computes in about a second.
  static RowBudget budget(const GoldenDevice& device);

  /// Computes the rows of `plan`. All arguments must outlive this object.
  DeviceRows(const GoldenDevice& device, const Problem& problem, const Tensors& tensors,
             const Geometry& geometry, const RowPlan& plan);
  ~DeviceRows();

  /// The first and second pass, as in KeyPasses, for all rows of the plan. They throw GoldenRefused
  /// if a checked row differs from the host's, or if the device fails; the message has the driver's
  /// words.
  void score(RowScores* scores) const;
  void finish(const RowScores* scores, const SigmaModel& model, const RowResults& results) const;
  /// The results that finish() wrote for a row.
  struct Told {
    const double *o, *sigma, *lse_sigma;
  };
  /// Computes row `row` on the host too. Throws GoldenRefused if it differs from `told`.
  void confirm(size_t row, const RowScores* scores, const SigmaModel& model,
               const Told& told) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest::core
