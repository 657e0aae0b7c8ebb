// attest report: prints or writes results files in other formats.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/options/projection_option.hpp"
#include "cli/output/progress.hpp"
#include "cli/output/report_input.hpp"
#include "cli/output/written_file.hpp"
#include "cli/plugins.hpp"
#include "core/tensor/error.hpp"
#include "reports/formats.hpp"
#include "reports/history/index.hpp"

namespace attest::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> files, formats;
  std::string output, history;
  ProjectionOption projection;
  bool no_charts = false;
};

/// A format and the file that it is written to; an empty path: standard output.
struct Target {
  const reports::Format* format;
  std::string path;
};

const reports::Format& format_of(const std::string& output) {
  if (output.empty()) return reports::find_format("terminal");
  if (const reports::Format* format = reports::format_of_file(output)) return *format;
  std::string known;
  for (const reports::Format& format : reports::formats())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", format.extension);
  throw core::Error(fmt::format(
      "-o {}: no format ends so; name one by -f, or end the name in one of {}", output, known));
}

std::vector<Target> targets(const ReportArguments& arguments) {
  if (arguments.formats.empty()) return {{&format_of(arguments.output), arguments.output}};
  if (arguments.formats.size() == 1)
    return {{&reports::find_format(arguments.formats[0]), arguments.output}};
  std::vector<Target> all;
  for (const std::string& name : arguments.formats) {
    const reports::Format& format = reports::find_format(name);
    if (arguments.output.empty())
      throw core::Error(
          "-f: several formats need -o BASE; each is written to BASE and its own ending");
    all.push_back({&format, fmt::format("{}{}", arguments.output, format.extension)});
  }
  return all;
}

/// Puts the histories of the records' series into the input.
void add_histories(const std::string& path, reports::Input& input) {
  const reports::HistoryIndex index = reports::HistoryIndex::open(path);
  for (const reports::SeriesKey& key : index.keys_of(input.runs))
    input.histories.push_back(history_of(index.series(key)));
  if (input.histories.empty())
    input.warnings.push_back(fmt::format(
        "{} has no series of these records: other cases, machines or kinds of build", path));
}

/// Projects the records' times to a board.
void add_projection(const ProjectionOption& projection, reports::Input& input) {
  input.projection = projection.target(input.warnings);
  if (project_all(input.runs, *input.projection).count() == 0)
    input.warnings.push_back(
        fmt::format("no time could be projected to {}", input.projection->board->name));
}

/// Throws Error if none of the formats shows `what`, which this option asks for.
void check_shown(const std::string& option, const std::string& what,
                 const std::vector<Target>& targets) {
  if (std::ranges::any_of(targets, [](const Target& one) { return one.format->has_parts; })) return;
  std::string known;
  for (const reports::Format& format : reports::formats())
    if (format.has_parts) known += fmt::format("{}{}", known.empty() ? "" : ", ", format.name);
  throw core::Error(fmt::format("{}: {} does not show {}; choose one of {}", option,
                                targets.front().format->name, what, known));
}

/// The files that are read beside the results.
std::vector<std::string> other_inputs(const ReportArguments& arguments) {
  std::vector<std::string> files = arguments.projection.calibration_files();
  if (!arguments.history.empty()) files.push_back(arguments.history);
  return files;
}

int run(const ReportArguments& arguments) {
  const std::vector<Target> all = targets(arguments);
  const bool has_history = !arguments.history.empty(),
             has_projection = arguments.projection.has_board();
  if (has_history) check_shown("--history", "histories", all);
  if (has_projection) check_shown("--project", "projections", all);
  if (arguments.projection.has_calibration() && !has_projection)
    throw core::Error("--calibrate goes with --project TARGET; there are " + target_names());
  for (const Target& target : all)
    refuse_inputs("-o", target.path, arguments.files, other_inputs(arguments));
  std::vector<const reports::Format*> formats;
  for (const Target& target : all) formats.push_back(target.format);
  reports::Input input = report_input(arguments.files, formats, has_history || has_projection);
  if (has_history) add_histories(arguments.history, input);
  if (has_projection) add_projection(arguments.projection, input);
  print_warnings(input.warnings);
  const reports::Style style{.colour = arguments.output.empty() && wants_colour(stdout),
                             .charts = !arguments.no_charts};
  for (const Target& target : all) {
    const std::string text = target.format->print(input, style);
    if (target.path.empty())
      fmt::print("{}", text);
    else
      write_text_file("-o", target.path, text);
    if (!target.path.empty() && all.size() > 1) fmt::print("{}\n", target.path);
  }
  return kOk;
}

}  // namespace

Command add_report(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("report", "print or write results files in another format");
  auto arguments = std::make_shared<ReportArguments>();
  command->add_option("files", arguments->files, "results files that attest run -o wrote")
      ->required()
      ->type_name("FILE");
  std::string help, names;
  for (const reports::Format& format : reports::formats()) {
    help += fmt::format("{}{}{}: {}", help.empty() ? "" : "; ", format.name,
                        format.short_name.empty() ? "" : fmt::format(" ({})", format.short_name),
                        format.summary);
    names += fmt::format("{}{}", names.empty() ? "" : "|", format.name);
  }
  command
      ->add_option(
          "-f,--format", arguments->formats,
          help + ". Without it the ending of -o says which; several are separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name(names);
  command
      ->add_option("-o,--output", arguments->output,
                   "write to this file, which is replaced; with several formats, what their files "
                   "begin with: -f md,csv -o out writes out.md and out.csv")
      ->type_name("FILE");
  command
      ->add_option("--history", arguments->history,
                   "of html and markdown: the steps of these cases, from an index that attest "
                   "history add made")
      ->type_name("FILE");
  arguments->projection.add_to(*command, "--project");
  command->add_flag("--no-charts", arguments->no_charts,
                    "of html: tables in the places of charts; the page is 0.9 MB smaller");
  command->footer(
      "Examples:\n"
      "  attest report results.jsonl -o verdicts.md\n"
      "  attest report monday.jsonl tuesday.jsonl -f junit,md,sarif -o report\n"
      "  attest report results.jsonl --project orin-agx64-maxn -o page.html\n"
      "html and markdown show --history and --project. A projection is no measurement, and says "
      "PROJECTION.\n"
      "Exit codes: 0 written; 4 a file cannot be written or --history not read; 64 usage, not a "
      "results file, --project names no target, or --history is no index or a damaged one.");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
