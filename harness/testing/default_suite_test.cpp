// What `attest run --plugin my.so` promises: of a slow kernel too, nothing that it declares goes
// unjudged, and no bug in a feature passes. The suite, its case limit and the order of its cases
// are those of the command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/problem/spec.hpp"
#include "core/problem/suite.hpp"
#include "core/run/runner.hpp"
#include "testing/mutants/backward_pairs.hpp"
#include "testing/mutants/expectations.hpp"
#include "testing/mutants/trial.hpp"
#include "testing/shell.hpp"

namespace attest::testing {
namespace {

using core::Case, core::CaseRunner, core::Implementation, core::Plugin, core::Record;
using ::testing::HasSubstr;

constexpr double kCaseLimit_s = 1;  // of the command, where no suite is named
const std::string kPlugins = ATTEST_BINARY_DIR "/tests/plugins/";

struct Outcomes {
  std::map<std::string, std::string> caught;  // by implementation, the case that failed first
  std::map<std::string, int> passed;          // how many cases of each
  std::map<std::string, std::string> pairs;   // all tiny cases that fail each of these
};

// Of steps.so, relations.so, state.so, memories.so and liars.so too.
bool is_right(const std::string& name) {
  return is_healthy(name) || name.starts_with("twin_") || name == "state_one_at_a_time" ||
         name == "state_rounds_declared";
}

// What is right is judged on these alone. Honesty judges twins of liars on larger problems.
const std::set<std::string>& cases_of_the_right() {
  static const std::set<std::string> kCases = {"tiny/dense",    "tiny/linear", "tiny/deformable",
                                               "tiny/backward", "dense/197",   "mask/197",
                                               "bias/197"};
  return kCases;
}

struct Job {
  const Case& one;
  core::DType dtype;
};

// Which cases show most bugs of a plugin. They come first, and only decide how long a test takes.
enum class First { kTiny, kLarger };

std::set<std::string> words_of(std::string name) {
  static const std::set<std::string> kOfMany = {"tiny", "backward", "key", "of"};
  std::ranges::replace(name, '/', '_');
  std::istringstream letters(name);
  std::set<std::string> words;
  for (std::string word; std::getline(letters, word, '_');)
    if (!kOfMany.contains(word)) words.insert(word);
  return words;
}

// Whether a case is likely to show a bug: their names share a word, as state_key_without_top_k and
// tiny/top_k do. Some bugs pass many cases before another one shows them. Likely cases come before
// all others, which only decides how long a test takes, too.
bool may_show(const std::string& case_name, const std::string& bug) {
  static const std::map<std::string, std::string> kOther = {
      {"state_slow_from_run_10", "tiny/f8e4m3"},
      {"step_restarts_after_hidden_t128", "key_padding/1021"},
      {"step_both_kept_25th_rise_t64", "dense/4099"}};
  if (is_right(bug)) return false;
  if (const auto other = kOther.find(bug); other != kOther.end()) return case_name == other->second;
  const std::set<std::string> of_case = words_of(case_name);
  return std::ranges::any_of(words_of(bug),
                             [&](const std::string& word) { return of_case.contains(word); });
}

// Most bugs that a tiny case shows appear in its first dtype.
int rank(const Job& job, First first) {
  if (first == First::kLarger)
    return job.one.name != "dense/1021" && !cases_of_the_right().contains(job.one.name);
  if (!job.one.name.starts_with("tiny/")) return 2;
  return job.dtype != job.one.dtypes.front();
}

std::vector<Job> jobs_of(const core::Suite& suite, First first) {
  std::vector<Job> jobs;
  for (int wanted = 0; wanted <= 2; ++wanted)
    for (const Case& one : suite.cases)
      for (const core::DType dtype : one.dtypes)
        if (const Job job{one, dtype}; rank(job, first) == wanted) jobs.push_back(job);
  return jobs;
}

// Those of softmax that no case of the suite shows, with the smallest problem that shows them.
// kBackwardLargeBugs has those of gradients.
const std::map<std::string, std::string>& not_in_a_minute() {
  static const std::map<std::string, std::string> kMutants = {
      {"mutant_index_32",
       "softmax dtype=f32 batch=2 num_heads=2 seq_len_q=61 head_dim=16 "
       "k.strides=[2147483648,1024,16,1] v.strides=[2147483648,1024,16,1]"},
      {"step_normaliser_to_65504_t64",
       "softmax dtype=f32 seq_len_q=500 seq_len_kv=65551 head_dim=16"},
  };
  return kMutants;
}

bool is_left_out(const std::string& name) {
  return not_in_a_minute().contains(name) || kBackwardLargeBugs.contains(name);
}

// What the command does beside fills can only find more, and takes most of the time.
enum class Asked { kFills, kRelationsToo, kAllAndTimed };

// Which implementations of a plugin are judged. kFewOfFirst: all, the first one on few cases.
// kFirstDtypeOfFirst: all, the first one in the first dtype of each case.
enum class Judged { kAll, kFewOfFirst, kFirstDtypeOfFirst, kFirst, kAllButFirst };

// Cases on which kFewOfFirst judges the first implementation
constexpr int kFewCases = 3;

core::RunOptions options_for(Asked asked, const core::Suite& suite) {
  core::RunOptions options;
  options.limits.threads = 2;
  options.limits.case_limit_s = kCaseLimit_s;
  options.limits.budget_s = suite.budget_s;
  options.timed = asked == Asked::kAllAndTimed;
  options.diagnosed = false;
  if (asked == Asked::kFills) options.relations = core::RelationChoice::kNone;
  return options;
}

// A job for the bugs that its case is likely to show, or for all other implementations.
struct Turn {
  Job job;
  bool likely;
};

// Whether a job has a turn for likely bugs. Larger cases have none where most bugs are tiny.
bool comes_early(const Job& job, First first) {
  return first == First::kLarger || job.one.name.starts_with("tiny/");
}

std::vector<Turn> turns_of(const core::Suite& suite, First first) {
  std::vector<Turn> turns;
  for (const bool likely : {true, false})
    for (const Job& job : jobs_of(suite, first))
      if (!likely || comes_early(job, first)) turns.push_back({job, likely});
  return turns;
}

void append(std::string& names, const std::string& name) {
  names += (names.empty() ? "" : ", ") + name;
}

/// Adds a record to `found`. `where`: the case and its dtype, for messages.
void note(const Record& record, const std::string& name, const std::string& case_name,
          const std::string& where, Outcomes& found) {
  if (!testing::catches(record).empty()) {
    found.caught[name] = where + record.outcome.reason;
    if (const auto of_pair = found.pairs.find(name); of_pair != found.pairs.end())
      append(of_pair->second, case_name);
  } else {
    EXPECT_FALSE(record.outcome.is_bad()) << where << record.outcome.reason;
  }
  found.passed[name] += record.outcome.passes();
  EXPECT_FALSE(case_name.starts_with("tiny/") &&
               record.outcome.verdict() == core::Verdict::kSkipped)
      << where << record.outcome.reason;
}

/// Judges implementations of a plugin on the default suite, each until it has failed; not those
/// that `found` has as caught. What should pass goes through some cases; the plugin's first
/// implementation, which is right, through all that is tiny, but for kFewOfFirst and
/// kFirstDtypeOfFirst. Those of `found.pairs` go through all tiny cases in their first dtype,
/// whether they fail or not.
Outcomes run_default_suite(const std::string& library, Asked asked, First first,
                           Judged judged = Judged::kAll, Outcomes found = {}) {
  Plugin plugin(
      kPlugins + library,
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 2, .timeout_s = 120}});
  const core::Suite suite = core::read_suite(ATTEST_SOURCE_DIR "/suites/default.json");
  const core::RunOptions options = options_for(asked, suite);
  core::Rates rates;
  const auto is_wanted = [&](const Implementation& impl, const Job& job) {
    const std::string& case_name = job.one.name;
    const bool in_first_dtype = job.dtype == job.one.dtypes.front();
    if (found.pairs.contains(impl.name) && asked == Asked::kFills)
      return in_first_dtype && case_name.starts_with("tiny/");
    if (found.caught.count(impl.name)) return false;
    if (impl.name == plugin.implementations().front().name) {
      if (judged == Judged::kAllButFirst || !case_name.starts_with("tiny/")) return false;
      if (judged == Judged::kFirstDtypeOfFirst && !in_first_dtype) return false;
      return judged != Judged::kFewOfFirst || found.passed[impl.name] < kFewCases;
    }
    if (judged == Judged::kFirst) return false;
    const bool passes = is_right(impl.name) || is_left_out(impl.name);
    return !passes || cases_of_the_right().contains(case_name);
  };
  const std::vector<Turn> turns = turns_of(suite, first);
  std::set<std::string> begun;  // jobs, whose first turn is that of what is right
  for (const auto& [job, likely] : turns) {
    const auto& [one, dtype] = job;
    const std::string where = one.name + " " + std::string(core::dtype_name(dtype)) + ": ";
    const auto is_likely = [&, &one = one](const Implementation& impl) {
      return comes_early(job, first) && may_show(one.name, impl.name);
    };
    if (likely && std::ranges::none_of(plugin.implementations(), [&](const Implementation& impl) {
          return is_likely(impl) && is_wanted(impl, job);
        }))
      continue;
    const bool is_first_turn = begun.insert(where).second;
    const core::Problem problem = one.problem(dtype, 0);
    CaseRunner runner(problem, core::print_problem(problem), {"default", one.name, "random", ""},
                      nullptr, options, rates);
    for (const Implementation& impl : plugin.implementations()) {
      const bool is_of_pair = found.pairs.contains(impl.name);
      const bool has_turn =
          is_right(impl.name) || is_of_pair ? is_first_turn : is_likely(impl) == likely;
      if (!has_turn || !is_wanted(impl, job)) continue;
      const Record record = runner.run(plugin, impl);
      note(record, impl.name, one.name, where, found);
      if (!record.outcome.passes()) continue;
      EXPECT_EQ(record.time.has_value(), options.timed) << where;
      EXPECT_EQ(record.fills.size(), runner.fills().size()) << where;
    }
  }
  return found;
}

