// attest gate: judges results by the limits of a rules file, for a build server.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/comparison/gate_rules.hpp"
#include "cli/exit_code.hpp"
#include "cli/options/floors_option.hpp"
#include "cli/output/header.hpp"
#include "cli/output/progress.hpp"
#include "cli/output/results_file.hpp"
#include "cli/output/written_file.hpp"
#include "core/tensor/error.hpp"
#include "reports/compare/builds.hpp"
#include "reports/gate/gate_text.hpp"

namespace attest::cli {
namespace {

struct GateArguments {
  std::vector<std::string> results, baseline;
  std::string rules_path, json_path;
  bool strict = false;
  reports::GateOptions options;
  FloorsOption floors;
};

int exit_code(const reports::Gated& gated, bool strict) {
  if (verdict_broken(gated)) return kBad;
  if (!gated.broken.empty()) return kWorse;
  if (!gated.unable.empty()) return kNothing;
  return strict && undecided(gated) ? kInconclusive : kOk;
}

int run(GateArguments& arguments) {
  const reports::GateRules rules = read_gate_rules(arguments.rules_path);
  if (const std::string limit = rules.needs_baseline();
      !limit.empty() && arguments.baseline.empty())
    throw core::Error(fmt::format("{}: {} needs a baseline; name it with --baseline FILE",
                                  arguments.rules_path, limit));
  refuse_inputs("--json", arguments.json_path, arguments.results, arguments.baseline);
  refuse_inputs("--json", arguments.json_path, {arguments.rules_path}, {});
  const std::vector<core::Results> before = read_launches(arguments.baseline),
                                   after = read_launches(arguments.results);
  require_peer(before, after, arguments.options.relative_to);
  arguments.options.floors = arguments.floors.read();
  arguments.floors.require_of(after, arguments.options.relative_to);
  reports::require_one_build(before, after);
  arguments.options.today = utc_now().substr(0, 10);
  const reports::Gated gated = gate(before, after, rules, arguments.options);
  const int code = exit_code(gated, arguments.strict);
  nlohmann::json json = to_json(gated);
  json["exit_code"] = code;
  write_json_file("--json", arguments.json_path, json);
  fmt::print("{}", print_gate(gated, wants_colour(stdout)));
  if (!gated.unable.empty()) fmt::print(stderr, "attest: {}\n", gated.unable);
  return code;
}

}  // namespace

Command add_gate(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "gate", "judge results by a file of rules: limits by suite, implementation and case");
  auto arguments = std::make_shared<GateArguments>();
  command
      ->add_option("results", arguments->results,
                   "results of the build to be judged; each file is one launch")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--baseline", arguments->baseline,
                   "results of the build that passed before; each file is one launch")
      ->type_name("FILE");
  command
      ->add_option("--rules", arguments->rules_path,
                   "limits and waivers as JSON; reports/README.md describes the file")
      ->required()
      ->type_name("FILE");
  arguments->floors.add_to(*command);
  command
      ->add_option(
          "--relative-to", arguments->options.relative_to,
          "divide times by those of this implementation in the same launch, or by the least "
          "time that the machine allows: roofline")
      ->type_name("IMPL");
  command->add_flag("--across-machines", arguments->options.across_machines,
                    "compare times even between machines, kinds of build or numbers of threads");
  command->add_flag("--strict", arguments->strict,
                    "exit with 3 if a limit could not be judged, a case of the baseline is "
                    "missing, or a rule matches no case");
  command->add_option("--json", arguments->json_path, "also write what was found as JSON")
      ->type_name("FILE");
  command->footer(
      "Example of rules:\n"
      "  {\"rules\": [{\"verdict\": \"not_bad\", \"time\": {\"slower_than\": \"10 %\"}},\n"
      "             {\"suite\": \"vit\", \"impl\": \"flash_*\", \"verdict\": \"pass\",\n"
      "              \"memory\": {\"bigger_than\": \"5 %\"}, \"error\": {\"max_ratio\": 0.8}}],\n"
      "   \"waivers\": [{\"case\": \"bev/*\", \"limits\": \"time\", \"reason\": \"issue 12\",\n"
      "                \"expires\": \"2026-12-31\"}]}\n"
      "Example: attest gate results.jsonl --baseline base.jsonl --rules rules.json\n"
      "Exit codes: 0 every limit is kept or waived; 1 a limit on a verdict is broken; 2 another "
      "limit is broken; 3 --strict: something is undecided or missing;\n"
      "4 nothing could be judged, e.g. because the baseline is of another machine; 64 usage, or "
      "not a results or "
      "rules file.");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
