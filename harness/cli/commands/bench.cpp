// attest bench: judges and times every implementation on one problem, and compares them.
#include <fmt/format.h>

#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/judging.hpp"
#include "cli/options/command_line.hpp"
#include "cli/options/quantity_options.hpp"
#include "cli/options/spec_option.hpp"

namespace attest::cli {
namespace {

struct BenchArguments {
  core::SpecJob job;
  std::vector<std::string> dtypes, fills;
  JudgingOptions judging;
};

int run(BenchArguments& arguments) {
  JudgingOptions& judging = arguments.judging;
  judging.shows_progress = judging.shows_coverage = false;
  judging.format = "bench";
  judging.probes_machine = true;
  return judge_plan(core::plan_spec(arguments.job, arguments.fills, "bench", arguments.dtypes),
                    judging);
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "bench", "judge and time every implementation on one problem, and name the fastest");
  auto arguments = std::make_shared<BenchArguments>();
  arguments->judging.plugins.limits.budget_s = 1;
  add_spec(*command, arguments->job.spec,
           "the problem, e.g. 'softmax num_heads=8 seq_len_q=4k head_dim=64'")
      ->required();
  command->add_option("--dtype", arguments->dtypes, "the dtypes of the problem: f32,f16,bf16")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("DTYPE");
  add_inputs(*command, arguments->job.inputs, arguments->judging.token_files);
  add_fills(*command, arguments->fills);
  add_seconds(*command, "--budget", arguments->judging.plugins.limits.budget_s,
              "time for timed runs of each implementation", 0.001, 1e6);
  arguments->judging.add_case_limit_to(
      *command, "skip an implementation if four runs are estimated to take longer");
  arguments->judging.add_to(*command);
  command->footer(
      "Example: attest bench 'softmax num_heads=8 seq_len_q=4k head_dim=64' --dtype f32,f16 "
      "--plugin ./my.so\n" +
      quantity_help());
  return [arguments, command] {
    arguments->judging.command = command_line(*command);
    return run(*arguments);
  };
}

}  // namespace attest::cli