/// As Asked::kRelationsToo, where most bugs show in fills. A record whose fills fail has no
/// relations, so what fills alone catch need not be judged again. Relations of all that is tiny are
/// asked of the template, and in one dtype of what keeps no state, below.
Outcomes run_fills_then_all(const std::string& library, First first, Outcomes found = {}) {
  Outcomes by_fills =
      run_default_suite(library, Asked::kFills, first, Judged::kAll, std::move(found));
  for (auto& [name, passed] : by_fills.passed) passed = 0;  // all checks count
  return run_default_suite(library, Asked::kRelationsToo, first, Judged::kFewOfFirst,
                           std::move(by_fills));
}

void expect_all_bugs_caught(const std::string& library, const Outcomes& found) {
  for (const auto& [name, passed] : found.passed) {
    const auto caught = found.caught.find(name);
    const bool is_caught = caught != found.caught.end(),
               should = !is_right(name) && !is_left_out(name);
    EXPECT_EQ(is_caught, should) << library << ": " << name
                                 << (is_caught ? " fails " + caught->second
                                               : " passes the default suite");
    EXPECT_TRUE(!is_right(name) || passed > 0) << library << ": " << name << " passes no case";
  }
}

// All of these bugs show in fills. The next test judges the template as it is.
TEST(DefaultSuite, FailsTheTemplateBrokenInEachFeature) {
  const Outcomes found =
      run_default_suite("template_bugs.so", Asked::kFills, First::kTiny, Judged::kAllButFirst);
  EXPECT_EQ(found.passed.size(), 44u);
  expect_all_bugs_caught("template_bugs.so", found);
}

