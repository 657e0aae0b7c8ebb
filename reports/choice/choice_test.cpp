// Choices: every way in which an implementation is not to be used, and sizes between those that
// were measured. html/decide_test.js has the same for the page.
#include "reports/choice/choice.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "reports/choice/choice_text.hpp"
#include "reports/choice/measuring.hpp"
#include "reports/choice/why.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using core::Record;
using ::testing::HasSubstr;
using ::testing::Not;

/// Passes in 10 ns (9 to 11, 15 at most) with 0.4 of its gate and 100 bytes, at 1,000 tokens.
Record taken(const std::function<void(Record&)>& change = [](Record&) {}) {
  Record record = attest::testing::passed("a");
  record.spec = "softmax dtype=f16 seq_len_q=1000 head_dim=64";
  record.max_ratio = 0.4;
  record.memory = {.workspace_bytes = 0, .peak_bytes = 100};
  record.time->median_ns = 10;
  record.time->median_low_ns = 9, record.time->median_high_ns = 11;
  record.time->max_ns = 15;
  change(record);
  return record;
}

Record sized(int64_t tokens, double ns, core::ReasonCode code = core::ReasonCode::kPass) {
  return taken([&](Record& r) {
    r.case_name = fmt::format("n{}", tokens);
    r.spec = fmt::format("softmax dtype=f16 seq_len_q={} head_dim=64", tokens);
    r.outcome.code = code;
    core::TimeRecord& time = *r.time;
    time.median_ns = time.median_low_ns = time.median_high_ns = time.max_ns = ns;
  });
}

Choice chosen_from(std::vector<Record> records, std::optional<int64_t> tokens,
                   const ChoiceLimits& limits) {
  static Input input;  // outlives the choice
  input.runs = {attest::testing::file(std::move(records))};
  const std::vector<ProblemRecords> problems = tokens ? families(input) : cases(input);
  return choose(problems.at(0), tokens, limits);
}

/// "b usable, a rejected deadline".
std::string answer_of(std::vector<Record> records, const ChoiceLimits& limits,
                      std::optional<int64_t> tokens = {}) {
  std::string text;
  for (const Candidate& one : chosen_from(std::move(records), tokens, limits).candidates)
    text += fmt::format("{}{} {}{}{}", text.empty() ? "" : ", ", one.impl, name(one.usable),
                        one.limit.empty() ? "" : " ", one.limit);
  return text;
}

TEST(Choice, AVerdictRejects) {
  const auto judged = [](core::ReasonCode code) {
    return taken([&](Record& r) { r.outcome.code = code; });
  };
  EXPECT_EQ(answer_of({judged(core::ReasonCode::kFailTolerance)}, {}), "a rejected fail");
  EXPECT_EQ(answer_of({judged(core::ReasonCode::kErrorRuntime)}, {}), "a rejected error");
  EXPECT_EQ(answer_of({judged(core::ReasonCode::kSkippedTime)}, {}), "a undecided skipped");
}

TEST(Choice, TheLastMeasuredRecordCounts) {
  const auto of = [](const char* library, core::ReasonCode code) {
    return taken([&](Record& r) { r.plugin_hash = library, r.outcome.code = code; });
  };
  using core::ReasonCode;
  const Record pass = of("01", ReasonCode::kPass), fail = of("01", ReasonCode::kFailTolerance),
               error = of("01", ReasonCode::kErrorRuntime),
               skip = of("01", ReasonCode::kSkippedTime), newer = of("02", ReasonCode::kPass),
               newer_fail = of("02", ReasonCode::kFailTolerance);
  EXPECT_EQ(answer_of({pass, fail}, {}), "a rejected fail");
  EXPECT_EQ(answer_of({fail, pass}, {}), "a rejected fail") << "one library that fails at times";
  EXPECT_EQ(answer_of({fail, newer}, {}), "a usable") << "another build";
  EXPECT_EQ(answer_of({fail, newer, pass}, {}), "a rejected fail");
  EXPECT_EQ(answer_of({newer_fail, fail, newer}, {}), "a rejected fail");
  EXPECT_EQ(answer_of({error, pass}, {}), "a usable") << "its outputs were not wrong";
  EXPECT_EQ(answer_of({pass, skip}, {}), "a usable") << "a skip says less";
  EXPECT_EQ(answer_of({skip, pass}, {}), "a usable");
  EXPECT_EQ(answer_of({fail, skip}, {}), "a rejected fail");
  EXPECT_EQ(answer_of({skip, skip}, {}), "a undecided skipped");
  EXPECT_EQ(answer_of({of("", ReasonCode::kFailTolerance), of("", ReasonCode::kPass)}, {}),
            "a usable")
      << "the libraries are not known";
}

