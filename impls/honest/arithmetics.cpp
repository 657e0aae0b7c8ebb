// arithmetics: honest kernels of every arithmetic that can be declared, alone and in pairs, in
// every order of summation. None of them may ever fail. They are too many to write down:
// declarations.hpp has the lists that they are the product of.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "honest/declarations.hpp"
#include "honest/linear.hpp"
#include "honest/softmax.hpp"

namespace {

using namespace honest;

constexpr auto kSoftmaxPairs = list_pairs<false>();
constexpr auto kLinearPairs = list_pairs<true>();
constexpr size_t kSoftmaxMethods = kSoftmaxPairs.size() * kOrderCount,
                 kMethods = kSoftmaxMethods + kLinearPairs.size() * kOrderCount;

// Method `index` of the product; its name is "qk_bf16__first__tiles".
struct Named {
  explicit Named(size_t index) : linear(index >= kSoftmaxMethods) {
    const size_t own = linear ? index - kSoftmaxMethods : index, number = own / kOrderCount;
    const Pair pair = linear ? kLinearPairs[number] : kSoftmaxPairs[number];
    const Order& order = kOrders[own % kOrderCount];
    name = kDeclarations[pair.first].name;
    if (!pair.alone()) name += std::string("__") + kDeclarations[pair.second].name;
    name += std::string("__") + order.name;
    if (linear) name = "linear__" + name;
    method.computes = method.declares = arithmetic_of(pair, number);
    method.tile = order.tile;
    method.computes.one_sum = order.tile == kQuarter;
    method.reversed = order.reversed;
    method.splits = order.splits;
    method.folds_scale = !linear && number % 2 == 1 && method.computes.qk != ATTEST_F32;
  }
  bool linear;
  std::string name;
  Method method{"", ""};
};

const std::vector<Named>& methods() {
  static const std::vector<Named> all = [] {
    std::vector<Named> made;
    made.reserve(kMethods);
    for (size_t index = 0; index < kMethods; ++index) made.emplace_back(index);
    return made;
  }();
  return all;
}

// The host keeps the problem as long as the plan.
attest_status create(const attest_problem* problem, void** plan) {
  *plan = const_cast<attest_problem*>(problem);
  return ATTEST_OK;
}
void destroy(void*) {}
const char* last_error() { return attest::detail::last_error(); }

attest_status query(size_t index, const attest_problem& problem, attest_support& support) {
  const Named& of = methods()[index];
  if (of.method.computes.qk == ATTEST_F8E4M3 && problem.tensor[ATTEST_Q].dtype == ATTEST_F8E5M2) {
    std::snprintf(support.reason, sizeof support.reason,
                  "f8e4m3 has no room for the range of f8e5m2");
    return ATTEST_UNSUPPORTED;
  }
  of.linear ? LinearKernel::query(problem, of.method, support)
            : SoftmaxKernel::query(problem, of.method, support);
  return ATTEST_OK;
}

attest_status run(size_t index, const attest_problem& problem, void* const* data, void* workspace) {
  return attest::detail::guarded([&]() -> attest_status {
    const Named& of = methods()[index];
    of.linear ? LinearKernel(problem, data, workspace, of.method).run()
              : SoftmaxKernel(problem, data, workspace, of.method).run();
    return ATTEST_OK;
  });
}

// A table's functions do not know which table they are of: each has its own two.
struct Functions {
  attest_status (*query)(const attest_problem*, attest_support*);
  attest_status (*run)(void*, void* const*, void*, void*);
};
template <size_t kIndex>
attest_status query_of(const attest_problem* problem, attest_support* support) {
  return query(kIndex, *problem, *support);
}
template <size_t kIndex>
attest_status run_of(void* plan, void* const* data, void* workspace, void*) {
  return run(kIndex, *static_cast<const attest_problem*>(plan), data, workspace);
}
template <size_t... kIndex>
const Functions* list_functions(std::index_sequence<kIndex...>) {
  static constexpr Functions kAll[] = {{query_of<kIndex>, run_of<kIndex>}...};
  return kAll;
}

std::vector<attest_impl> make_tables() {
  const Functions* functions = list_functions(std::make_index_sequence<kMethods>());
  std::vector<attest_impl> tables;
  tables.reserve(kMethods);
  for (size_t index = 0; index < kMethods; ++index) {
    const Named& of = methods()[index];
    attest_impl& made = tables.emplace_back();
    made.struct_size = sizeof made;
    made.operation = of.linear ? ATTEST_LINEAR : ATTEST_SOFTMAX;
    made.device = ATTEST_CPU;
    made.dtypes = kDtypes;
    made.features = of.linear ? kLinearFeatures : kSoftmaxFeatures;
    made.name = of.name.c_str();
    made.version = "1";
    made.summary = "does what it declares";
    made.query = functions[index].query;
    made.create = create;
    made.run = functions[index].run;
    made.destroy = destroy;
    made.last_error = last_error;
  }
  return tables;
}

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  static const std::vector<attest_impl> all = make_tables();
  return index < all.size() ? &all[index] : nullptr;
}
