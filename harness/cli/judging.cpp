#include "cli/judging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/ending.hpp"
#include "cli/exit_code.hpp"
#include "cli/forecast.hpp"
#include "cli/interrupt.hpp"
#include "cli/recorder.hpp"
#include "cli/table_file.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

// `all_judged`: every declared feature and dtype was judged, or --strict was not given.
int exit_code(const std::vector<core::Record>& records, bool all_judged) {
  using core::Record;
  if (interrupted()) return kInterrupted;
  if (std::ranges::any_of(records, [](const Record& r) { return r.outcome.is_bad(); })) return kBad;
  if (std::ranges::none_of(records, [](const Record& r) { return r.outcome.passes(); }))
    return kNothing;
  return all_judged ? kOk : kInconclusive;
}

void check_paths(const JudgingOptions& options) {
  namespace fs = std::filesystem;
  // --resume names the file to write as well; -o may name the same.
  if (!options.resume.empty() && !options.output.empty() &&
      fs::weakly_canonical(options.resume) != fs::weakly_canonical(options.output))
    throw core::Error(
        fmt::format("--resume {}: -o names another file, {}", options.resume, options.output));
  if (options.resume.empty() && !options.overwrite) refuse_to_replace(options.output);
}

}  // namespace

int judge_plan(core::Plan plan, JudgingOptions& options, const PrintRecords& before,
               const PrintRecords& after) {
  check_paths(options);
  if (options.dry_run) return exit_code(forecast(std::move(plan), options), true);
  const core::Implementations implementations = options.plugins.load();
  core::Session session(std::move(plan), implementations, options.run_options(),
                        options.token_files, interrupted);
  Recorder recorder(options, implementations, session);
  TableFile table(options.table);

  catch_interrupts();
  session.run(recorder);
  if (session.completed()) recorder.close(session);
  table.write(recorder.results(session));

  const std::vector<core::Record>& records = session.records();
  if (before) before(records);
  if (options.shows_progress)
    recorder.end_table();
  else
    recorder.print_all(session);
  if (after) after(records);
  if (options.shows_shares) print_shares(session.shares());
  const core::NeverJudged left = session.never_judged();
  if (!options.table.empty()) fmt::print("table: {}\n", options.table);
  if (options.shows_coverage) {
    if (!options.results_path().empty()) fmt::print("results: {}\n", options.results_path());
    fmt::print("{}", core::print_never_judged(left));
    print_next(records, options);
  }
  print_stop(session, options);
  return exit_code(records, left.empty() || !options.strict);
}

}  // namespace attest::cli
