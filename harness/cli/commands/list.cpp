// attest list: lists implementations, the cases of suites, or which implementations take a problem.
#include <fmt/format.h>

#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/list_events.hpp"
#include "cli/exit_code.hpp"
#include "cli/plugins.hpp"
#include "cli/quantity_options.hpp"
#include "core/device/device_kinds.hpp"
#include "core/isolation/installation.hpp"
#include "core/operations/declaration.hpp"
#include "core/problem/spec.hpp"
#include "core/problem/suite.hpp"

namespace attest::cli {
namespace {

struct ListArguments {
  std::vector<std::string> suites;
  std::optional<std::string> spec;
  bool events = false;
  EventOptions event_options;
  PluginOptions plugins;
};

std::string features(const core::Implementation& implementation) {
  const core::Operation* operation = core::find_operation(implementation.operation);
  return fmt::format("{}", fmt::join(core::feature_names(implementation.features, operation), "+"));
}

void list_implementations(const std::vector<core::Registry::Entry>& entries) {
  for (const core::Registry::Entry& entry : entries) {
    const core::Implementation& i = *entry.implementation;
    const core::DeviceKind* device = core::find_device_kind(i.device);
    fmt::print("{:<24} {} ({}, version {})\n", i.name, i.summary, i.plugin, i.version);
    fmt::print("{:<24} {} on {}; {}; {}\n", "", core::operation_title(i.operation),
               device ? device->name : fmt::format("device {}", i.device),
               core::print_dtypes(i.dtypes), i.features ? features(i) : "no features");
  }
}

// Who takes the problem, and of the others why not.
void list_support(const std::vector<core::Registry::Entry>& entries, const core::Problem& problem) {
  for (const core::Registry::Entry& entry : entries) {
    std::string answer = core::refuses(*entry.implementation, problem);
    if (answer.empty()) {
      const core::QueryResult query = entry.plugin->query(*entry.implementation, problem);
      if (query.failure)
        answer = fmt::format("{}: {}", name(query.failure->verdict()), query.failure->reason);
      else if (query.status == ATTEST_OK)
        answer = fmt::format(
            "yes: {}, workspace {} bytes",
            print(*problem.operation, core::declared_arithmetic(query.support, problem.dtype)),
            query.support.workspace_bytes);
      else
        answer = "no: " + query.message;
    } else {
      answer.insert(0, "no: ");
    }
    fmt::print("{:<24} {}\n", entry.implementation->name, answer);
  }
}

void list_suite(const std::string& given) {
  const core::Suite suite = core::read_suite(core::find_suite(given));
  fmt::print("{}: {}\n", suite.name, suite.summary);
  for (const core::Case& one : suite.cases) {
    std::string types;
    for (const core::DType dtype : one.dtypes)
      types += (types.empty() ? "" : ",") + std::string(core::dtype_name(dtype));
    fmt::print("  {:<44} {:<12} {}{}\n", one.name, types, one.quick ? "quick, " : "",
               one.inputs.source);
  }
}

int run(ListArguments& arguments) {
  if (!arguments.events && arguments.event_options.given())
    throw core::Error("list: --case, --dtype, --quick, --format and --verbose go with --events");
  if (arguments.events && arguments.suites.empty() && !arguments.spec)
    throw core::Error(
        "list: --events takes suites, or one problem: --for 'softmax seq_len_q=4099 head_dim=64'");
  if (arguments.spec && !arguments.suites.empty())
    throw core::Error(fmt::format(
        "list: --for takes one problem, in quotes ('{} {} ...'), and no suites beside it",
        *arguments.spec, arguments.suites.front()));
  if (arguments.events)
    return list_events(arguments.suites, arguments.spec, arguments.event_options);
  if (!arguments.suites.empty()) {
    for (const std::string& suite : arguments.suites) list_suite(suite);
    return kOk;
  }
  std::optional<core::Problem> problem;
  if (arguments.spec) problem = core::parse_problem(*arguments.spec);
  const core::Implementations implementations = arguments.plugins.load();
  if (problem)
    list_support(implementations.chosen(), *problem);
  else
    list_implementations(implementations.chosen());
  return kOk;
}

}  // namespace

Command add_list(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("list", "list implementations, or the cases of suites");
  auto arguments = std::make_shared<ListArguments>();
  command->add_option("suites", arguments->suites, "list the cases of these suites instead")
      ->type_name("SUITE");
  command
      ->add_option("--for", arguments->spec,
                   "list which implementations take this problem, and why the others do not")
      ->type_name("SPEC");
  command->add_flag("--events", arguments->events,
                    "list the events in a kernel that the inputs of each case cause and miss; exit "
                    "with 1 if one is missed without a reason");
  arguments->event_options.add_to(*command);
  arguments->plugins.add_to(*command);
  command->footer(
      "Example: attest list --for 'softmax seq_len_q=4096 head_dim=64 window_left=128 "
      "window_right=128'\n"
      "          attest list --events suites/masks.json --case 'mask/*' --dtype f16\n" +
      quantity_help());
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
