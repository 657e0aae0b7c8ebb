// attest capture: writes cases into folders that attest replay, or anybody's own program, reads.
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/options/vector_words.hpp"
#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "core/session/plan.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/captured/capture.hpp"

namespace attest::cli {
namespace {

namespace fs = std::filesystem;

struct CaptureArguments {
  std::vector<std::string> suites, tokens, vectors;
  core::CaseFilter filter;
  core::SpecJob job;
  std::string output;
  core::VectorWords words;
};

/// One problem, under the fills that were asked for or else under the first that judges it (of
/// `own`, where the case names some); a folder each. How many.
int capture_fills(const core::Problem& problem, const core::CaseLabel& label,
                  const core::Tokens* tokens, const std::vector<std::string>& asked,
                  const std::vector<std::string>& own, const fs::path& folder) {
  const std::string spec = core::print_problem(problem);
  core::RunOptions options;
  options.fills = asked.empty() ? own : asked;
  core::Rates rates;
  std::vector<std::string> names =
      core::CaseRunner(problem, spec, label, tokens, options, rates).fills();
  if (asked.empty()) names.resize(std::min<size_t>(names.size(), 1));
  for (const std::string& name : names) {
    const core::PreparedInputs inputs(problem, core::Fill{name, core::spec_seed(spec)}, tokens);
    core::capture_case(
        problem, inputs,
        fmt::format("attest {}{}{}, fill {}, inputs {}", label.suite,
                    label.suite.empty() ? "" : "/", label.case_name, name, label.inputs),
        folder / name);
    fmt::print("{}\n", (folder / name).string());
  }
  return int(names.size());
}

int capture_spec(const CaptureArguments& arguments) {
  const std::vector<std::string>& fills = arguments.filter.fills;
  core::plan_spec(arguments.job, fills, "spec");  // refuses what makes no sense
  core::TokenStore store(arguments.tokens);
  core::CaseLabel label{"", "spec", "random", ""};
  const core::Tokens* tokens = nullptr;
  if (arguments.job.inputs != "random") {
    tokens = &store.take(arguments.job.inputs);
    label.inputs = print(store.source(arguments.job.inputs));
  }
  return capture_fills(core::parse_problem(arguments.job.spec), label, tokens, fills, {},
                       arguments.output);
}

int capture_suites(const CaptureArguments& arguments) {
  const core::Plan plan = core::plan_suites(arguments.suites, arguments.filter, arguments.tokens);
  core::TokenStore store(arguments.tokens);
  int count = 0;
  for (const core::Job& job : plan.jobs) {
    const core::SuiteJob& source = std::get<core::SuiteJob>(job.source);
    const core::Inputs& inputs = source.wanted->inputs;
    core::CaseLabel label{job.suite, job.case_name, "random", source.wanted->source};
    const core::Tokens* tokens = nullptr;
    if (inputs.from_tokens) {
      tokens = &store.take(inputs.source);
      label.inputs = print(store.source(inputs.source));
    }
    count += capture_fills(source.wanted->problem(source.dtype, tokens ? tokens->count : 0), label,
                           tokens, arguments.filter.fills, source.wanted->fills,
                           fs::path(arguments.output) / job.suite / job.case_name / job.dtype);
  }
  return count;
}

int capture_vectors(const CaptureArguments& arguments) {
  const core::Plan plan = core::plan_vectors(arguments.vectors, arguments.filter, arguments.words);
  int count = 0;
  for (const core::Job& job : plan.jobs) {
    const core::TestVector vector = core::read_vector(std::get<core::VectorJob>(job.source).place);
    const std::string name = job.suite + "/" + vector.name;
    if (!vector.problem) {
      fmt::print(stderr, "attest: {}: not captured: {}\n", name,
                 vector.unsupported.empty()
                     ? vector.operation + " has no problem that implementations take"
                     : vector.unsupported);
      continue;
    }
    const fs::path folder = fs::path(arguments.output) / job.suite / vector.name;
    for (const std::string& what : core::capture_vector(vector, folder))
      fmt::print(stderr, "attest: {}: left out: {}\n", name, what);
    fmt::print("{}\n", folder.string());
    ++count;
  }
  return count;
}

int run(const CaptureArguments& arguments) {
  if (!arguments.words.empty() && arguments.vectors.empty())
    throw core::Error(
        fmt::format("--{} goes with --vectors FILE.safetensors", arguments.words.begin()->first));
  if (int(!arguments.suites.empty()) + int(!arguments.vectors.empty()) +
          int(!arguments.job.spec.empty()) !=
      1)
    throw core::Error("capture: name suites, or --vectors, or --spec: one of them");
  const int count = !arguments.job.spec.empty()  ? capture_spec(arguments)
                    : !arguments.vectors.empty() ? capture_vectors(arguments)
                                                 : capture_suites(arguments);
  if (count == 0) throw core::Error("capture: nothing was captured");
  fmt::print("{} captured; attest replay {} judges them\n", count, arguments.output);
  return kOk;
}

}  // namespace

Command add_capture(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "capture", "write cases into folders: their inputs, bit for bit, and their golden");
  auto arguments = std::make_shared<CaptureArguments>();
  command
      ->add_option("suites", arguments->suites,
                   "suite files, or names of suites that come with attest")
      ->type_name("SUITE");
  command->add_option("--spec", arguments->job.spec, "one problem, as attest repro takes it")
      ->type_name("SPEC");
  command->add_option("--inputs", arguments->job.inputs, "with --spec: random, or a token source")
      ->capture_default_str()
      ->type_name("SOURCE");
  command
      ->add_option("--vectors", arguments->vectors,
                   "a folder of vectors, or a file of tensors (repeatable)")
      ->allow_extra_args(false)
      ->type_name("DIR");
  add_vector_words(*command, arguments->words);
  command->add_flag("--quick", arguments->filter.quick,
                    "only the cases that a suite marks as quick");
  for (const auto& [name, globs, help] :
       {std::tuple("--case", &arguments->filter.cases, "only cases with these names (globs)"),
        std::tuple("--dtype", &arguments->filter.dtypes, "only these dtypes (globs)"),
        std::tuple("--fill", &arguments->filter.fills, "these fills (default: the first fill)")})
    command->add_option(name, *globs, help)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("GLOB");
  command
      ->add_option("--tokens", arguments->tokens,
                   "a sweep or an image, for cases that take their tokens from one (repeatable)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command
      ->add_option("-o,--output", arguments->output,
                   "the folder below which the captured cases are written, by their names")
      ->required()
      ->type_name("DIR");
  command->footer(
      "Example: attest capture vit --case vit_b_16_224/self --dtype f16 -o captured && attest "
      "replay captured --impl 'flash_*'");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
