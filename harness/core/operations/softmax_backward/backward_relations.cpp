// Relations between runs of the gradients.
#include <algorithm>
#include <cmath>

#include "core/operations/relation.hpp"
#include "core/operations/softmax_backward/backward.hpp"

namespace attest::core::backward {
namespace {

using RelationParams = attest_softmax_params;

constexpr double kValueFactor = 4;

/// V and O times a power of two: dQ and dK are multiplied by it, and dV stays.
class BackwardValueScale final : public SamePlaces {
 public:
  using SamePlaces::SamePlaces;
  std::string_view name() const override { return "value-scale"; }
  // In f16, do.v or a sum over queries may be too large.
  bool suits(const Arithmetic& arithmetic) const override {
    const BackwardArithmetic declared = BackwardArithmetic::of(arithmetic);
    return std::ranges::all_of(
        std::initializer_list<DType>{declared.score, declared.product, declared.accumulator},
        [](DType dtype) { return largest_finite(dtype) > 1e30; });
  }

 protected:
  void change(const Tensors& to) const override {
    for (const int32_t role : {ATTEST_V, ATTEST_O}) {
      const Tensor& x = to[size_t(role)];
      for (int64_t n = 0; n < row_count(x.spec, 4); ++n) {
        const int64_t at = row_offset(x.spec, 4, n);
        store(x.data, x.spec.dtype, at, kValueFactor * load(x.data, x.spec.dtype, at));
      }
    }
  }
  double factor(int32_t role) const override { return role == ATTEST_DV ? 1 : kValueFactor; }
};

/// A bound of the magnitudes of V, dQ and dK.
double largest_gradient(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<RelationParams>();
  const double d_o = largest_value(inputs[ATTEST_DO]), v = largest_value(inputs[ATTEST_V]),
               slope = std::fabs(double(p.softmax_scale)) * 2 * d_o * v * double(p.head_dim_v),
               queries = double(p.seq_len_q * (p.num_heads / p.num_kv_heads));
  return std::max({v, queries * slope * largest_value(inputs[ATTEST_Q]),
                   slope * largest_value(inputs[ATTEST_K])});
}

}  // namespace

std::vector<std::unique_ptr<Relation>> relations(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<RelationParams>();
  std::vector<std::unique_ptr<Relation>> list;
  const auto permuted = [&](std::string_view name, std::initializer_list<int32_t> roles,
                            int pair_axis, const std::vector<int64_t>& source) {
    std::vector<Rearrangement> changes;
    for (const int32_t role : roles) changes.push_back({role, -1, 2, source});
    for (const int32_t role : {ATTEST_MASK, ATTEST_BIAS})
      if (inputs[size_t(role)] && inputs[size_t(role)].spec.dim[pair_axis] > 1)
        changes.push_back({role, -1, pair_axis, source});
    list.push_back(rearranged(name, problem, inputs, std::move(changes)));
  };
  if (p.window_left < 0 && p.window_right < 0) {
    permuted("key-permutation", {ATTEST_K, ATTEST_V, ATTEST_DK, ATTEST_DV}, 3,
             shuffled_places(p.seq_len_kv, 1));
    permuted("query-permutation", {ATTEST_Q, ATTEST_O, ATTEST_LSE, ATTEST_DO, ATTEST_DQ}, 2,
             shuffled_places(p.seq_len_q, 2));
  }
  const auto more = [&](std::string_view name, const std::function<void(RelationParams&)>& grow) {
    list.push_back(repeated(name, inputs, resized(problem, [&](Problem& larger) {
                              grow(larger.as<RelationParams>());
                            })));
  };
  more("batch-repetition",
       [](RelationParams& larger) { larger.batch *= larger.batch == 1 ? 3 : 2; });
  more("head-repetition",
       [](RelationParams& larger) { larger.num_heads *= 2, larger.num_kv_heads *= 2; });
  const double largest = kValueFactor * largest_gradient(problem, inputs);
  const bool fits = std::ranges::all_of(
      std::initializer_list<int32_t>{ATTEST_V, ATTEST_O, ATTEST_DQ, ATTEST_DK},
      [&](int32_t role) { return largest < largest_finite(problem.tensor[size_t(role)].dtype); });
  if (fits) list.push_back(std::make_unique<BackwardValueScale>(problem, inputs));
  return list;
}

}  // namespace attest::core::backward
