#include "cli/options/judging_options.hpp"

#include <fmt/format.h>

#include <map>

#include "cli/options/quantity_options.hpp"
#include "cli/output/table_file.hpp"
#include "core/device/device_kinds.hpp"
#include "core/operations/declaration.hpp"

namespace attest::cli {
namespace {

const std::map<std::string, core::RelationChoice> kRelationChoices{
    {"auto", core::RelationChoice::kAuto},
    {"all", core::RelationChoice::kAll},
    {"none", core::RelationChoice::kNone}};

}  // namespace

std::string_view print(core::RelationChoice choice) {
  for (const auto& [word, known] : kRelationChoices)
    if (known == choice) return word;
  return "";
}

void JudgingOptions::add_to(CLI::App& app) {
  app.add_flag("--judge-only", untimed, "judge implementations, but do not time them");
  // Not a transformer: it would put the numbers of the choices into the record's command line.
  app.add_option_function<std::string>(
         "--relations", [this](const std::string& word) { relations = kRelationChoices.at(word); },
         "compare runs on changed inputs (permuted, split, shifted ...): auto (if a run takes less "
         "than 20 ms), all or none")
      ->check(CLI::IsMember(kRelationChoices).description(""))
      ->default_str("auto")
      ->type_name("auto|all|none");
  app.add_flag(
      "--host-golden", host_golden,
      "compute every golden on the host; without this, a GPU may compute those of large cases, on "
      "more rows");
  pacing.add_to(app);
  app.add_flag(
      "--require-locked-clocks", locked_clocks,
      "do not start unless the clocks of this machine are locked, as far as implementations "
      "use them; the error says which are not, and the command that locks them");
  app.add_option("--min-arithmetic", least,
                 fmt::format("refuse implementations that compute less precisely in a stage of "
                             "their operation ({}), e.g. acc=f32,prob=bf16",
                             core::stage_words(core::all_operations())))
      ->type_name("LIST");
  app.add_option("-o,--output", output, "write the results to a new file, as JSON lines")
      ->type_name("FILE");
  app.add_flag("--overwrite", overwrite, "let -o and --table replace files that exist");
  plugins.add_to(app);
}

core::RunOptions JudgingOptions::run_options() const {
  core::RunOptions options{.limits = plugins.limits,
                           .least = core::parse_min_arithmetic(least, core::all_operations()),
                           .relations = relations,
                           .timed = !untimed,
                           .dry_run = dry_run,
                           .golden_device = host_golden ? nullptr : core::find_golden_device(),
                           .reruns = reruns,
                           .observer = observer};
  pacing.apply_to(options);
  return options;
}

core::Identity JudgingOptions::identity(const core::Session& session) const {
  core::Identity identity = session.identity();
  identity["min-arithmetic"] = least;
  identity["pacing"] = pacing.words();
  return identity;
}

void JudgingOptions::add_case_limit_to(CLI::App& app, const std::string& help) {
  add_seconds(app, "--case-limit", plugins.limits.case_limit_s, help, 0.01, 1e6);
}

void JudgingOptions::add_many_to(CLI::App& app) {
  add_case_limit_to(app,
                    "skip a case if four runs are estimated to take longer; 8s with --quick, 1s on "
                    "the default suite");
  app.add_flag("--strict", strict,
               "exit with 3 if an implementation declares features or dtypes that no case judged");
  app.add_flag("--dry-run", dry_run,
               "run nothing and write nothing: show what would run, with estimates of time and "
               "memory, and what would be skipped and why");
  app.add_flag("--fail-fast", fail_fast,
               "stop after the first case that fails, is suspect, crashes, times out or ends in an "
               "error");
  app.add_option("--resume", resume,
                 "continue an interrupted run, with the same other arguments, in the same results "
                 "file; begins a new file if there is none")
      ->type_name("FILE");
  add_table(app, table);
  add_to(app);
}

}  // namespace attest::cli
