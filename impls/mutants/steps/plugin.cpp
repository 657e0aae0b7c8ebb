// steps: a healthy tiled softmax in five tile sizes, step_none_t64 first, and copies of it with one
// planted bug each, for attest to find. steps.hpp lists them.
#include <cstdio>
#include <string>
#include <utility>

#include "mutants/all_of_softmax.hpp"
#include "mutants/steps/steps.hpp"
#include "mutants/steps/steps_softmax.hpp"

namespace {

using steps::kSteps, steps::kTables, steps::Plan, steps::Step;

/// The functions of a table know by their own type which step they are of.
template <size_t kIndex>
struct Functions {
  static constexpr const Step& kStep = kSteps[kIndex];

  static attest_status query(const attest_problem* problem, attest_support* support) {
    steps::declare(kStep, *problem, *support);
    return ATTEST_OK;
  }
  static attest_status create(const attest_problem* problem, void** plan) {
    return attest::detail::guarded([&]() -> attest_status {
      *plan = steps::make_plan(kStep, *problem).release();
      return ATTEST_OK;
    });
  }
  static attest_status run(void* plan, void* const* data, void* workspace, void* /*stream*/) {
    return attest::detail::guarded([&]() -> attest_status {
      static_cast<Plan*>(plan)->run(data, workspace);
      return ATTEST_OK;
    });
  }
  static void destroy(void* plan) { delete static_cast<Plan*>(plan); }
};

const char* last_error() { return attest::detail::last_error(); }

std::string name_of(const Step& step) {
  const auto& [tile, lanes] = step.variant;
  std::string name = std::string("step_") + step.planted->word + "_t" + std::to_string(tile);
  return lanes > 0 ? name + "_l" + std::to_string(lanes) : name;
}

struct Tables {
  std::array<std::string, kTables> name;
  std::array<attest_impl, kTables> table;

  template <size_t... kIndex>
  explicit Tables(std::index_sequence<kIndex...>)
      : name{name_of(kSteps[kIndex])...}, table{made<kIndex>(name[kIndex].c_str())...} {}

 private:
  template <size_t kIndex>
  static attest_impl made(const char* name) {
    using F = Functions<kIndex>;
    return {sizeof(attest_impl),
            ATTEST_SOFTMAX,
            ATTEST_CPU,
            0,
            mutants::kFloats,
            mutants::kSoftmaxFeatures,
            name,
            "1",
            kSteps[kIndex].planted->summary,
            F::query,
            F::create,
            F::run,
            F::destroy,
            last_error};
  }
};

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  static const Tables all{std::make_index_sequence<kTables>()};
  return index < kTables ? &all.table[index] : nullptr;
}
