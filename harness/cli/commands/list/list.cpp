// attest list: lists implementations, the cases of suites, or which implementations take a problem.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/list/list_events.hpp"
#include "cli/commands/list/list_support.hpp"
#include "cli/exit_code.hpp"
#include "cli/options/quantity_options.hpp"
#include "cli/plugins.hpp"
#include "core/device/device_kinds.hpp"
#include "core/isolation/installation.hpp"
#include "core/operations/declaration.hpp"
#include "core/problem/suite.hpp"

namespace attest::cli {
namespace {

struct ListArguments {
  std::vector<std::string> suites;
  std::optional<std::string> spec;
  bool events = false, all_suites = false;
  EventOptions event_options;
  PluginOptions plugins;
};

std::string features(const core::Implementation& implementation) {
  const core::Operation* operation = core::find_operation(implementation.operation);
  return fmt::format("{}", fmt::join(core::feature_names(implementation.features, operation), "+"));
}

void list_implementations(const core::Implementations& implementations) {
  const size_t width = implementations.name_width();
  for (const core::Registry::Entry& entry : implementations.chosen()) {
    const core::Implementation& i = *entry.implementation;
    const core::DeviceKind* device = core::find_device_kind(i.device);
    fmt::print("{:<{}} {} ({}, version {})\n", i.name, width, i.summary, i.plugin, i.version);
    fmt::print("{:<{}} {} on {}; {}; {}\n", "", width, core::operation_title(i.operation),
               device ? device->name : fmt::format("device {}", i.device),
               core::print_dtypes(i.dtypes), i.features ? features(i) : "no features");
  }
}

void list_suites() {
  for (const auto& [name, file] : core::find_suites()) {
    const core::Suite suite = core::read_suite(file);
    const auto quick = std::ranges::count_if(
        suite.cases, [](const core::Case& one) { return !one.quick.empty(); });
    fmt::print("{:<12} {:>4} cases, {:>3} quick   {}\n", name, suite.cases.size(), quick,
               suite.summary);
  }
}

std::string names_of(const std::vector<core::DType>& dtypes) {
  std::string names;
  for (const core::DType dtype : dtypes)
    names += (names.empty() ? "" : ",") + std::string(core::dtype_name(dtype));
  return names;
}

// "quick, ", or "quick f32, " where only some of its dtypes are.
std::string quick_of(const core::Case& one) {
  if (one.quick.empty()) return "";
  return one.quick == one.dtypes ? "quick, " : "quick " + names_of(one.quick) + ", ";
}

void list_suite(const std::string& given) {
  const core::Suite suite = core::read_suite(core::find_suite(given));
  fmt::print("{}: {}\n", suite.name, suite.summary);
  for (const core::Case& one : suite.cases)
    fmt::print("  {:<44} {:<12} {}{}\n", one.name, names_of(one.dtypes), quick_of(one),
               one.inputs.source);
  for (const core::Scaling& scaling : suite.scaling)
    fmt::print("  {:<44} {:<12} {}over {}\n", scaling.base.name, names_of(scaling.base.dtypes),
               quick_of(scaling.base), fmt::join(scaling.over, ", "));
}

// Throws Error: options that do not go together.
void check(const ListArguments& arguments) {
  if (!arguments.events && arguments.event_options.given())
    throw core::Error(
        "list: --case, --dtype, --fill, --quick, --format and --verbose go with --events");
  if (arguments.events && arguments.suites.empty() && !arguments.spec)
    throw core::Error(
        "list: --events takes suites, or one problem: --for 'softmax seq_len_q=4099 head_dim=64'");
  if (arguments.all_suites && (arguments.events || arguments.spec || !arguments.suites.empty()))
    throw core::Error("list: --suites lists all suites; give it alone");
}

int run(ListArguments& arguments) {
  if (arguments.spec) {  // words that were not in quotes came as suites
    for (const std::string& word : arguments.suites) *arguments.spec += " " + word;
    arguments.suites.clear();
  }
  check(arguments);
  if (arguments.events)
    return list_events(arguments.suites, arguments.spec, arguments.event_options);
  for (const std::string& suite : arguments.suites) list_suite(suite);
  if (arguments.all_suites)
    list_suites();
  else if (arguments.spec)
    list_support(*arguments.spec, arguments.plugins);
  else if (arguments.suites.empty())
    list_implementations(arguments.plugins.load());
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
                   "list which implementations take this problem, whether it fits into memory, and "
                   "why the others do not; nothing runs")
      ->type_name("SPEC");
  command->add_flag("--suites", arguments->all_suites, "list the suites that come with attest");
  command->add_flag("--events", arguments->events,
                    "list the events in a kernel that the inputs of each case cause and miss; exit "
                    "with 1 if one is missed without a reason");
  arguments->event_options.add_to(*command);
  arguments->plugins.add_to(*command);
  command->footer(
      "Example: attest list --for 'softmax seq_len_q=4k head_dim=64 window_left=128 "
      "window_right=128'\n"
      "          attest list --events suites/masks.json --case 'mask/*' --dtype f16\n"
      "          attest list --events suites/vit.json --quick --fill rising\n" +
      quantity_help());
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
