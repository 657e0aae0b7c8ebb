// attest run: judges and times implementations on suites.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/header.hpp"
#include "cli/jobs.hpp"
#include "cli/locate.hpp"
#include "cli/run.hpp"
#include "cli/vectors.hpp"
#include "core/isolation/installation.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

struct RunArguments : CaseFilter {
  std::vector<std::string> suites, tokens, fills, vectors;
  VectorWords words;
  bool own_case_limit = false;
  JudgingOptions judging;
  Session session;
};

// Vectors bring their own inputs, and are judged, not timed: they are small.
int run_vectors(RunArguments& arguments) {
  Session& session = arguments.session;
  for (const auto& [given, option] :
       {std::pair(!arguments.suites.empty(), "suites"),
        std::pair(!arguments.tokens.empty(), "--tokens"),
        std::pair(!arguments.fills.empty(), "--fill"),
        std::pair(!arguments.dtypes.empty(), "--dtype"), std::pair(arguments.quick, "--quick"),
        std::pair(arguments.budget_s > 0, "--budget")})
    if (given)
      throw core::Error(
          fmt::format("{} cannot be given with --vectors: vectors bring their inputs and are "
                      "judged, not timed; --case names them",
                      option));
  arguments.judging.apply(session);
  return run_vectors(arguments.vectors, arguments.cases, arguments.words, session);
}

int run(RunArguments& arguments) {
  if (!arguments.vectors.empty()) return run_vectors(arguments);
  if (!arguments.words.empty())
    throw core::Error(
        fmt::format("--{} goes with --vectors FILE.safetensors", arguments.words.begin()->first));
  std::vector<core::Suite> suites;
  // Without a suite a plugin of one's own is judged by itself; with one it is compared.
  const bool by_itself = arguments.suites.empty();
  arguments.session.plugins.only_named = by_itself && !arguments.session.plugins.plugins.empty();
  if (by_itself) {
    arguments.suites = {"default"};
    if (!arguments.own_case_limit)
      arguments.session.options.case_limit_s = 1;  // a slow kernel too in a minute
  }
  Session& session = arguments.session;
  for (const std::string& suite : arguments.suites) {
    session.suite_files.push_back(core::find_suite(suite));
    suites.push_back(core::read_suite(session.suite_files.back()));
  }
  arguments.judging.apply(session);
  session.options.budget_s = arguments.budget_s > 0 ? arguments.budget_s
                             : by_itself            ? 0.08
                             : arguments.quick      ? 0.15
                                                    : 1.0;
  session.options.fills = arguments.fills;
  session.token_files = arguments.tokens;
  check_token_files(arguments.tokens);
  TokenStore tokens(arguments.tokens);
  const std::vector<Job> jobs = make_jobs(suites, arguments);
  if (!arguments.fills.empty()) check_fills(jobs, arguments.fills);
  std::vector<std::string> sources;
  for (const Job& job : jobs) {
    check_inputs(job, tokens);
    if (job.wanted->inputs.from_tokens) sources.push_back(job.wanted->inputs.source);
  }
  if (std::string unused; !tokens.wanted_by(sources, unused))
    throw core::Error(fmt::format("--tokens {}: no case takes tokens of that kind", unused));
  return run_jobs(jobs, session, tokens);
}

}  // namespace

Command add_run(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("run", "judge and time implementations on suites of cases");
  auto arguments = std::make_shared<RunArguments>();
  command
      ->add_option("suites", arguments->suites,
                   "suite files, or names of suites that come with attest (default: default)")
      ->type_name("SUITE");
  command
      ->add_option("--vectors", arguments->vectors,
                   "instead of suites: a folder of ONNX node tests or of case.json folders, a "
                   ".json file that names tensors, or a "
                   ".safetensors or .npz file with q, k, v and o (repeatable)")
      ->allow_extra_args(false)
      ->type_name("DIR");
  add_vector_words(*command, arguments->words);
  command->add_flag("--quick", arguments->quick,
                    "only the cases that a suite marks as quick, with shorter timing");
  command
      ->add_option("--case", arguments->cases,
                   "only cases of these names (globs, separated by commas)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command->add_option("--dtype", arguments->dtypes, "only these dtypes: f32,f16,bf16 (globs)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      ->add_option("--tokens", arguments->tokens,
                   "a LiDAR sweep (.pcd .ply .bin) or an image (.png .jpg) for the cases that take "
                   "tokens of its kind (repeatable)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command
      ->add_option("--fill", arguments->fills,
                   "judge on these inputs alone: tokens,random,codebook,huge,...; all: on every "
                   "one that a case has")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
  command
      ->add_option("--budget", arguments->budget_s,
                   "seconds of timed runs for each implementation and case (default: the suite's, "
                   "else 0.15 with --quick or "
                   "without a suite, else 1)")
      ->check(CLI::Range(0.001, 1e6))
      ->type_name("S");
  arguments->judging.add_to(*command, arguments->session);
  command->footer(
      "Example: attest run suites/lidar.json --quick --tokens sweep.pcd --impl 'flash_*' --dtype "
      "f16 --plugin ./my.so -o "
      "results.jsonl\n"
      "Judges the implementations of one plugin on the default suite: attest run --plugin ./my.so");
  return [arguments, command] {
    arguments->session.command = command_line(*command);
    arguments->own_case_limit = command->count("--case-limit") > 0;
    return run(*arguments);
  };
}

}  // namespace attest::cli
