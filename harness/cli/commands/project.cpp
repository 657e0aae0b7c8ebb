// attest project: projects measured times to a board that was not measured.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/options/projection_option.hpp"
#include "cli/plugins.hpp"
#include "core/problem/glob.hpp"
#include "core/tensor/error.hpp"
#include "reports/projection/projection_text.hpp"
#include "reports/words/json_text.hpp"

namespace attest::cli {
namespace {

struct ProjectArguments {
  std::vector<std::string> files, cases, impls;
  ProjectionOption projection;
  std::string format = "text";
};

reports::Projected project_wanted(const std::vector<core::Results>& files,
                                  const reports::ProjectionTarget& target,
                                  const ProjectArguments& arguments) {
  return project_all(files, target, [&](const core::Record& record) {
    return core::matches(record.impl, arguments.impls) &&
           (core::matches(record.case_name, arguments.cases) ||
            core::matches(record.suite + "/" + record.case_name, arguments.cases));
  });
}

int print_calibration_alone(const reports::Calibration& calibration, bool json) {
  fmt::print("{}", json ? reports::json_text(calibration_json(calibration))
                        : print_calibration(calibration) + "\n");
  return kOk;
}

int run(const ProjectArguments& arguments) {
  const ProjectionOption& projection = arguments.projection;
  const bool json = arguments.format == "json";
  if (arguments.files.empty() && !projection.has_calibration())
    throw core::Error("project needs results files, or --calibrate A B");
  if (arguments.files.empty() == projection.has_board())
    throw core::Error(projection.has_board()
                          ? "--to goes with results files"
                          : "project FILE needs --to TARGET; there are " + target_names());
  std::vector<std::string> warnings;
  if (arguments.files.empty()) {
    const reports::Calibration calibration = projection.calibration(warnings);
    print_warnings(warnings);
    return print_calibration_alone(calibration, json);
  }
  const reports::ProjectionTarget target = projection.target(warnings);
  const std::vector<core::Results> files = read_begun(arguments.files, warnings);
  print_warnings(warnings);
  const reports::Projected projected = project_wanted(files, target, arguments);
  fmt::print("{}", json                             ? reports::json_text(projected_json(projected))
                   : arguments.format == "markdown" ? projected_markdown(projected)
                                                    : print_projected(projected));
  if (projected.count() > 0) return kOk;
  fmt::print(stderr, "attest: {}: no time could be projected to {}\n",
             fmt::join(arguments.files, ", "), target.board->name);
  return kNothing;
}

}  // namespace

Command add_project(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "project", "project measured times to a Jetson board that was not measured");
  auto arguments = std::make_shared<ProjectArguments>();
  command->add_option("files", arguments->files, "results files that attest run -o wrote")
      ->type_name("FILE");
  arguments->projection.add_to(*command, "--to");
  command
      ->add_option("--case", arguments->cases,
                   "cases by their names, or SUITE/NAME; several are separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command->add_option("--impl", arguments->impls, "only implementations with these names")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command->add_option("--format", arguments->format, "text, markdown, or json for programs")
      ->check(CLI::IsMember({"text", "markdown", "json"}))
      ->capture_default_str()
      ->type_name("text|markdown|json");
  command->footer(
      "A projection is no measurement: each says PROJECTION. Times on cores have an interval from "
      "two processors that were both measured, or from --calibrate. --calibrate without results "
      "files prints how far projections are off. attest report --project shows projections in a "
      "page.\n"
      "Examples:\n"
      "  attest project results.jsonl --to orin-agx64-maxn\n"
      "  attest project results.jsonl --to orin-nx16-25w --calibrate desktop.jsonl server.jsonl\n"
      "Exit codes: 0 some time was projected, or the calibration was printed; 4 none could be; 64 "
      "usage, no such target, or not a results file.");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