TEST(Choice, TheRunThatWasStartedLastCounts) {
  const auto best_of = [](const char* first, const char* second) {
    Input input;
    Record older = taken(), newer = taken();
    older.plugin_hash = "01", newer.plugin_hash = "02";
    newer.outcome.code = core::ReasonCode::kFailTolerance;
    input.runs = {attest::testing::file({newer}, first), attest::testing::file({older}, second)};
    return choose(cases(input).at(0), {}, {}).usable_count();
  };
  EXPECT_EQ(best_of("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), 0u) << "the file given first";
  EXPECT_EQ(best_of("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"), 1u);
  EXPECT_EQ(best_of("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"), 1u) << "as they were given";
}

TEST(Choice, AnErrorAboveTheLimitRejects) {
  EXPECT_EQ(answer_of({taken()}, {.max_error_ratio = 0.4}), "a usable");
  EXPECT_EQ(answer_of({taken()}, {.max_error_ratio = 0.39}), "a rejected accuracy");
  EXPECT_EQ(answer_of({taken([](Record& r) { r.max_ratio = NAN; })}, {.max_error_ratio = 1}),
            "a rejected accuracy");
}

TEST(Choice, AnErrorHasToBeMeasured) {
  const Record uncompared = taken([](Record& r) {
    r.max_ratio = 0;
    for (core::FillRecord& fill : r.fills) fill.judgement.exact_elements = 0;
  });
  const ChoiceLimits limits{.max_error_ratio = 0.5};
  EXPECT_EQ(answer_of({uncompared}, limits), "a undecided accuracy");
  EXPECT_EQ(answer_of({uncompared}, {}), "a usable");
  EXPECT_EQ(answer_of({taken([](Record& r) { r.fills.clear(); })}, limits), "a undecided accuracy");
  const Choice choice = chosen_from({uncompared}, {}, limits);
  EXPECT_EQ(why(choice.candidates[0], {}, limits),
            "its error was not measured: no outputs were compared with a golden");
}

TEST(Choice, MemoryHasToBeMeasured) {
  EXPECT_EQ(answer_of({taken()}, {.memory_bytes = 100}), "a usable");
  EXPECT_EQ(answer_of({taken()}, {.memory_bytes = 99}), "a rejected memory");
  const auto with = [](core::MemoryRecord memory) {
    return taken([&](Record& r) { r.memory = std::move(memory); });
  };
  EXPECT_EQ(answer_of({with({.workspace_bytes = 1})}, {.memory_bytes = 99}), "a undecided memory");
  EXPECT_EQ(answer_of({with({.workspace_bytes = 100})}, {.memory_bytes = 99}), "a rejected memory");
  EXPECT_EQ(answer_of({with({.peak_bytes = 1, .unseen = "streams"})}, {.memory_bytes = 99}),
            "a undecided memory");
  EXPECT_EQ(answer_of({with({.workspace_bytes = 60, .peak_bytes = 1, .pool_peak_bytes = 40})},
                      {.memory_bytes = 99}),
            "a rejected memory");
}

TEST(Choice, TheSlowestHasToMeetTheDeadline) {
  EXPECT_EQ(answer_of({taken()}, {.deadline_ns = 15}), "a usable");
  EXPECT_EQ(answer_of({taken()}, {.deadline_ns = 14}), "a undecided deadline");
  EXPECT_EQ(answer_of({taken()}, {.deadline_ns = 8}), "a rejected deadline");
  EXPECT_EQ(
      answer_of({taken([](Record& r) { r.time->cold_samples_ns = {3, 20}; })}, {.deadline_ns = 16}),
      "a undecided deadline");
  const Record untimed = taken([](Record& r) { r.time.reset(); });
  EXPECT_EQ(answer_of({untimed}, {.deadline_ns = 8}), "a undecided time");
  EXPECT_EQ(answer_of({untimed}, {.deadline_ns = 8, .memory_bytes = 99}), "a rejected memory");
}

TEST(Choice, ATimeThatIsNotFiniteMeetsNoDeadline) {
  const auto with = [](double core::TimeRecord::* time, double value) {
    return taken([&](Record& r) { (*r.time).*time = value; });
  };
  const ChoiceLimits limits{.deadline_ns = 20};
  using Time = core::TimeRecord;
  for (const auto time : {&Time::max_ns, &Time::cold_median_ns}) {
    EXPECT_EQ(answer_of({with(time, NAN)}, limits), "a undecided deadline");
    EXPECT_EQ(answer_of({with(time, INFINITY)}, limits), "a undecided deadline");
  }
  EXPECT_EQ(answer_of({with(&Time::median_low_ns, NAN)}, limits), "a undecided deadline");
  EXPECT_EQ(answer_of({with(&Time::median_low_ns, INFINITY)}, limits), "a rejected deadline");
  EXPECT_EQ(answer_of({taken([](Record& r) { r.time->cold_samples_ns = {3, NAN, 4}; })}, limits),
            "a undecided deadline");
  Record slow = sized(1000, 1e9);
  slow.case_name = "a", slow.impl = "b";
  for (const double none : {NAN, INFINITY})
    EXPECT_EQ(answer_of({with(&Time::median_ns, none), slow}, {}), "b usable, a usable")
        << "it is not the fastest";
}

TEST(Choice, TheFastestThatMayBeUsedIsBest) {
  const auto other = [](const char* impl, double ns,
                        core::ReasonCode code = core::ReasonCode::kPass) {
    Record record = sized(1000, ns, code);
    record.case_name = "a";
    record.impl = impl;
    return record;
  };
  EXPECT_EQ(answer_of({taken(), other("b", 5), other("c", 1, core::ReasonCode::kFailTolerance)},
                      {.deadline_ns = 14}),
            "b usable, a undecided deadline, c rejected fail");
  const Choice none = chosen_from({taken()}, {}, {.deadline_ns = 14});
  EXPECT_EQ(none.best(), nullptr);
  EXPECT_EQ(none.usable(), Usable::kUnknown);
}

TEST(Choice, SizesOnBothSidesDecide) {
  const std::vector<Record> sizes{sized(1000, 10), sized(4000, 40)};
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 10}, 1000), "a usable");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 40}, 2000), "a usable");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 9}, 2000), "a rejected deadline");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 30}, 2000), "a undecided between");
  EXPECT_EQ(answer_of({sized(1000, 1), sized(4000, 1, core::ReasonCode::kFailTolerance)}, {}, 2000),
            "a undecided between");
  EXPECT_EQ(
      answer_of({sized(1000, 1), sized(2000, 9, core::ReasonCode::kSkippedTime), sized(4000, 1)},
                {.deadline_ns = 1}, 2000),
      "a usable")
      << "a skipped size was not measured";
  EXPECT_EQ(chosen_from(sizes, 1999, {}).candidates[0].points[0]->case_name, "n1000");
  EXPECT_EQ(chosen_from(sizes, 2001, {}).candidates[0].points[0]->case_name, "n4000");
}

