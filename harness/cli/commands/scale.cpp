// attest scale: judges and times implementations at many sizes, and says how they scale.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/judging.hpp"
#include "cli/options/command_line.hpp"
#include "cli/options/quantity_options.hpp"
#include "cli/output/written_file.hpp"
#include "core/session/sweep_plan.hpp"
#include "core/tensor/error.hpp"
#include "reports/scaling/scaling_json.hpp"
#include "reports/scaling/scaling_text.hpp"

namespace attest::cli {
namespace {

// Points are this factor apart at least; between them nothing more is measured.
constexpr double kLeastRatio = 1.35;

struct ScaleArguments {
  std::vector<std::string> subjects, over, fills;
  std::string threads, json_path;
  double deadline_s = 0;
  uint64_t memory_bytes = 0;
  int doublings = 2;
  core::SweepFilter filter;
  JudgingOptions judging;
};

/// An entry of a suite or a spec line: what is swept, and with how many threads.
struct Entry {
  std::vector<core::Sweep> sweeps;  // their values grow while points are added
  std::vector<int64_t> threads;
};

/// Plans the sessions of the command: one for each number of threads, the largest first. In the
/// first session of an entry points are added where they tell more.
class ScalePlanner {
 public:
  ScalePlanner(std::vector<Entry> entries, ScaleArguments& arguments)
      : entries_(std::move(entries)), arguments_(arguments) {
    std::set<int64_t> all;
    for (const Entry& entry : entries_) all.insert(entry.threads.begin(), entry.threads.end());
    left_.assign(all.begin(), all.end());
  }

  /// "9 points: 4 sizes of seq_len_q in f32 ...": what is to come, before anything runs.
  std::string forecast() const {
    size_t points = 0;
    std::string text;
    for (const Entry& entry : entries_)
      for (const core::Sweep& sweep : entry.sweeps) {
        const core::Case& base = sweep.of.base;
        points += sweep.values.size() * base.dtypes.size() * entry.threads.size();
        text += fmt::format("{}{} size{} of {} ({})", text.empty() ? "" : ", ", sweep.values.size(),
                            sweep.values.size() == 1 ? "" : "s", sweep.over,
                            sweep.values.size() == 1 ? fmt::format("{}", sweep.values.front())
                                                     : fmt::format("{} .. {}", sweep.values.front(),
                                                                   sweep.values.back()));
        if (base.dtypes.size() > 1) text += fmt::format(" in {} dtypes", base.dtypes.size());
        if (entry.threads.size() > 1)
          text +=
              fmt::format(" with {} numbers of threads, the largest first", entry.threads.size());
      }
    return fmt::format(
        "{} point{} for each implementation: {}; before {} the smallest problem{}", points,
        points == 1 ? "" : "s", text, points == 1 ? "it" : "them",
        arguments_.doublings > 0
            ? fmt::format(", and after them up to {} rounds of points between others "
                          "(--doublings 0: none)",
                          arguments_.doublings)
            : "");
  }

  /// The plan of the next number of threads; no jobs: there is none left.
  core::Plan next_session() {
    core::Plan plan;
    if (left_.empty()) return plan;
    const int64_t threads = left_.back();
    left_.pop_back();
    rounds_ = 0;
    arguments_.judging.plugins.limits.threads = int32_t(threads);
    for (const Entry& entry : entries_)
      if (has(entry, threads)) {
        core::Plan more = core::plan_sweeps(entry.sweeps, point_options(entry));
        for (const auto& [key, value] : more.identity) plan.identity[key] += value + " ";
        more.identity.clear();
        plan.append(std::move(more));
      }
    return plan;
  }

  /// Points where fits are loose and where implementations cross.
  core::Plan more_points(const std::vector<core::Record>& records) {
    core::Plan plan;
    if (rounds_++ >= arguments_.doublings) return plan;
    const reports::Scaling scaling = reports::scaling_of(records);
    for (const reports::Gap& gap : reports::gaps(scaling, kLeastRatio))
      add_between(scaling.sweeps[gap.sweep], gap, plan);
    if (!plan.jobs.empty())
      fmt::print("added between others, where a fit is loose or implementations cross: {}\n",
                 names_of(plan));
    return plan;
  }