// The command takes times, and may judge less for it. It does not where cases are tiny: the slow
// template is judged on every fill of each.
TEST(DefaultSuite, FailsNoSlowKernelThatIsRightAndJudgesIfTimed) {
  const Outcomes found =
      run_default_suite("template_bugs.so", Asked::kAllAndTimed, First::kTiny, Judged::kFirst);
  EXPECT_THAT(found.caught, ::testing::IsEmpty());
  EXPECT_GT(found.passed.at("template_none"), 90);
}

TEST(DefaultSuite, FailsThePlantedMutants) {
  expect_all_bugs_caught("mutants.so", run_fills_then_all("mutants.so", First::kLarger));
}

TEST(DefaultSuite, FailsThePlantedSteps) {
  const Outcomes found = run_default_suite("steps.so", Asked::kFills, First::kLarger);
  EXPECT_GE(found.passed.size(), 80u);
  expect_all_bugs_caught("steps.so", found);
}

TEST(DefaultSuite, FailsWhatKeepsStateOrBreaksRelations) {
  for (const auto& [library, judged] : {std::pair("state.so", Judged::kFirstDtypeOfFirst),
                                        std::pair("memories.so", Judged::kFewOfFirst),
                                        std::pair("relations.so", Judged::kFewOfFirst)})
    expect_all_bugs_caught(library,
                           run_default_suite(library, Asked::kRelationsToo, First::kTiny, judged));
}

