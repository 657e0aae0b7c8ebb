// A method becomes a table of the contract, of any operation.
#pragma once
#include "honest/backward.hpp"
#include "honest/deformable.hpp"
#include "honest/linear.hpp"
#include "honest/softmax.hpp"

namespace honest {

template <class Kernel, int32_t kOperation, uint64_t kFeatures, const auto& kMethod>
struct Implementation {
  static constexpr attest::Info kInfo{.name = kMethod.name,
                                      .version = "1",
                                      .summary = kMethod.summary,
                                      .operation = kOperation,
                                      .dtypes = kDtypes,
                                      .features = kFeatures};
  const attest_problem& problem;

  static const char* query(const attest_problem& problem, attest_support& support) {
    Kernel::query(problem, kMethod, support);
    return nullptr;
  }
  void run(void* const* data, void* workspace, void* /*stream*/) const {
    Kernel(problem, data, workspace, kMethod).run();
  }
};

template <const Method& kMethod>
using Softmax = Implementation<SoftmaxKernel, ATTEST_SOFTMAX, kSoftmaxFeatures, kMethod>;
template <const Method& kMethod>
using Linear = Implementation<LinearKernel, ATTEST_LINEAR, kLinearFeatures, kMethod>;
template <const SamplingMethod& kMethod>
using Deformable =
    Implementation<DeformableKernel, ATTEST_DEFORMABLE, kDeformableFeatures, kMethod>;
template <const GradientMethod& kMethod>
using Backward =
    Implementation<BackwardKernel, ATTEST_SOFTMAX_BACKWARD, kBackwardFeatures, kMethod>;

}  // namespace honest
