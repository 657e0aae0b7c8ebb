// mutants_matrix: tries mutants on cases and keeps what saw them, then prints the table.
// scripts/mutants.sh calls it. `--help` of each subcommand lists its options.
//
//   mutants_matrix collect ROWS.jsonl --sizes 61,197 --plugin mutants.so --other trespassers.so
//
//   mutants_matrix collect ROWS.jsonl --each-once --plugin steps.so
//
//   mutants_matrix print ROWS.jsonl
//
// `--each-once` tries each mutant on its smallest case alone. `print` exits with 1 if something
// that should have been caught was not, or if something right was. Rows that ROWS.jsonl has already
// are not tried again; it keeps which build made them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/measure/machine/build_info.hpp"
#include "core/measure/machine/environment.hpp"
#include "core/measure/time.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"
#include "testing/mutants/expectations.hpp"
#include "testing/mutants/matrix.hpp"

namespace attest::testing {
namespace {

struct Wanted {
  std::string rows_path;
  bool each_once = false;
  std::vector<std::string> plugins, others, dtypes{"f32", "f16", "bf16"},
      families;  // families: all where empty
  std::vector<int64_t> sizes{61, 197};
  // Tokens; beyond, a mutant is done with at the first check that sees it
  int64_t all_checks_up_to = 1021;
};

// What follows from a row may change with the program that made it.
std::string this_build() {
  return fmt::format("commit {} on {}", core::build_info()["commit"],
                     core::read_environment()["cpu"]["model"]);
}

core::WorkerOptions worker(double timeout_s, uint64_t memory_bytes = 0) {
  return {.executable = core::find_worker(),
          .cpus = "",
          .limits = {.threads = 2, .timeout_s = timeout_s, .memory_bytes = memory_bytes}};
}

class Collector {
 public:
  explicit Collector(const std::string& path) : file_(path, std::ios::app) {
    for (const MatrixRow& row : read_rows(path).rows) known_.insert(row.key());
    file_ << nlohmann::json{{kMadeBy, this_build()}}.dump() << std::endl;
  }
  bool has(const MatrixRow& row) const { return known_.contains(row.key()); }
  void add(const MatrixRow& row) { file_ << to_line(row) << std::endl; }
  void add_seconds(double seconds) {
    file_ << nlohmann::json{{kSeconds, seconds}}.dump() << std::endl;
  }

