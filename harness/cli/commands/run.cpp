// attest run: judges and times implementations on suites.
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <utility>

#include "cli/commands/commands.hpp"
#include "cli/judging.hpp"
#include "cli/options/command_line.hpp"
#include "cli/options/quantity_options.hpp"
#include "cli/options/vector_words.hpp"
#include "cli/output/ending.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

constexpr const char* kDefaultSuite = "default";

struct RunArguments {
  std::vector<std::string> subjects, vectors;
  std::string records_path;
  bool only_plugins = false;
  core::CaseFilter filter;
  core::VectorWords words;
  bool own_case_limit = false, times_vectors = false;
  JudgingOptions judging;
};

// Vectors bring their own inputs. They are small, so that their time says little: it is measured
// only if it is asked for.
int run_vectors(RunArguments& arguments) {
  const core::CaseFilter& filter = arguments.filter;
  for (const auto& [given, option] :
       {std::pair(!arguments.subjects.empty(), "suites"),
        std::pair(!arguments.judging.token_files.empty(), "--tokens"),
        std::pair(!filter.fills.empty(), "--fill"), std::pair(!filter.dtypes.empty(), "--dtype"),
        std::pair(filter.quick, "--quick"),
        std::pair(!arguments.records_path.empty(), "--records")})
    if (given)
      throw core::Error(fmt::format(
          "{} cannot be given with --vectors: vectors bring their inputs; --case names them",
          option));
  if (filter.budget_s > 0 && !arguments.times_vectors)
    throw core::Error("--budget cannot be given with --vectors, unless --time is given too");
  settle_time(arguments.judging, arguments.times_vectors);
  if (filter.budget_s > 0) arguments.judging.plugins.limits.budget_s = filter.budget_s;
  return judge_plan(core::plan_vectors(arguments.vectors, filter, arguments.words),
                    arguments.judging, {.after = print_counts});
}

// Most seconds of four runs where the command line says none: on two cores slow kernels too are
// through the default suite in about a minute, and a quick selection is not held up by one case.
double default_case_limit_s(bool is_default_suite, bool quick) {
  if (is_default_suite) return 1;
  return quick ? 8 : core::Limits{}.case_limit_s;
}

// Seconds of timed runs where neither the command line nor the suite says any.
double default_budget_s(bool is_default_suite, bool quick) {
  if (is_default_suite) return 0.08;
  return quick ? 0.15 : 1.0;
}

// Lines without those that are empty or begin with '#'.
std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line.front() != '#') lines.push_back(line);
  if (!file.eof()) throw core::Error(fmt::format("--records {}: cannot be read", path));
  return lines;
}

core::Plan make_plan(const RunArguments& arguments) {
  core::Plan plan =
      core::plan_subjects(arguments.subjects, arguments.filter, arguments.judging.token_files);
  if (arguments.records_path.empty()) return plan;
  const std::vector<std::string> unknown =
      core::keep_records(plan, read_lines(arguments.records_path));
  if (plan.jobs.empty())
    throw core::Error(fmt::format("--records {}: names no case of these suites{}",
                                  arguments.records_path,
                                  unknown.empty() ? "" : ", e.g. " + unknown.front()));
  for (const std::string& line : unknown)
    print_warnings({fmt::format("--records {}: no case is called {}", arguments.records_path,
                                core::in_quotes(line))});
  return plan;
}

int run(RunArguments& arguments) {
  if (!arguments.vectors.empty()) return run_vectors(arguments);
  if (!arguments.words.empty())
    throw core::Error(
        fmt::format("--{} goes with --vectors FILE.safetensors", arguments.words.begin()->first));
  if (arguments.times_vectors) throw core::Error("--time goes with --vectors; suites are timed");
  JudgingOptions& judging = arguments.judging;
  core::Selection& selection = judging.plugins.selection;
  core::Limits& limits = judging.plugins.limits;
  if (arguments.subjects.empty()) arguments.subjects = {kDefaultSuite};
  // On the default suite, named or not, a plugin of one's own is judged by itself; on others it is
  // compared.
  const bool is_default_suite = arguments.subjects == std::vector<std::string>{kDefaultSuite};
  selection.only_named = is_default_suite && !selection.plugins.empty();
  selection.with_found = !arguments.only_plugins;
  const core::CaseFilter& filter = arguments.filter;
  if (!arguments.own_case_limit)
    limits.case_limit_s = default_case_limit_s(is_default_suite, filter.quick);
  limits.budget_s =
      filter.budget_s > 0 ? filter.budget_s : default_budget_s(is_default_suite, filter.quick);
  judging.shows_shares = true;
  return judge_plan(make_plan(arguments), judging);
}

}  // namespace

Command add_run(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("run", "judge and time implementations on suites of cases");
  auto arguments = std::make_shared<RunArguments>();
  command
      ->add_option("subjects", arguments->subjects,
                   "suite files, names of suites that come with attest, or problems such as "
                   "'softmax num_heads=8 seq_len_q=1k head_dim=64' (default: default)")
      ->type_name("SUITE");
  command
      ->add_option("--vectors", arguments->vectors,
                   "instead of suites: a folder of ONNX node tests or of case.json folders, a "
                   ".json file that names tensors, or a "
                   ".safetensors or .npz file with q, k, v and o (repeatable)")
      ->allow_extra_args(false)
      ->type_name("DIR");
  add_vector_words(*command, arguments->words);
  add_time_of_vectors(*command, arguments->times_vectors);
  command->add_flag("--quick", arguments->filter.quick,
                    "only the cases that a suite marks as quick, with shorter timing");
  command
      ->add_option("--case", arguments->filter.cases,
                   "only cases with these names (globs, separated by commas)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      ->add_option("--dtype", arguments->filter.dtypes, "only these dtypes: f32,f16,bf16 (globs)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      ->add_option("--records", arguments->records_path,
                   "run only what the lines of this file name, in their order: SUITE/CASE DTYPE "
                   "IMPL, where IMPL is a glob; attest ab writes such files")
      ->type_name("FILE");
  command->add_flag("--only-plugins", arguments->only_plugins,
                    "load no implementations but those of --plugin");
  command
      ->add_option(
          "--tokens", arguments->judging.token_files,
          "a LiDAR sweep (.pcd .ply .bin) or an image (.png .jpg), for cases that take their "
          "tokens from one (repeatable)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command
      ->add_option("--fill", arguments->filter.fills,
                   "judge only on these fills: tokens,random,codebook,huge,...; all: on every fill "
                   "of a case")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
  add_seconds(*command, "--budget", arguments->filter.budget_s,
              "time for timed runs of each implementation and case (default: the suite's budget, "
              "or 1s; 150ms with --quick)",
              0.001, 1e6);
  arguments->judging.add_many_to(*command);
  command->footer(
      "Example: attest run suites/lidar.json --quick --tokens sweep.pcd --impl 'flash_*' --dtype "
      "f16 --plugin ./my.so -o results.jsonl\n"
      "To judge one plugin on the default suite: attest run --plugin ./my.so\n"
      "On the default suite, named or not, --plugin judges only its own implementations, unless "
      "--impl names others; on other suites it judges all, to compare them.\n" +
      quantity_help());
  return [arguments, command] {
    arguments->judging.command = command_line(*command);
    arguments->own_case_limit = command->count("--case-limit") > 0;
    return run(*arguments);
  };
}

}  // namespace attest::cli