// Of 4,096 and 8,192 tokens, no tile of a kernel is cut.
TEST(Choice, ASizeIsNotJudgedByMultiplesThatItIsNot) {
  const std::vector<Record> sizes{sized(4096, 1), sized(8192, 1)};
  EXPECT_EQ(answer_of(sizes, {}, 5001), "a undecided alignment");
  EXPECT_EQ(answer_of(sizes, {}, 8192), "a usable");
  EXPECT_EQ(answer_of({sized(1000, 1), sized(4096, 1), sized(8192, 1)}, {}, 5000), "a usable")
      << "1,000 is a multiple of 8 too";
  EXPECT_EQ(answer_of({sized(1000, 1), sized(4096, 1), sized(8192, 1)}, {}, 5004),
            "a undecided alignment");
  EXPECT_EQ(
      answer_of({sized(1001, 1, core::ReasonCode::kFailTolerance), sized(4096, 1), sized(8192, 1)},
                {}, 5001),
      "a undecided alignment")
      << "it failed there";
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 0.5}, 5001), "a rejected deadline");
  Input input;
  input.runs = {attest::testing::file(sizes)};
  const ProblemRecords family = families(input).at(0);
  const Candidate one = choose(family, 5001, {}).candidates.at(0);
  EXPECT_EQ(why(one, 5001, {}),
            "only multiples of 4096 tokens were judged: pad the tokens to one, or measure 5001");
  EXPECT_THAT(command_of(family, 5001, one), HasSubstr("seq_len_q=5001"));
}

