// Gradients that all sequences share: of the relative position bias and of the sinks.
//
//   SharedGradients shared(problem);
//   // For each sequence and each query head h of each key head:
//   shared.add(rows, errors, h);
//   shared.finish(errors, sink);
#pragma once
#include <vector>

#include "core/operations/golden.hpp"
#include "core/operations/softmax_backward/backward_rows.hpp"

namespace attest::core::backward {

/// Sums of DREL_BIAS and DSINKS, with their sigmas, over all pairs.
class SharedGradients {
 public:
  explicit SharedGradients(const Problem& problem);

  /// Adds query head h of the group that is loaded. Calls OpenMP.
  void add(const HeadRows& rows, const PairErrors& errors, int64_t h);
  /// Passes the values and sigmas of all elements to `sink`, once every head has been added.
  void finish(const PairErrors& errors, const Golden::Sink& sink);

 private:
  void add_rel_bias(const HeadRows& rows, const PairErrors& errors, int64_t h);
  void add_sink(const HeadRows& rows, const PairErrors& errors, int64_t h);
  void finish(int32_t role, int leading, std::vector<GradientSum>& sums, const PairErrors& errors,
              const Golden::Sink& sink) const;

  const Problem& problem_;
  const Params& p_;
  std::vector<GradientSum> rel_bias_, sinks_;  // one for each element
};

}  // namespace attest::core::backward
