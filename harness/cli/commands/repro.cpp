// attest repro: runs the one line that a record carries, with the same inputs.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/header.hpp"
#include "cli/locate.hpp"
#include "cli/progress.hpp"
#include "cli/results_file.hpp"
#include "cli/run.hpp"
#include "core/device/device.hpp"
#include "core/problem/spec.hpp"
#include "reports/table.hpp"

namespace attest::cli {
namespace {

struct ReproArguments {
  std::string spec, inputs = "random", output;
  std::vector<std::string> tokens, fills;
  bool untimed = false, host_golden = false, overwrite = false;
  core::RelationChoice relations = core::RelationChoice::kAuto;
  double budget_s = 1;
  PluginOptions plugins;
};

void print_details(const core::Record& record) {
  fmt::print("spec:            {}\ninputs:          {}\narithmetic:      {}\n", record.spec,
             record.inputs, record.arithmetic);
  for (const core::FillRecord& fill : record.fills) {
    const core::Judgement& j = fill.judgement;
    fmt::print(
        "{:<16} {} worst {:.3g} rms {:.3g} ({}; run {}, golden and judging {}; inputs {}, outputs "
        "{})\n",
        fill.fill + ":", name(j.verdict), j.max_ratio, j.rms_ratio,
        j.golden_device ? fmt::format("{} on {}", j.method, *j.golden_device) : j.method,
        reports::print_time(fill.run_ns), reports::print_time(fill.golden_ns), fill.inputs_hash,
        fill.outputs_hash);
    if (j.worst)
      fmt::print("                 worst: {}[{}] = {:.9g}, expected {:.9g}, sigma {:.3g}\n",
                 j.worst->tensor, fmt::join(j.worst->index, ","), j.worst->got, j.worst->expected,
                 j.worst->sigma);
  }
  for (const core::RelationRecord& relation : record.relations) {
    const core::Judgement& j = relation.judgement;
    fmt::print("{:<18} {}, {}\n", relation.relation + ":", name(j.verdict),
               j.method.empty() ? j.reason
                                : fmt::format("worst {:.3g} rms {:.3g} ({})", j.max_ratio,
                                              j.rms_ratio, j.method));
  }
}

int run(ReproArguments& arguments, const std::string& command) {
  if (!arguments.overwrite) refuse_to_replace(arguments.output);
  const core::Problem problem = core::parse_problem(arguments.spec);
  TokenStore store(arguments.tokens);
  const core::Tokens* tokens = nullptr;
  core::CaseLabel label{"", "repro", "random", ""};
  if (arguments.inputs != "random") tokens = &store.take(arguments.inputs, label);
  core::require_fills("--fill", arguments.fills, core::known_fills(problem, tokens != nullptr));
  const auto registry = arguments.plugins.load();
  core::RunOptions options{
      .threads = arguments.plugins.threads,
      .budget_s = arguments.budget_s,
      .case_limit_s = 1e6,
      .timeout_s = arguments.plugins.timeout_s,
      .fills = arguments.fills,
      .relations = arguments.relations,
      .timed = !arguments.untimed,
      .golden_device = arguments.host_golden ? nullptr : core::find_golden_device()};
  core::Rates rates;
  core::CaseRunner runner(problem, core::print_problem(problem), label, tokens, options, rates);
  ResultsFile results(arguments.output);
  if (!arguments.output.empty()) results.write(to_json(make_header(command, arguments.plugins)));
  std::vector<core::Record> records;
  bool bad = false, passed = false;
  for (const core::Registry::Entry& entry : arguments.plugins.select(*registry)) {
    records.push_back(runner.run(*entry.plugin, *entry.implementation));
    results.write(to_json(records.back()));
    bad |= core::is_bad(records.back().verdict),
        passed |= records.back().verdict == core::Verdict::kPass;
    if (records.back().verdict != core::Verdict::kUnsupported) print_details(records.back());
  }
  results.write(to_json(core::Closing::of(records, utc_now())));
  fmt::print("{}", reports::print_table(records, wants_colour(stdout)));
  return bad ? kBad : passed ? kOk : kNothing;
}

}  // namespace

Command add_repro(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "repro", "run one problem by its line: what the repro field of a record says");
  auto arguments = std::make_shared<ReproArguments>();
  command
      ->add_option("spec", arguments->spec,
                   "the problem, e.g. 'softmax dtype=f16 num_heads=12 seq_len_q=197 head_dim=64'")
      ->required()
      ->type_name("SPEC");
  command
      ->add_option("--inputs", arguments->inputs,
                   "random, or a token source such as lidar:voxel_size=0.05,curve=z,first=32768")
      ->capture_default_str()
      ->type_name("SOURCE");
  command
      ->add_option("--tokens", arguments->tokens,
                   "the sweep or image that --inputs names, where it is not in this folder")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command
      ->add_option("--fill", arguments->fills,
                   "judge on these inputs alone; all: on every one that the problem has")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
  command->add_option("--budget", arguments->budget_s, "seconds of timed runs")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str()
      ->type_name("S");
  command->add_flag("--judge-only", arguments->untimed, "judge, do not time");
  add_relations(*command, arguments->relations);
  add_host_golden(*command, arguments->host_golden);
  command->add_option("-o,--output", arguments->output, "results as JSON lines, into a new file")
      ->type_name("FILE");
  command->add_flag("--overwrite", arguments->overwrite,
                    "-o may name a file of results, which it replaces");
  arguments->plugins.add_to(*command);
  command->footer(
      "Example: attest repro --impl flash_cpu 'softmax dtype=f16 num_heads=2 seq_len_q=61 "
      "head_dim=64 window_right=0'");
  return [arguments, command] { return run(*arguments, command_line(*command)); };
}

}  // namespace attest::cli
