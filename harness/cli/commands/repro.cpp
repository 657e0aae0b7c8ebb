// attest repro: runs one problem by its spec line, with the inputs of a record.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>

#include "cli/commands/commands.hpp"
#include "cli/judging.hpp"
#include "cli/options/command_line.hpp"
#include "cli/options/quantity_options.hpp"
#include "cli/options/spec_option.hpp"
#include "cli/output/run_dumper.hpp"
#include "reports/words/units.hpp"

namespace attest::cli {
namespace {

constexpr double kReproCaseLimit_s = 1e6;

struct ReproArguments {
  core::SpecJob job;
  std::vector<std::string> fills;
  std::string dump;
  int64_t repeat = 1;
  JudgingOptions judging;
};

// What reruns of a fill gave, and each output that was not that of the first run.
void print_rerun_details(const core::RerunRecord& reruns) {
  fmt::print("                 {}\n", core::print_reruns(reruns));
  for (const core::RerunRecord::Other& other : reruns.others)
    fmt::print("                 {} x {}: {} worst {:.3g} rms {:.3g}{}{}\n", other.runs,
               other.outputs_hash.empty() ? "no outputs" : other.outputs_hash,
               name(other.outcome.verdict()), other.max_ratio, other.rms_ratio,
               other.outcome.passes() ? "" : "; ", other.outcome.reason);
  if (reruns.unjudged > 0)
    fmt::print("                 {} x still others, which were not judged\n", reruns.unjudged);
}

void print_details(const core::Record& record) {
  fmt::print("implementation:  {}\n", record.impl);
  fmt::print("spec:            {}\ninputs:          {}\narithmetic:      {}\n", record.spec,
             record.inputs, record.arithmetic);
  for (const core::FillRecord& fill : record.fills) {
    const core::Judgement& j = fill.judgement;
    fmt::print(
        "{:<16} {} worst {:.3g} rms {:.3g} ({}; run {}, golden and judging {}; inputs {}, outputs "
        "{})\n",
        fill.fill + ":", name(j.outcome.verdict()), j.max_ratio, j.rms_ratio,
        j.golden_device ? fmt::format("{} on {}", j.method, *j.golden_device) : j.method,
        reports::print_time(fill.run_ns), reports::print_time(fill.golden_ns), fill.inputs_hash,
        fill.outputs_hash);
    if (j.worst)
      fmt::print("                 worst: {}[{}] = {:.9g}, expected {:.9g}, sigma {:.3g}\n",
                 j.worst->tensor, fmt::join(j.worst->index, ","), j.worst->got, j.worst->expected,
                 j.worst->sigma);
    if (fill.reruns) print_rerun_details(*fill.reruns);
  }
  for (const core::RelationRecord& relation : record.relations) {
    const core::Judgement& j = relation.judgement;
    fmt::print("{:<18} {}, {}\n", relation.relation + ":", name(j.outcome.verdict()),
               j.method.empty() ? j.outcome.reason
                                : fmt::format("worst {:.3g} rms {:.3g} ({})", j.max_ratio,
                                              j.rms_ratio, j.method));
  }
}

void print_all_details(const std::vector<core::Record>& records) {
  for (const core::Record& record : records)
    if (record.outcome.verdict() != core::Verdict::kUnsupported) print_details(record);
}

int run(ReproArguments& arguments) {
  JudgingOptions& judging = arguments.judging;
  judging.shows_progress = judging.shows_coverage = false;
  judging.reruns = arguments.repeat - 1;
  judging.plugins.selection.shows_output = true;
  std::optional<RunDumper> dumper;
  if (!arguments.dump.empty()) {
    dumper.emplace(arguments.dump);
    judging.observer = [&dumper](const core::JudgedRun& run) { dumper->add(run); };
  }
  const int code = judge_plan(core::plan_spec(arguments.job, arguments.fills, "repro"), judging,
                              {.before = print_all_details});
  if (dumper) dumper->finish();
  return code;
}

}  // namespace

Command add_repro(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "repro", "run one problem by its spec line; the field repro of a record has the command");
  auto arguments = std::make_shared<ReproArguments>();
  arguments->judging.plugins.limits.budget_s = 1;
  arguments->judging.plugins.limits.case_limit_s = kReproCaseLimit_s;
  add_spec(*command, arguments->job.spec,
           "the problem, e.g. 'softmax dtype=f16 num_heads=12 seq_len_q=197 head_dim=64'")
      ->required();
  add_inputs(*command, arguments->job.inputs, arguments->judging.token_files);
  add_fills(*command, arguments->fills);
  add_seconds(*command, "--budget", arguments->judging.plugins.limits.budget_s,
              "time for timed runs", 0.001, 1e6);
  command
      ->add_option("--repeat", arguments->repeat,
                   "run each fill so many times in the same circumstances; says whether the bits "
                   "of the outputs differ, and judges those that do")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--dump", arguments->dump,
                   "write the inputs, the outputs, the expected values, their sigmas and the "
                   "errors of each fill as .npy files below this new folder; attest run --vectors "
                   "DIR reads it")
      ->type_name("DIR");
  arguments->judging.add_case_limit_to(
      *command, "skip the problem if four runs are estimated to take longer");
  arguments->judging.add_to(*command);
  command->footer(
      "Example: attest repro --impl flash_cpu 'softmax dtype=f16 num_heads=2 seq_len_q=61 "
      "head_dim=64 window_right=0'\n" +
      quantity_help());
  return [arguments, command] {
    arguments->judging.command = command_line(*command);
    arguments->judging.names_case_limit = command->count("--case-limit") > 0;
    return run(*arguments);
  };
}

}  // namespace attest::cli
