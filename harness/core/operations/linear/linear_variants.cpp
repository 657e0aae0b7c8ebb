// Variants of a linear problem: what a cache of plans has to have in its keys.
#include "core/operations/linear/linear.hpp"
#include "core/operations/relation.hpp"
#include "core/operations/variant.hpp"

namespace attest::core {

std::vector<Variant> linear_variants(const Problem& problem) {
  using Params = attest_linear_params;
  std::vector<Variant> variants = common_variants(problem);
  const auto& p = problem.as<Params>();
  add_variant(variants, "eps", problem,
              [&](Problem& other) { other.as<Params>().eps = p.eps < 0.5f ? 1.0f : 1e-3f; });
  add_variant(variants, "mask", problem, [&](Problem& other) {
    TensorSpec& mask = other.tensor[ATTEST_MASK];
    mask = present(mask) ? TensorSpec{}
                         : dense_tensor(ATTEST_BOOL, ATTEST_READ,
                                        std::vector<int64_t>{1, 1, 1, p.seq_len_kv});
  });
  if (p.num_heads > 1)
    add_variant(variants, "num_kv_heads", problem, [&](Problem& other) {
      other = resized(problem, [](Problem& larger) {
        auto& params = larger.as<Params>();
        params.num_kv_heads = params.num_kv_heads == params.num_heads ? 1 : params.num_heads;
      });
    });
  return variants;
}

}  // namespace attest::core
