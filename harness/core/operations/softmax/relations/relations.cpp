// Which relations a softmax problem has, in the order in which they are tried.
#include "core/operations/softmax/relations/relations.hpp"

#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/softmax.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

// More sequences or heads with the same data; packed and paged tokens have no batch to repeat.
std::unique_ptr<Relation> more(std::string_view name, const Problem& problem, const Tensors& inputs,
                               const std::function<void(Params&)>& grow) {
  if (problem.features & (ATTEST_WITH_VARLEN | ATTEST_WITH_PAGES)) return nullptr;
  return repeated(name, inputs,
                  resized(problem, [&](Problem& larger) { grow(larger.as<Params>()); }));
}

}  // namespace

std::vector<std::unique_ptr<Relation>> SoftmaxOperation::relations(const Problem& problem,
                                                                   const Tensors& inputs) const {
  std::vector<std::unique_ptr<Relation>> list;
  auto add = [&](std::unique_ptr<Relation> relation) {
    if (relation) list.push_back(std::move(relation));
  };
  // What 8 bits hold is too coarse to be changed, and factors stay at their places.
  const bool f8 = has_f8(problem), factors = has_factors(problem);
  if (!factors) {
    add(key_permutation(problem, inputs));
    add(query_permutation(problem, inputs));
  }
  add(more("batch-repetition", problem, inputs,
           [](Params& p) { p.batch *= p.batch == 1 ? 3 : 2; }));
  add(more("head-repetition", problem, inputs, [](Params& p) {
    p.num_heads *= 2;
    p.num_kv_heads *= 2;
  }));
  // A sink stays where it is, has no value, and would be in both parts.
  const bool sinks = (problem.features & ATTEST_WITH_SINKS) != 0;
  if (!sinks && !f8) add(common_shift(problem, inputs));
  if (!sinks && !factors) add(row_sum(problem, inputs));
  if (!factors)
    for (auto& relation : value_scales(problem, inputs, value_ranges(problem, inputs)))
      add(std::move(relation));
  add(hidden(problem, inputs, false));
  add(hidden(problem, inputs, true));
  if (!sinks && !factors) add(split_merge(problem, inputs));
  return list;
}

// Rows of NaN have no relation to other rows. In "wide", where scores are thousands, rounding after
// a shift may make another score the largest. In "subnormal", f16 loses a shift beside 60,000.
bool SoftmaxOperation::relations_hold_on(std::string_view fill) const {
  return wild_round_of(fill) < 0 && fill != "top_k_wild" && fill != "wide" && fill != "subnormal";
}

}  // namespace attest::core
