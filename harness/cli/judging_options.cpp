#include "cli/judging_options.hpp"

#include <fmt/format.h>

#include <map>

#include "cli/table_file.hpp"
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
  app.add_flag("--judge-only", untimed, "judge, do not time");
  // Not a transformer: it would put the numbers of the choices into the record's command line.
  app.add_option_function<std::string>(
         "--relations", [this](const std::string& word) { relations = kRelationChoices.at(word); },
         "compare runs on changed inputs (permuted, split, shifted ...) with one another: auto, "
         "where a run takes less than 20 ms; all; none")
      ->check(CLI::IsMember(kRelationChoices).description(""))
      ->default_str("auto")
      ->type_name("WHERE");
  app.add_flag(
      "--host-golden", host_golden,
      "make every golden on the host, where a device would make that of large cases on more rows");
  app.add_option("-o,--output", output, "results as JSON lines, into a new file")
      ->type_name("FILE");
  app.add_flag("--overwrite", overwrite, "-o may name a file of results, which it replaces");
  plugins.add_to(app);
}

void JudgingOptions::add_many_to(CLI::App& app) {
  app.add_option(
         "--case-limit", plugins.limits.case_limit_s,
         "skip what is estimated to take more seconds for its four least runs; 1 without a suite")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str()
      ->type_name("S");
  app.add_flag(
      "--strict", strict,
      "exit with 3 where an implementation declares features or dtypes that no case judged");
  app.add_option("--min-arithmetic", least,
                 fmt::format("refuse implementations that declare less in a stage of their "
                             "operation ({}), e.g. acc=f32,prob=bf16",
                             core::stage_words(core::all_operations())))
      ->type_name("LIST");
  app.add_option("--resume", resume,
                 "go on with a run that was cut short, into the same file; all other arguments as "
                 "before. A file that is not there is begun")
      ->type_name("FILE");
  add_table(app, table);
  add_to(app);
}

}  // namespace attest::cli
