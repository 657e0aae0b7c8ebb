#include "core/session/coverage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "core/operations/operation.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

/// Features and dtypes as bits.
struct Declared {
  uint64_t features = 0, dtypes = 0;
};

bool was_judged(const Record& record) {
  return record.outcome.passes() || record.outcome.verdict() == Verdict::kFail ||
         record.outcome.verdict() == Verdict::kSuspect;
}

// Of the problem that a record is of; a line that no problem can be made of says nothing.
Declared needs_of(const std::string& spec) {
  Declared needs;
  try {
    const Problem problem = parse_problem(spec);
    needs.features = problem.features;
    for (const Role& role : problem.operation->roles())
      if (const TensorSpec& tensor = problem.tensor[size_t(role.index)];
          role.dtype == ATTEST_NONE && present(tensor))
        needs.dtypes |= ATTEST_BIT(tensor.dtype);
  } catch (const Error&) {
  }
  return needs;
}

std::vector<std::string> names_of(const Declared& declared, int32_t number) {
  const Operation* operation = find_operation(number);
  std::vector<std::string> names = feature_names(declared.features, operation);
  for (DType dtype = ATTEST_F32; dtype <= ATTEST_3XTF32; ++dtype)
    if (declared.dtypes & ATTEST_BIT(dtype)) names.emplace_back(dtype_name(dtype));
  if (!operation) names.insert(names.begin(), operation_title(number));
  return names;
}

}  // namespace

NeverJudged never_judged(const std::vector<Registry::Entry>& chosen,
                         const std::vector<Record>& records) {
  std::map<std::string, Declared> needs, judged;       // of a spec line; of an implementation
  std::map<std::string, std::set<std::string>> asked;  // of implementations: operations of records
  for (const Record& record : records) {
    asked[record.impl].insert(record.operation);
    if (!was_judged(record)) continue;
    const auto [at, is_new] = needs.emplace(record.spec, Declared());
    if (is_new) at->second = needs_of(record.spec);
    Declared& all = judged[record.impl];
    all.features |= at->second.features;
    all.dtypes |= at->second.dtypes;
  }
  NeverJudged left;
  for (const Registry::Entry& entry : chosen) {
    const Implementation& i = *entry.implementation;
    const auto operations = asked.find(i.name);
    if (operations == asked.end()) continue;
    if (const Operation* own = find_operation(i.operation);
        own && !operations->second.contains(std::string(own->name())))
      continue;
    const Declared seen = judged[i.name],
                   rest{i.features & ~seen.features, i.dtypes & ~seen.dtypes};
    if (rest.features || rest.dtypes) left[i.name] = names_of(rest, i.operation);
  }
  return left;
}

std::string print_never_judged(const NeverJudged& left) {
  std::string text;
  for (const auto& [impl, names] : left)
    text += fmt::format("{}: declared, never judged: {}\n", impl, fmt::join(names, ", "));
  return text;
}

}  // namespace attest::core