TEST(DefaultSuite, FailsWhatDeclaresMoreThanItComputes) {
  const Outcomes found = run_default_suite("liars.so", Asked::kFills, First::kLarger);
  EXPECT_GE(found.passed.size(), 60u);
  expect_all_bugs_caught("liars.so", found);
}

// Bugs in features that came later: block masks, top-k, 8 bits, and how many keys a sequence has.
TEST(DefaultSuite, FailsBugsOfBlockMasksTopKAndLengths) {
  for (const char* library :
       {"block_bugs.so", "top_k_bugs.so", "f8_bugs.so", "f8_operand_bugs.so", "length_bugs.so"})
    expect_all_bugs_caught(library, run_fills_then_all(library, First::kTiny));
}

// Beside each pair of features that gradients have there is a bug that one tiny case alone shows,
// as in HasABugOfItsOwnForEachPairOfFeatures. They are judged in this test, which computes the
// goldens of these cases anyway.
TEST(DefaultSuite, FailsBugsOfGradientsAndHasACaseForEachPairOfFeatures) {
  const std::map<std::string, std::string> kOwnCases = {
      {"backward_slope_tiled", "tiny/backward_gqa_alibi"},
      {"backward_dbias_of_last_group", "tiny/backward_gqa_dbias_mask"},
      {"backward_dbias_of_hidden", "tiny/backward_gqa_dbias_mask"},
      {"backward_drel_bias_of_key_head", "tiny/backward_gqa_drel_bias"},
      {"backward_dbias_sloped", "tiny/backward_gqa_softcap_dsinks"},
      {"backward_dsinks_sloped", "tiny/backward_gqa_softcap_dsinks"},
      {"backward_dsinks_of_key_head", "tiny/backward_gqa_softcap_dsinks"},
      {"backward_last_key_of_its_tile", "tiny/backward_tails"},
      {"backward_last_query_of_its_tile", "tiny/backward_tails"}};
  // No other test judges these.
  for (const std::string& bug : kBackwardPairBugs)
    EXPECT_TRUE(kOwnCases.contains(bug)) << bug << " has no case of its own";
  Outcomes pairs;
  for (const auto& [bug, own] : kOwnCases) pairs.pairs[bug];
  const Outcomes found = run_fills_then_all("backward_bugs.so", First::kTiny, std::move(pairs));
  EXPECT_GE(found.passed.size(), 80u);
  expect_all_bugs_caught("backward_bugs.so", found);
  EXPECT_EQ(found.pairs, kOwnCases);
}

/// The tiny cases of an operation that fail each implementation of a plugin. Cases are judged in
/// their first dtype.
std::map<std::string, std::string> failing_tiny_cases(const std::string& library,
                                                      const std::string& operation) {
  Plugin plugin(
      kPlugins + library,
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 2, .timeout_s = 120}});
  const core::Suite suite = core::read_suite(ATTEST_SOURCE_DIR "/suites/default.json");
  const core::RunOptions options = options_for(Asked::kFills, suite);
  core::Rates rates;
  std::map<std::string, std::string> failed;
  for (const Case& one : suite.cases) {
    if (!one.name.starts_with("tiny/") || one.operation != operation) continue;
    const core::Problem problem = one.problem(one.dtypes.front(), 0);
    CaseRunner runner(problem, core::print_problem(problem), {"default", one.name, "random", ""},
                      nullptr, options, rates);
    for (const Implementation& impl : plugin.implementations()) {
      const bool caught = !testing::catches(runner.run(plugin, impl)).empty();
      std::string& names = failed[impl.name];
      if (caught) append(names, one.name);
    }
  }
  return failed;
}

