// attest project: projects measured times to a board that was not measured.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "core/problem/glob.hpp"
#include "core/tensor/error.hpp"
#include "reports/json_text.hpp"
#include "reports/projection/projection_text.hpp"

namespace attest::cli {
namespace {

using reports::BoardMode;
using reports::Calibration;

struct ProjectArguments {
  std::vector<std::string> files, calibration, cases, impls;
  std::string to, format = "text";
};

std::string target_names() {
  std::string names;
  for (const BoardMode& board : reports::board_modes())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", board.name);
  return names;
}

const BoardMode& board_of(const ProjectArguments& arguments) {
  const BoardMode* board = reports::find_board_mode(arguments.to);
  if (!board)
    throw core::Error(fmt::format("--to {}: is no target; there are {}",
                                  core::in_quotes(arguments.to), target_names()));
  return *board;
}

core::Results read_begun(const std::string& file) {
  core::Results results = core::read_results(file);
  if (!results.begun) throw core::Error(fmt::format("{}: has no header", file));
  return results;
}

reports::Projected project_all(const std::vector<core::Results>& files, const BoardMode& board,
                               const Calibration* calibration, const ProjectArguments& arguments) {
  reports::Projected projected{.board = &board, .calibration = calibration, .files = {}};
  for (const core::Results& file : files) {
    reports::ProjectedFile& one = projected.files.emplace_back();
    one.file = &file;
    for (const core::Record& record : file.records) {
      const bool wanted = core::matches(record.impl, arguments.impls) &&
                          (core::matches(record.case_name, arguments.cases) ||
                           core::matches(record.suite + "/" + record.case_name, arguments.cases));
      // What an implementation does not take, it would not take on the board either.
      if (wanted && record.outcome.verdict() != core::Verdict::kUnsupported)
        one.projections.push_back(project(record, file, board, calibration));
    }
  }
  return projected;
}

int run(const ProjectArguments& arguments) {
  if (arguments.files.empty() && arguments.calibration.empty())
    throw core::Error("project needs results files, or --calibrate A B");
  if (arguments.files.empty() != arguments.to.empty())
    throw core::Error(arguments.to.empty()
                          ? "project FILE needs --to TARGET; there are " + target_names()
                          : "--to goes with results files");
  std::optional<Calibration> calibration;
  if (!arguments.calibration.empty())
    calibration = reports::calibrate(read_begun(arguments.calibration[0]),
                                     read_begun(arguments.calibration[1]));
  const bool json = arguments.format == "json";
  if (arguments.files.empty()) {
    fmt::print("{}", json ? reports::json_text(calibration_json(*calibration))
                          : print_calibration(*calibration) + "\n");
    return kOk;
  }
  const BoardMode& board = board_of(arguments);
  std::vector<core::Results> files;
  for (const std::string& file : arguments.files) files.push_back(read_begun(file));
  const reports::Projected projected =
      project_all(files, board, calibration ? &*calibration : nullptr, arguments);
  fmt::print("{}", json                             ? reports::json_text(projected_json(projected))
                   : arguments.format == "markdown" ? projected_markdown(projected)
                                                    : print_projected(projected));
  if (projected.count() > 0) return kOk;
  fmt::print(stderr, "attest: no time could be projected to {}\n", board.name);
  return kNothing;
}

}  // namespace

Command add_project(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "project", "project measured times to a Jetson board that was not measured");
  auto arguments = std::make_shared<ProjectArguments>();
  command->add_option("files", arguments->files, "results files that attest run -o wrote")
      ->type_name("FILE");
  command
      ->add_option(
          "--to", arguments->to,
          "the board and its power mode, such as orin-agx64-maxn or orin-nx16-25w; a wrong "
          "name lists all")
      ->type_name("TARGET");
  command
      ->add_option(
          "--calibrate", arguments->calibration,
          "results files of two machines that were both measured: how far the times of the "
          "first, projected to the second, are off; without files, only that is printed")
      ->expected(2)
      ->type_name("FILE FILE");
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
      "A projection is no measurement: each says PROJECTION.\n"
      "Examples:\n"
      "  attest project results.jsonl --to orin-agx64-maxn\n"
      "  attest project results.jsonl --to orin-nx16-25w --calibrate desktop.jsonl server.jsonl\n"
      "Exit codes: 0 some time was projected, or the calibration was printed; 4 none could be; 64 "
      "usage, no such target, or not a results file.");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