 private:
  // "seq_len_q=256, seq_len_q=512", each once.
  static std::string names_of(const core::Plan& plan) {
    std::vector<std::string> names;
    for (const core::Job& job : plan.jobs)
      if (std::ranges::find(names, job.case_name) == names.end()) names.push_back(job.case_name);
    return fmt::format("{}", fmt::join(names, ", "));
  }

  static bool has(const Entry& entry, int64_t threads) {
    return std::ranges::find(entry.threads, threads) != entry.threads.end();
  }

  core::PointOptions point_options(const Entry& entry) const {
    const int32_t threads = arguments_.judging.plugins.limits.threads;
    return {.budget_s = 0,  // the session's
            .fills = arguments_.fills,
            .threads = entry.threads.size() > 1 ? threads : 0};
  }

  void add_between(const reports::ScalingSweep& of, const reports::Gap& gap, core::Plan& plan) {
    const int64_t threads = arguments_.judging.plugins.limits.threads;
    for (Entry& entry : entries_)
      for (core::Sweep& sweep : entry.sweeps) {
        const core::Case& base = sweep.of.base;
        if (base.suite != of.suite || base.name != of.sweep || sweep.over != of.over) continue;
        if (of.threads != threads || threads != entry.threads.back()) continue;
        const std::optional<int64_t> middle = sweep.between(gap.low, gap.high);
        if (!middle || std::ranges::find(sweep.values, *middle) != sweep.values.end()) continue;
        sweep.values.insert(std::ranges::upper_bound(sweep.values, *middle), *middle);
        core::add_point(sweep, *middle, point_options(entry), plan);
      }
  }

