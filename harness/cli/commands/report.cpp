// attest report: prints results files in another format.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/machine_error.hpp"
#include "cli/progress.hpp"
#include "core/tensor/error.hpp"
#include "reports/formats.hpp"

namespace attest::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> files;
  std::string format = "terminal", output;
};

/// Throws Error where the report would be written over results.
void check_output(const ReportArguments& arguments) {
  for (const std::string& file : arguments.files) {
    std::error_code ignored;
    if (std::filesystem::equivalent(file, arguments.output, ignored))
      throw core::Error(fmt::format("-o {}: is one of the results", arguments.output));
  }
}

int run(const ReportArguments& arguments) {
  const reports::Format& format = reports::find_format(arguments.format);
  check_output(arguments);
  const reports::Style style{.colour = arguments.output.empty() && wants_colour(stdout)};
  std::string text;
  for (const std::string& file : arguments.files) {
    const core::Results results = core::read_results(file);
    if (!results.begun) throw core::Error(fmt::format("{}: holds no results", file));
    text += (text.empty() ? "" : "\n") + format.print(results, style);
  }
  if (arguments.output.empty()) {
    fmt::print("{}", text);
    return kOk;
  }
  std::ofstream out(arguments.output, std::ios::trunc);
  out << text << std::flush;
  if (!out) throw MachineError(fmt::format("-o {}: cannot be written", arguments.output));
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
    help += fmt::format("{}{}: {}", help.empty() ? "" : "; ", format.name, format.summary);
    names += fmt::format("{}{}", names.empty() ? "" : "|", format.name);
  }
  command->add_option("--format", arguments->format, help)->capture_default_str()->type_name(names);
  command->add_option("-o,--output", arguments->output, "write to this file, which is replaced")
      ->type_name("FILE");
  command->footer("Example: attest report results.jsonl --format markdown -o verdicts.md");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