TEST(Choice, SeveralCasesOfTheSizeAllCount) {
  Record other = sized(2000, 9, core::ReasonCode::kFailTolerance);
  other.case_name = "other", other.outcome.reason = "wrong";
  EXPECT_EQ(answer_of({sized(2000, 1), other}, {}, 2000), "a rejected fail");
  const Choice choice = chosen_from({sized(2000, 1), other}, 2000, {});
  EXPECT_EQ(why(choice.candidates[0], 2000, {}), "fail: wrong");
  other.outcome.code = core::ReasonCode::kPass;
  EXPECT_EQ(answer_of({sized(2000, 1), other}, {.deadline_ns = 5}, 2000), "a rejected deadline");
  other.time.reset();
  EXPECT_EQ(answer_of({sized(2000, 1), other}, {.deadline_ns = 5}, 2000), "a undecided time");
}

TEST(Choice, NothingIsExtrapolated) {
  const std::vector<Record> sizes{sized(1000, 10), sized(4000, 40)};
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 100}, 4001), "a undecided range");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 30}, 4001), "a rejected deadline");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 1}, 999), "a undecided range");
  const Choice choice = chosen_from(sizes, 5000, {.deadline_ns = 30});
  EXPECT_THAT(why(choice.candidates[0], choice.tokens, {.deadline_ns = 30}),
              HasSubstr("at 4000 tokens: median 40.0 ns, slowest 40.0 ns: the median is 1.33 times "
                        "the deadline of 30.0 ns"));
}

/// Skipped on a CPU, where a run was estimated to take so long; declares 50 bytes of workspace.
Record skipped(double estimated_ns, int64_t tokens = 1000) {
  Record record = sized(tokens, 1, core::ReasonCode::kSkippedTime);
  record.device = "cpu";
  record.time.reset();
  record.estimated_ns = estimated_ns;
  record.memory = {.workspace_bytes = 50};
  record.repro =
      "attest repro --impl a --inputs 'x y' --threads 2 --timeout 9s --case-limit 8s "
      "'softmax'";
  return record;
}

TEST(Choice, AnEstimateFarBeyondTheDeadlineRejects) {
  EXPECT_EQ(answer_of({skipped(101)}, {.deadline_ns = 10}), "a rejected estimate");
  EXPECT_EQ(answer_of({skipped(100)}, {.deadline_ns = 10}), "a undecided skipped");
  EXPECT_EQ(answer_of({skipped(1e9)}, {}), "a undecided skipped");
  Record on_gpu = skipped(1e9);
  on_gpu.device = "cuda";
  EXPECT_EQ(answer_of({on_gpu}, {.deadline_ns = 10}), "a undecided skipped");
  EXPECT_EQ(answer_of({skipped(1)}, {.memory_bytes = 49}), "a rejected memory") << "as declared";
  EXPECT_EQ(answer_of({skipped(1)}, {.memory_bytes = 50}), "a undecided skipped");
  const std::vector<Record> sizes{sized(1000, 1), skipped(101, 4000)};
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 10}, 4000), "a rejected estimate");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 10}, 5000), "a rejected estimate");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 10}, 2000), "a undecided between");
  const ChoiceLimits limits{.deadline_ns = 10};
  const Choice choice = chosen_from({skipped(420)}, {}, limits);
  EXPECT_EQ(why(choice.candidates[0], {}, limits),
            "estimated, not measured: a run takes 420 ns, 42.0 times the deadline of 10.0 ns; an "
            "estimate may be 10 times too long");
}