  std::vector<Entry> entries_;
  ScaleArguments& arguments_;
  std::vector<int64_t> left_;  // numbers of threads that have had no session
  int rounds_ = 0;             // of added points in this session
};

std::vector<core::Scaling> read_subjects(const ScaleArguments& arguments) {
  std::vector<core::Scaling> all;
  std::vector<std::string> suites;
  for (const std::string& subject : arguments.subjects) {
    if (!core::is_spec(subject)) {
      suites.push_back(subject);
      continue;
    }
    if (arguments.over.empty())
      throw core::Error(fmt::format("scale: {} needs --over, e.g. --over seq_len_q=1k..256k",
                                    core::in_quotes(subject)));
    all.push_back(core::scaling_of_spec(subject, arguments.over, arguments.filter.dtypes));
  }
  if (suites.size() < arguments.subjects.size()) {
    const core::SweepFilter& filter = arguments.filter;
    if (filter.quick || !filter.names.empty())
      throw core::Error("scale: --quick and --case select from suites; leave them out");
  } else if (!arguments.over.empty()) {
    throw core::Error("scale: --over goes with a problem; a suite says itself what grows");
  }
  if (!suites.empty())
    for (core::Scaling& scaling : core::read_scalings(suites, arguments.filter))
      all.push_back(std::move(scaling));
  core::number_names(all);
  return all;
}

std::vector<int64_t> threads_of(const ScaleArguments& arguments, const core::Scaling& scaling) {
  const int32_t all = core::settle({.threads = 0}).threads;
  const std::string& text = arguments.threads.empty() ? scaling.threads : arguments.threads;
  if (text.empty()) return {all};
  constexpr double kStep = 2;
  const auto threads = core::parse_range(text, kStep, all);
  if (!threads || threads->back() > 4096)
    throw core::Error(fmt::format("--threads {}: must be numbers of threads, e.g. 1..n or 1,2,4",
                                  core::in_quotes(text)));
  return *threads;
}

std::vector<Entry> entries_of(const ScaleArguments& arguments) {
  std::vector<Entry> entries;
  for (core::Scaling& scaling : read_subjects(arguments)) {
    if (arguments.deadline_s > 0) scaling.deadline_s = arguments.deadline_s;
    if (arguments.memory_bytes > 0) scaling.memory_bytes = arguments.memory_bytes;
    std::vector<int64_t> threads = threads_of(arguments, scaling);
    entries.push_back({core::sweeps_of(scaling), std::move(threads)});
  }
  return entries;
}

bool has_finding(const reports::Scaling& scaling) {
  return std::ranges::any_of(scaling.sweeps, [](const reports::ScalingSweep& sweep) {
    return std::ranges::any_of(sweep.series,
                               [](const auto& series) { return !series.finding.empty(); });
  });
}

int run(ScaleArguments& arguments) {
  ScalePlanner planner(entries_of(arguments), arguments);
  if (!arguments.judging.dry_run) fmt::print("{}\n", planner.forecast());
  reports::Scaling scaling;
  const auto print = [&](const std::vector<core::Record>& records) {
    scaling = reports::scaling_of(records);
    fmt::print("\n{}", print_scaling(scaling));
    write_json_file("--json", arguments.json_path, to_json(scaling));
  };
  // Of scale it means findings, not what was never judged.
  const bool strict = std::exchange(arguments.judging.strict, false);
  arguments.judging.shows_shares = true;
  arguments.judging.shows_coverage = false;
  const int code = judge_plan(
      planner.next_session(), arguments.judging,
      {.after = print,
       .extend = [&](const std::vector<core::Record>& r) { return planner.more_points(r); },
       .next_session = [&](const std::vector<core::Record>&) { return planner.next_session(); }});
  return code == kOk && strict && has_finding(scaling) ? int(kInconclusive) : code;
}

void add_selection(CLI::App& command, ScaleArguments& arguments) {
  command
      .add_option("subjects", arguments.subjects,
                  "problems, e.g. 'softmax num_heads=8 head_dim=64', or suites with a section "
                  "scaling")
      ->required()
      ->type_name("SPEC|SUITE");
  command
      .add_option("--over", arguments.over,
                  fmt::format("the field that grows, and its sizes: {} (repeatable: each field "
                              "grows by itself)",
                              core::kRangeWords))
      ->allow_extra_args(false)
      ->type_name("FIELD=SIZES");
  command.add_flag("--quick", arguments.filter.quick,
                   "only the sweeps that a suite marks as quick");
  command
      .add_option("--case", arguments.filter.names,
                  "only sweeps of suites with these names (globs)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      .add_option("--dtype", arguments.filter.dtypes,
                  "the dtypes of problems: f32,f16,bf16; of suites only these (globs)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command.add_option("--fill", arguments.fills, "judge only on these fills; all: on every fill")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
}

void add_budgets(CLI::App& command, ScaleArguments& arguments) {
  command
      .add_option("--threads", arguments.threads,
                  "numbers of threads, e.g. 1..n or 1,2,4: the sweeps run with each (n: all CPUs "
                  "that this process may use; default: n)")
      ->type_name("N");
  arguments.judging.add_case_limit_to(command,
                                      "skip a point if four runs are estimated to take longer");
  command.add_flag("--strict", arguments.judging.strict,
                   "exit with 3 if declared workspace and measured memory grow differently");
  add_seconds(command, "--deadline", arguments.deadline_s,
              "also find the largest size that runs in this time", 1e-9, 1e6);
  add_bytes(command, "--memory", arguments.memory_bytes,
            "also find the largest size whose tensors and measured memory fit in this size", 1);
  command
      .add_option("--doublings", arguments.doublings,
                  "how often points are added between others where a fit is loose or "
                  "implementations cross")
      ->check(CLI::Range(0, 4).description(""))
      ->capture_default_str()
      ->type_name("N");
  add_seconds(command, "--budget", arguments.judging.plugins.limits.budget_s,
              "time for the timed runs of each implementation and point", 0.001, 1e6);
  command.add_option("--json", arguments.json_path, "also write fits and crossovers as JSON")
      ->type_name("FILE");
}

}  // namespace

Command add_scale(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "scale", "judge and time implementations at many sizes; say how time and memory grow");
  auto arguments = std::make_shared<ScaleArguments>();
  arguments->judging.plugins.limits.budget_s = 0.5;
  add_selection(*command, *arguments);
  arguments->judging.add_many_to(*command);
  // Their meaning is another here.
  for (const char* name : {"--threads", "--memory", "--case-limit", "--strict"})
    command->remove_option(command->get_option(name));
  add_budgets(*command, *arguments);
  command->footer(
      "Example: attest scale 'softmax num_heads=8 head_dim=64' --over seq_len_q=1k..256k --impl "
      "'flash_*,naive' --deadline 50ms --memory 2GiB -o scaling.jsonl\n"
      "Every point is judged and recorded like a case; attest report scaling.jsonl --format "
      "scaling "
      "prints the same again.\n"
      "Points that would take longer than --case-limit, or more memory than there is, are "
      "skipped.");
  return [arguments, command] {
    arguments->judging.command = command_line(*command);
    return run(*arguments);
  };
}

}  // namespace attest::cli
