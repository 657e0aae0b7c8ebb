// mutants: three healthy implementations, mutant_none, mutant_linear_none and
// mutant_deformable_none, and copies of them with one planted bug each, for attest to find.
// mutation.hpp lists them.
#include <array>
#include <cstdio>
#include <utility>

#include "mutants/all_of_softmax.hpp"
#include "mutants/operations/plan.hpp"

namespace {

using mutants::kMutations, mutants::kTables, mutants::Mutation;

constexpr uint64_t kLinearFeatures = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_MASK |
                                     ATTEST_WITH_QUERY_MASK | ATTEST_WITH_STRIDES |
                                     ATTEST_WITH_UNALIGNED;
constexpr uint64_t kDeformableFeatures =
    ATTEST_WITH_ALIGN_CORNERS | ATTEST_WITH_STRIDES | ATTEST_WITH_UNALIGNED;
template <size_t kIndex>
struct Table {
  static constexpr Mutation kMutation = kMutations[kIndex].mutation;

  static attest_status query(const attest_problem* problem, attest_support* support) {
    const char* why_not = is_deformable(kMutation) ? mutants::query_deformable(*problem, *support)
                          : is_linear(kMutation)   ? mutants::query_linear(*problem, *support)
                                                   : mutants::query_softmax(*problem, *support);
    if (!why_not) why_not = mutants::equivalent(kMutation, *problem);
    if (!why_not) return ATTEST_OK;
    std::snprintf(support->reason, sizeof support->reason, "%s", why_not);
    return ATTEST_UNSUPPORTED;
  }
  static attest_status create(const attest_problem* problem, void** plan) {
    return attest::detail::guarded([&]() -> attest_status {
      *plan = (is_deformable(kMutation) ? mutants::plan_deformable(kMutation, *problem)
               : is_linear(kMutation)   ? mutants::plan_linear(kMutation, *problem)
                                        : mutants::plan_softmax(kMutation, *problem))
                  .release();
      return ATTEST_OK;
    });
  }
  static attest_status run(void* plan, void* const* data, void* workspace, void* /*stream*/) {
    return attest::detail::guarded([&]() -> attest_status {
      static_cast<mutants::Plan*>(plan)->run(data, workspace);
      return ATTEST_OK;
    });
  }
  static void destroy(void* plan) { delete static_cast<mutants::Plan*>(plan); }
  static const char* last_error() { return attest::detail::last_error(); }

  static constexpr attest_impl kTable{sizeof(attest_impl),
                                      is_deformable(kMutation) ? ATTEST_DEFORMABLE
                                      : is_linear(kMutation)   ? ATTEST_LINEAR
                                                               : ATTEST_SOFTMAX,
                                      ATTEST_CPU,
                                      0,
                                      mutants::kFloats,
                                      is_deformable(kMutation) ? kDeformableFeatures
                                      : is_linear(kMutation)   ? kLinearFeatures
                                                               : mutants::kSoftmaxFeatures,
                                      kMutations[kIndex].name,
                                      "2",
                                      kMutations[kIndex].summary,
                                      query,
                                      create,
                                      run,
                                      destroy,
                                      last_error};
};

template <size_t... kIndex>
constexpr std::array<const attest_impl*, kTables> tables(std::index_sequence<kIndex...>) {
  return {&Table<kIndex>::kTable...};
}

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  static constexpr auto kAll = tables(std::make_index_sequence<kTables>());
  return index < kTables ? kAll[index] : nullptr;
}