TEST(Choice, WhatIsUnsupportedForOneReasonIsSoAtAnySize) {
  const auto refused = [](int64_t tokens, const char* reason) {
    Record record = sized(tokens, 1, core::ReasonCode::kUnsupportedQuery);
    record.outcome.reason = reason;
    return record;
  };
  const Record at_most = refused(8000, "at most 4,000 tokens");
  EXPECT_EQ(answer_of({at_most}, {}, 1000), "a undecided range") << "this may depend on tokens";
  EXPECT_EQ(answer_of({at_most, refused(16000, "at most 4,096 tokens")}, {}, 1000),
            "a undecided range");
  EXPECT_EQ(answer_of({refused(4000, "no f32"), refused(8000, "no f32")}, {}, 1000),
            "a rejected unsupported");
  Record of_table = refused(4000, "does not take f32");
  of_table.outcome.code = core::ReasonCode::kUnsupportedTable;
  EXPECT_EQ(answer_of({of_table}, {}, 1000), "a rejected unsupported") << "a table has no tokens";
  EXPECT_EQ(answer_of({refused(1000, "no f32")}, {}, 4000), "a rejected unsupported");
  EXPECT_EQ(answer_of({refused(1000, "no f32"), refused(4000, "no f32")}, {}, 2000),
            "a rejected unsupported");
  Record other = refused(4000, "no GQA");
  other.case_name = "other";
  EXPECT_EQ(answer_of({refused(4000, "no f32"), other, refused(8000, "no f32")}, {}, 1000),
            "a undecided range");
  EXPECT_EQ(answer_of({sized(4000, 1, core::ReasonCode::kFailTolerance)}, {}, 1000),
            "a undecided range");
  const Choice choice = chosen_from({refused(4000, "no f32"), refused(8000, "no f32")}, 1000, {});
  EXPECT_EQ(why(choice.candidates[0], 1000, {}), "at 4000 tokens: unsupported: a says \"no f32\"")
      << "these are the implementation's own words";
}

/// "c deadline 2.5": the nearest miss; empty if there is none.
std::string nearest_of(std::vector<Record> records, const ChoiceLimits& limits,
                       std::optional<int64_t> tokens = {}) {
  const Choice choice = chosen_from(std::move(records), tokens, limits);
  const Candidate* one = choice.nearest_miss();
  return one ? fmt::format("{} {} {:g}", one->impl, one->miss->limit, one->miss->factor) : "";
}

TEST(Choice, NamesTheNearestMiss) {
  const auto other = [](double median, double low, double slowest) {
    return taken([&](Record& r) {
      r.impl = "c";
      r.time->median_ns = median, r.time->median_low_ns = low, r.time->max_ns = slowest;
    });
  };
  EXPECT_EQ(nearest_of({taken(), other(30, 28, 40)}, {.deadline_ns = 20}), "") << "a may be used";
  EXPECT_EQ(nearest_of({other(30, 28, 40), taken()}, {.deadline_ns = 5}), "a deadline 2");
  EXPECT_EQ(nearest_of({other(30, 28, 40), taken()}, {.deadline_ns = 12}), "a deadline 1.25");
  EXPECT_EQ(nearest_of({other(22, 21, 23), taken([](Record& r) { r.time->max_ns = 80; })},
                       {.deadline_ns = 20}),
            "a deadline 4")
      << "the records cannot tell of a; c is rejected";
  EXPECT_EQ(nearest_of({taken()}, {.deadline_ns = 5, .memory_bytes = 25, .max_error_ratio = 0.2}),
            "a memory 4");
  EXPECT_EQ(nearest_of({taken()}, {.max_error_ratio = 0.2}), "a accuracy 2");
  EXPECT_EQ(nearest_of({skipped(101)}, {.deadline_ns = 5}), "") << "estimated, not measured";
  EXPECT_EQ(nearest_of({sized(1000, 10)}, {.deadline_ns = 1}, 999), "") << "not measured there";
}

TEST(Choice, ListsWhatTheMachineRanElsewhere) {
  const auto named = [](const char* impl, const char* name, int32_t threads = 2) {
    return taken([&](Record& r) {
      r.impl = impl, r.case_name = name, r.threads = threads;
      r.repro =
          fmt::format("attest repro --impl {} --plugin ./p.so --threads {} 'x'", impl, threads);
    });
  };
  Input input;
  input.runs = {attest::testing::file({named("a", "x"), named("c", "y", 1), named("c", "z", 4)}),
                attest::testing::file({named("d", "y")})};
  input.runs[0].header.command = "attest run suites/vit.json";
  input.runs[1].header.environment["cpu"]["model"] = "another";
  const ProblemRecords problem = cases(input).at(0);
  ASSERT_EQ(problem.others.size(), 1u) << "d ran on another machine";
  EXPECT_EQ(measuring_command(problem, {}, *problem.others[0]),
            "attest run suites/vit.json --case x --dtype f16 --impl c --plugin ./p.so --threads 4 "
            "--output more.jsonl");
  const Answer answer{problem, choose(problem, {}, {})};
  EXPECT_THAT(print_choice(answer, {}, false), HasSubstr("not measured here: c\n"));
  EXPECT_EQ(choices_json({answer}, {}, {})["choices"][0]["not_measured"][0]["impl"], "c");
  input.runs[0].header.command = "attest run share/attest/suites/vit.json";
  EXPECT_EQ(subject_of(input.runs[0], input.runs[0].records[0]), "vit --case x --dtype f16");
}