 private:
  std::ofstream file_;
  std::set<std::string> known_;
};

bool has(const Collector& collector, const std::string& mutant, const MutantCase& tried) {
  return collector.has({.mutant = mutant,
                        .family = tried.family->name,
                        .dtype = tried.dtype,
                        .tokens = tried.tokens});
}

void try_mutants(core::Plugin& plugin, const MutantCase& wanted,
                 const std::vector<const core::Implementation*>& left, bool all_checks,
                 Collector& collector) {
  if (left.empty()) return;
  const auto start = core::Clock::now();
  Trials trials(plugin, wanted, all_checks ? Checks::kAll : Checks::kFirst);
  for (const core::Implementation* mutant : left)
    collector.add(matrix_row(trials.run(*mutant), all_checks));
  const double seconds = core::seconds_since(start);
  collector.add_seconds(seconds);
  fmt::print(stderr, "{} {} {}: {} mutants, {:.1f} s\n", wanted.family->name, wanted.tokens,
             wanted.dtype, left.size(), seconds);
}

void try_case(core::Plugin& plugin, const MutantCase& wanted, bool all_checks,
              Collector& collector) {
  std::vector<const core::Implementation*> left;
  for (const core::Implementation& mutant : plugin.implementations())
    if (concerns(mutant.name, *wanted.family) && !has(collector, mutant.name, wanted))
      left.push_back(&mutant);
  try_mutants(plugin, wanted, left, all_checks, collector);
}

// Each mutant on the smallest case of the first expectation that has it seen.
void try_each_once(core::Plugin& plugin, const Wanted& wanted, Collector& collector) {
  std::map<std::string, std::pair<MutantCase, std::vector<const core::Implementation*>>>
      cases;  // by spec
  for (const core::Implementation& mutant : plugin.implementations()) {
    const std::vector<Expected>& all = expectations();
    const auto row = std::find_if(all.begin(), all.end(), [&](const Expected& one) {
      return one.mutant == mutant.name && one.check;
    });
    if (row == all.end()) continue;
    const MutantCase smallest = smallest_case(*row);
    if (has(collector, mutant.name, smallest)) continue;
    cases.try_emplace(smallest.spec, smallest, std::vector<const core::Implementation*>())
        .first->second.second.push_back(&mutant);
  }
  for (const auto& [spec, one] : cases)
    try_mutants(plugin, one.first, one.second, one.first.tokens <= wanted.all_checks_up_to,
                collector);
}

void try_sizes(core::Plugin& plugin, const Wanted& wanted, Collector& collector) {
  const auto is_wanted = [&](const Family& family) {
    return wanted.families.empty() || std::find(wanted.families.begin(), wanted.families.end(),
                                                family.name) != wanted.families.end();
  };
  for (const int64_t tokens : wanted.sizes)
    for (const Family& family : families())
      for (const std::string& dtype : wanted.dtypes) {
        if (tokens > family.most_tokens || !is_wanted(family)) continue;
        if (family.most_tokens == kSizes[0] && dtype != "f16") continue;  // a fixed, large size
        try_case(plugin, make_case(family, tokens, dtype), tokens <= wanted.all_checks_up_to,
                 collector);
      }
}

// What misbehaves in other ways than in its numbers: whatever takes them is tried on these, timed
// too.
constexpr const char* kOtherSpecs[] = {
    "softmax dtype=f32 num_heads=2 seq_len_q=61 head_dim=64",
    "softmax dtype=f16 num_heads=2 seq_len_q=61 head_dim=64",
    "softmax dtype=f32 num_heads=2 seq_len_q=61 head_dim=64 window_right=0 mask=[1,1,1,61]",
    "softmax dtype=f32 num_heads=2 seq_len_q=61 head_dim=32 q.strides=[0,3904,64,1] "
    "k.strides=[0,3904,64,1] "
    "v.strides=[0,3904,64,1] "
    "o.strides=[0,3904,64,1]",
    "softmax num_heads=2 seq_len_q=61 head_dim=16",
    "linear dtype=f32 num_heads=2 seq_len_q=61 head_dim=32",
    "linear dtype=f16 num_heads=2 seq_len_q=61 head_dim=32",
    "softmax num_heads=2 seq_len_q=61 head_dim=16 window_right=0",
};

void try_other(const std::string& path, Collector& collector) {
  core::Plugin plugin(path, worker(5, 256 << 20));
  core::Rates rates;
  core::RunOptions options;
  options.limits.threads = 2;
  options.limits.budget_s = 0.02;
  options.limits.timeout_s = 5;
  options.all_checks = true;
  for (const char* spec : kOtherSpecs) {
    const core::Problem problem = core::parse_problem(spec);
    core::CaseRunner runner(problem, core::print_problem(problem),
                            {"mutants", "other", "random", ""}, nullptr, options, rates);
    for (const core::Implementation& one : plugin.implementations()) {
      if (!core::refuses(one, problem).empty()) continue;
      MatrixRow row{.mutant = one.name,
                    .family = spec,
                    .dtype = std::string(core::dtype_name(problem.dtype)),
                    .tokens = 61};
      if (collector.has(row)) continue;
      const core::Record record = runner.run(plugin, one);
      if (record.outcome.verdict() == core::Verdict::kUnsupported) continue;
      const bool bad = record.outcome.is_bad();
      row.outcome = bad                       ? "caught"
                    : record.outcome.passes() ? "passes"
                                              : std::string(name(record.outcome.code));
      if (bad) row.checks = row.by = {std::string(name(record.outcome.code))};
      collector.add(row);
    }
  }
}

void collect(const Wanted& wanted) {
  Collector collector(wanted.rows_path);
  for (const std::string& path : wanted.plugins) {
    core::Plugin plugin(path, worker(300));
    wanted.each_once ? try_each_once(plugin, wanted, collector)
                     : try_sizes(plugin, wanted, collector);
  }
  for (const std::string& other : wanted.others) try_other(other, collector);
}

int run(int argc, char** argv) {
  CLI::App app{"mutants, and the checks that see them"};
  app.require_subcommand(1);
  Wanted wanted;
  CLI::App* collecting = app.add_subcommand("collect", "tries mutants, adds rows");
  collecting->add_option("rows", wanted.rows_path)->required();
  collecting->add_option("--plugin", wanted.plugins, "of mutants; may be given more than once")
      ->required();
  collecting->add_option("--other", wanted.others, "plugins that misbehave otherwise");
  collecting->add_option("--sizes", wanted.sizes)->delimiter(',');
  collecting->add_option("--dtypes", wanted.dtypes)->delimiter(',');
  collecting->add_flag("--each-once", wanted.each_once, "each mutant on its smallest case alone");
  collecting->add_option("--families", wanted.families, "families of problems")->delimiter(',');
  collecting->add_option("--all-checks-up-to", wanted.all_checks_up_to, "tokens");
  CLI::App* printing = app.add_subcommand("print", "prints the table");
  printing->add_option("rows", wanted.rows_path)->required();
  CLI11_PARSE(app, argc, argv);
  if (*collecting) collect(wanted);
  const MatrixRows read = read_rows(wanted.rows_path);
  if (!*printing) return 0;
  fmt::print("{}", print_matrix(read));
  const std::vector<std::string> missed = escapes(read.rows);
  for (const std::string& one : missed) fmt::print(stderr, "got away: {}\n", one);
  return missed.empty() ? 0 : 1;
}

}  // namespace
}  // namespace attest::testing

int main(int argc, char** argv) {
  try {
    return attest::testing::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 4;
  }
}