// Kernels that are right in each feature may be wrong where two of them meet. Each case that pairs
// features fails a kernel that every other tiny case passes.
TEST(DefaultSuite, HasABugOfItsOwnForEachPairOfFeatures) {
  const std::map<std::string, std::string> kOwnCases = {
      {"pair_none", ""},
      {"pair_alibi_of_key_head", "tiny/gqa_alibi"},
      {"pair_sink_of_key_head", "tiny/gqa_sinks_mask"},
      {"pair_mask_of_key_head", "tiny/gqa_sinks_mask"},
      {"pair_bias_of_key_head", "tiny/bias_strides"},
      {"pair_window_left_of_groups", "tiny/window_from_diagonal"},
      {"pair_mask_at_the_band", "tiny/window_mask"},
      {"pair_window_left_zero", "tiny/window_from_diagonal"},
      {"pair_bias_dense", "tiny/bias_strides"},
      {"pair_bias_aligned", "tiny/bias_unaligned"},
      {"pair_lse_dense", "tiny/lse_strides"},
      {"pair_order_of_packed", "tiny/varlen_order"},
      {"pair_order_of_first", "tiny/order_of_sequences"},
      {"pair_pages_in_powers", "tiny/gqa_pages"},
      {"pair_diagonal_of_longest", "tiny/seq_lens_bottom_right"},
      {"pair_head_dim_128", "tiny/head_dim_192"},
      {"pair_head_dim_in_fours", "tiny/head_dim_70"},
      {"pair_block_mask_of_key_head", "tiny/gqa_block_mask"},
      {"pair_rel_bias_of_key_head", "tiny/gqa_rel_bias"},
      {"pair_pages_forget_window", "tiny/pages_window"},
      {"pair_globals_forget_mask", "tiny/global_tokens_mask"},
      {"pair_globals_forget_block_mask", "tiny/global_tokens_block_mask"},
      {"pair_cap_after_alibi", "tiny/softcap_alibi_sinks"},
      {"pair_sink_capped", "tiny/softcap_alibi_sinks"},
      {"pair_mask_by_order", "tiny/order_mask"},
      {"pair_patches_forget_mask", "tiny/patches_mask"},
      {"pair_window_beyond_keys", "tiny/window_long"},
      {"pair_alibi_in_bytes", "tiny/softcap_alibi_sinks"}};
  EXPECT_EQ(failing_tiny_cases("pair_bugs.so", "softmax"), kOwnCases);
}

// That each shows it is seen by Steps.AreSeenWhereTheyFirstShow and scripts/mutants.sh.
TEST(DefaultSuite, ListsTheSmallestProblemOfWhatItLeavesOut) {
  for (const auto& [name, spec] : not_in_a_minute()) {
    const auto row = std::ranges::find_if(expectations(), [&name = name](const Expected& one) {
      return one.mutant == name && one.check;
    });
    ASSERT_NE(row, expectations().end()) << name;
    EXPECT_EQ(smallest_case(*row).spec, spec) << name;
  }
}

// The command itself: a healthy kernel leaves nothing unjudged, and says what a filter of cases
// left out.
TEST(DefaultSuite, LeavesNothingThatIsDeclaredUnjudged) {
  const std::string healthy = "run --judge-only --relations none --plugin " + kPlugins +
                              "template_bugs.so --impl template_none";
  const Outcome all = run_attest("/tmp", healthy + " --strict --case 'tiny/*'");
  EXPECT_EQ(all.code, 0) << all.text;
  EXPECT_THAT(all.text, ::testing::Not(HasSubstr("never judged")));
  const Outcome some = run_attest("/tmp", healthy + " --case 'tiny/dense,tiny/varlen' --dtype f32");
  EXPECT_EQ(some.code, 0) << some.text;
  EXPECT_THAT(
      some.text,
      HasSubstr(
          "template_none: declared, never judged: GQA, HEAD_DIM_V, CAUSAL, WINDOW, DIAGONAL, "
          "SOFTCAP, "
          "BIAS, MASK, SEQ_LENS, PAGES, ORDER, PATCHES, GRID, REL_BIAS, STRIDES, MIXED_DTYPE, "
          "UNALIGNED, ALIBI, SINKS, BLOCK_MASK, GLOBAL, TOP_K, DESCALE, f16, bf16, f64, f8e4m3, "
          "f8e5m2"));
  EXPECT_EQ(run_attest("/tmp", healthy + " --case tiny/dense --strict").code, 3);
}

}  // namespace
}  // namespace attest::testing