// attest repro writes no records.
TEST(Choice, TheCommandOfASkippedCaseMeasuresIt) {
  Input input;
  input.runs = {attest::testing::file({skipped(40e9)})};
  const ProblemRecords problem = cases(input).at(0);
  EXPECT_EQ(command_of(problem, {}, choose(problem, {}, {}).candidates[0]),
            "attest run vit --case n1000 --dtype f16 --impl a --threads 2 --timeout 80s "
            "--case-limit 320s --output more.jsonl");
  Record hostile = skipped(1);
  hostile.case_name = "a'; b";
  EXPECT_EQ(subject_of(input.runs[0], hostile), "vit --case 'a'\\''; b' --dtype f16");
  hostile.suite.clear();
  EXPECT_EQ(subject_of(input.runs[0], hostile), "'softmax dtype=f16 seq_len_q=1000 head_dim=64'");
  hostile.repro = "attest run --vectors v.npz --case c --impl a --threads 2";
  EXPECT_EQ(subject_of(input.runs[0], hostile), "--vectors v.npz --case c");
  EXPECT_EQ(options_of(hostile), "--impl a --threads 2 --case-limit 1s");
}

TEST(Choice, TheCommandForASizeThatWasNotMeasuredMeasuresIt) {
  Record other = sized(4000, 1);
  other.impl = "b";
  Record record = sized(1000, 1);
  record.repro = "attest repro --impl a --threads 2 'softmax'";
  Input input;
  input.runs = {attest::testing::file({record, other})};
  const ProblemRecords family = families(input).at(0);
  const auto command_at = [&](int64_t tokens) {
    for (const Candidate& one : choose(family, tokens, {}).candidates)
      if (one.impl == "a") return command_of(family, tokens, one);
    return std::string();
  };
  EXPECT_EQ(command_at(1000), record.repro);
  EXPECT_EQ(command_at(4000),
            "attest run vit --case n4000 --dtype f16 --impl a --threads 2 --output more.jsonl");
  EXPECT_EQ(command_at(5000),
            "attest run 'softmax dtype=f16 seq_len_q=5000 head_dim=64' --impl a --threads 2 "
            "--output more.jsonl");
}

TEST(Choice, SaysWhereJudgingWasReduced) {
  const auto text_of = [](const Record& record) {
    Input input;
    input.runs = {attest::testing::file({record})};
    const ProblemRecords problem = cases(input).at(0);
    return print_choice({problem, choose(problem, {}, {})}, {}, false);
  };
  Record record = taken();
  record.fills.resize(2);
  for (core::FillRecord& fill : record.fills)
    fill.fill = "random", fill.judgement.exact_elements = 10,
    fill.judgement.method = "float64, all rows";
  record.relations = {{.relation = "split"}};
  EXPECT_THAT(text_of(record), Not(HasSubstr("in part")));
  Record sampled = record;
  sampled.fills[1].judgement.swept_elements = 40;
  sampled.fills[1].judgement.method = "float64, 2 of 8 rows a head";
  EXPECT_THAT(text_of(sampled), HasSubstr("in part: judged on 2 fills of inputs (random, random), "
                                          "with 1 relation between runs, on 2 of 8 rows a head"));
  sampled.fills.resize(4, sampled.fills[0]);
  EXPECT_THAT(text_of(sampled), HasSubstr("judged on 4 fills of inputs, with"));
  Record one_fill = record;
  one_fill.fills.resize(1);
  EXPECT_THAT(text_of(one_fill), HasSubstr("judged on 1 fill of inputs (random)"));
  record.relations[0].judgement.outcome.code = core::ReasonCode::kSkippedTime;
  EXPECT_THAT(text_of(record), HasSubstr("without relations between runs"));
}

