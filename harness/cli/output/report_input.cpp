#include "cli/output/report_input.hpp"

#include <utility>

#include "core/operations/operation.hpp"

namespace attest::cli {

reports::Input report_input(std::vector<core::Results> files) {
  reports::Input input = reports::make_input(std::move(files));
  for (const core::Operation* operation : core::all_operations()) {
    reports::OperationAxes& axes = input.axes.emplace_back();
    axes.operation = operation->name();
    for (const core::Field& field : operation->fields()) axes.names.emplace_back(field.name);
    for (const core::Role& role : operation->roles())
      if (!role.required) axes.names.emplace_back(role.name);
  }
  return input;
}

}  // namespace attest::cli
