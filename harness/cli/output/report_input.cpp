#include "cli/output/report_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/isolation/installation.hpp"
#include "core/operations/operation.hpp"
#include "core/problem/spec.hpp"
#include "core/problem/suite.hpp"
#include "core/tensor/error.hpp"
#include "reports/input/reading.hpp"

namespace attest::cli {
namespace {

std::vector<reports::OperationAxes> known_axes() {
  std::vector<reports::OperationAxes> all;
  for (const core::Operation* operation : core::all_operations()) {
    reports::OperationAxes& axes = all.emplace_back();
    axes.operation = operation->name();
    for (const core::Field& field : operation->fields()) axes.names.emplace_back(field.name);
    for (const core::Role& role : operation->roles())
      if (!role.required) axes.names.emplace_back(role.name);
  }
  return all;
}

void add_case(const core::Case& one, reports::SeenAxes& axes) {
  for (const core::DType dtype : one.dtypes) {
    reports::SpecWords words =
        reports::spec_words(print_problem(one.problem(dtype, core::kSampleTokens)));
    words.insert_or_assign("dtype", std::string(core::dtype_name(dtype)));
    for (const core::Word& word : one.words)
      if (word.value == core::kTokensValue) words.insert_or_assign(word.key, word.value);
    axes.add(one.operation, words);
  }
}

/// A suite that cannot be read is named in the warnings.
void add_axes(reports::Input& input) {
  input.axes = known_axes();
  for (const auto& [name, file] : core::find_suites()) {
    try {
      for (const core::Case& one : core::read_suite(file).cases) add_case(one, input.suites);
    } catch (const core::Error& error) {
      input.warnings.push_back(fmt::format("coverage lacks a suite: {}", error.what()));
    }
  }
}

}  // namespace

reports::Input report_input(const std::vector<std::string>& files,
                            const std::vector<const reports::Format*>& formats, bool keeps_all) {
  size_t most = keeps_all ? SIZE_MAX : 0;
  for (const reports::Format* format : formats) most = std::max(most, format->most_records);
  reports::Input input = reports::read_input(files, most);
  if (std::ranges::any_of(formats, &reports::Format::has_axes)) add_axes(input);
  return input;
}

reports::Input report_input(std::vector<core::Results> files, const reports::Format& format) {
  reports::Input input = reports::make_input(std::move(files));
  if (format.has_axes) add_axes(input);
  return input;
}

}  // namespace attest::cli