TEST(Choice, SaysWhatWouldTellOfAGpusMemory) {
  const Record record = taken([](Record& r) {
    r.memory = {.workspace_bytes = 60, .pool_peak_bytes = 30, .unseen = "cudaMalloc"};
  });
  const ChoiceLimits limits{.memory_bytes = 99};
  const Choice choice = chosen_from({record}, {}, limits);
  EXPECT_EQ(why(choice.candidates[0], {}, limits),
            "the 90 B that were counted beyond the tensors are within the limit of 99 B, but "
            "cudaMalloc is not counted: nsys profile --cuda-memory-usage=true with the command "
            "shows it");
  EXPECT_EQ(answer_of({record}, {.memory_bytes = 89}), "a rejected memory");
}

TEST(Choice, OtherProblemsAndMachinesAreNotMixed) {
  Record wide = sized(4000, 1);
  wide.spec = "softmax dtype=f16 seq_len_q=4000 head_dim=128";
  EXPECT_EQ(answer_of({sized(1000, 1), wide}, {}, 2000), "a undecided range");
  Input input;
  input.runs = {attest::testing::file({sized(1000, 1)}), attest::testing::file({sized(4000, 1)})};
  EXPECT_EQ(families(input).size(), 1u);
  input.runs[1].header.environment["cpu"]["model"] = "another";
  EXPECT_EQ(families(input).size(), 2u);
  EXPECT_EQ(cases(input).size(), 2u);
}

TEST(Choice, ProblemsOfOneNameAreNotMixed) {
  const auto problem1 = [](int head_dim, const char* inputs, const char* impl) {
    return taken([&](Record& r) {
      r.suite.clear(), r.case_name = "problem1", r.inputs = inputs, r.impl = impl;
      r.spec = fmt::format("softmax dtype=f16 seq_len_q=1000 head_dim={}", head_dim);
    });
  };
  const auto titles_of = [](std::vector<Record> first, std::vector<Record> second) {
    Input input;
    input.runs = {attest::testing::file(std::move(first)),
                  attest::testing::file(std::move(second))};
    std::vector<std::string> titles;
    for (const ProblemRecords& one : cases(input)) {
      titles.push_back(title(one));
      EXPECT_EQ(one.records.size(), 1u);
      EXPECT_EQ(choose(one, {}, {}).candidates.size(), 1u) << title(one);
    }
    return titles;
  };
  EXPECT_THAT(titles_of({problem1(32, "random", "a")}, {problem1(64, "random", "b")}),
              ::testing::ElementsAre("problem1 f16: softmax dtype=f16 seq_len_q=1000 head_dim=32",
                                     "problem1 f16: softmax dtype=f16 seq_len_q=1000 head_dim=64"));
  EXPECT_THAT(titles_of({problem1(32, "random", "a")}, {problem1(32, "image", "b")}),
              ::testing::ElementsAre("problem1 f16: random", "problem1 f16: image"));
  EXPECT_EQ(titles_of({problem1(32, "random", "a")}, {}).at(0), "problem1 f16");
}

TEST(Choice, AProblemForTheLaunchCostIsInNoFamily) {
  Record smallest = sized(1, 1);
  smallest.sweep = core::SweepPoint{};
  EXPECT_EQ(answer_of({sized(4000, 40), smallest}, {}, 1000), "a undecided range");
  smallest.sweep->over = "seq_len_q";
  EXPECT_EQ(answer_of({sized(4000, 40), smallest}, {}, 1000), "a usable");
}

TEST(Choice, TheGridIsThePowersOfTwoBetweenTheSizes) {
  Input input;
  input.runs = {attest::testing::file({sized(1000, 10), sized(4500, 45)})};
  const std::vector<ProblemRecords> found = families(input);
  const ChoiceLimits limits{.deadline_ns = 20};
  EXPECT_EQ(grid(found.at(0)), (std::vector<int64_t>{1024, 2048, 4096}));
  const nlohmann::json document = choices_json({}, found, limits);
  for (const nlohmann::json& size : document["grids"][0]["sizes"])
    EXPECT_EQ(size["answer"], "inconclusive") << "45 ns misses the deadline, 10 ns meets it";
  EXPECT_EQ(choices_json({}, found, {})["grids"][0]["sizes"][0]["best"], "a");
}

}  // namespace
}  // namespace attest::reports
