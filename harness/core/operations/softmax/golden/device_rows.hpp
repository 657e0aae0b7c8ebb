// The two passes of the softmax golden on a device: what it says is taken only where some of the
// rows, made on the host too, agree.
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
  /// Rows that the host makes too.
  static constexpr int64_t kChecked = 64;

  /// "" or why the device's kernels do not know such a problem: grids, equal keys, wide heads, rare
  /// dtypes.
  static std::string unknown(const Problem& problem, std::span<const EqualKeys> equal);
  /// What the device makes in about a second: the rows to plan for.
  static RowBudget budget(const GoldenDevice& device);

  /// All must outlive it. Plans no rows: they are the plan's.
  DeviceRows(const GoldenDevice& device, const Problem& problem, const Tensors& tensors,
             const Geometry& geometry, const RowPlan& plan);
  ~DeviceRows();

  /// As KeyPasses does, of all rows of the plan. Throw GoldenRefused where the rows that are
  /// checked differ from the host's, and where the device fails, in its words.
  void score(RowScores* scores) const;
  void finish(const RowScores* scores, const SigmaModel& model, const RowResults& results) const;
  /// What was written of some rows, one after the other.
  struct Told {
    const double *o, *sigma, *lse_sigma;
  };
  /// Checks one row more.
  void confirm(size_t row, const RowScores* scores, const SigmaModel& model,
               const Told& told) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest::core
