// Choices: every way in which an implementation is not to be used. html/decide_test.js has the same
// for the page.
#include "reports/choice/choice.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "reports/choice/choice_text.hpp"
#include "reports/choice/why.hpp"
#include "reports/testing/choices.hpp"

namespace attest::reports {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
    return taken([&](Record& r) {
      r.plugin_hash = library;
      r.outcome.code = code;
    });
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
    older.plugin_hash = "01";
    newer.plugin_hash = "02";
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

TEST(Choice, AnErrorLimitIsOfTheLargestErrorAndSaysSo) {
  const Record rounded = taken([](Record& r) { r.rms_ratio = 0.99; });
  EXPECT_EQ(answer_of({rounded}, {.max_error_ratio = 0.4}), "a usable") << "correctly rounded";
  const ChoiceLimits limits{.max_error_ratio = 0.2};
  const Choice choice = chosen_from({rounded}, {}, limits);
  EXPECT_EQ(why(choice.candidates[0], {}, limits),
            "its largest error is 0.40 of its gate, the limit is 0.2");
  EXPECT_EQ(miss_words(choice.candidates[0], {}, limits),
            "its largest error is 2.00 times the limit of 0.2 of its gate");
}

TEST(Choice, RepeatsTheLimits) {
  EXPECT_EQ(limits_words({}), " (no limit was given)");
  EXPECT_EQ(limits_words({.memory_bytes = 0x1p26}), " within 64.0 MiB beyond the tensors");
  EXPECT_EQ(limits_words({.deadline_ns = 5e7, .max_error_ratio = 0}),
            " within 50.0 ms, a largest error of 0 of its gate");
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
  const Record paced = taken([](Record& r) {
    r.paced.emplace();
    r.paced->alone.processing_time_ns = {12, 20, 11};
  });
  EXPECT_EQ(answer_of({paced}, {.deadline_ns = 16}), "a undecided deadline") << "a frame misses it";
  EXPECT_EQ(answer_of({paced}, {.deadline_ns = 20}), "a usable");
  const Record untimed = taken([](Record& r) { r.time.reset(); });
  EXPECT_EQ(answer_of({untimed}, {.deadline_ns = 8}), "a undecided time");
  EXPECT_EQ(answer_of({untimed}, {.deadline_ns = 8, .memory_bytes = 99}), "a rejected memory");
}

TEST(Choice, ATimeThatIsNotAboveZeroMeetsNoDeadline) {
  for (const auto time : {&core::TimeRecord::median_ns, &core::TimeRecord::median_low_ns})
    for (const double wrong : {0.0, -1.0})
      EXPECT_EQ(
          answer_of({taken([&](Record& r) { (*r.time).*time = wrong; })}, {.deadline_ns = 20}),
          "a undecided time")
          << wrong;
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
  slow.case_name = "a";
  slow.impl = "b";
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
      r.time->median_ns = median;
      r.time->median_low_ns = low;
      r.time->max_ns = slowest;
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

TEST(Choice, SaysWhereJudgingWasReduced) {
  const auto text_of = [](const Record& record) {
    Input input;
    input.runs = {attest::testing::file({record})};
    const ProblemRecords problem = cases(input).at(0);
    return print_choice({problem, choose(problem, {}, {})}, {}, false);
  };
  Record record = taken();
  record.fills.resize(2);
  for (core::FillRecord& fill : record.fills) {
    fill.judgement.exact_elements = 10;
    fill.judgement.method = "float64, all rows";
  }
  record.fills[0].fill = "random";
  record.fills[1].fill = "codebook";
  record.relations = {{.relation = "split"}};
  EXPECT_THAT(text_of(record), Not(HasSubstr("in part")));
  Record sampled = record;
  sampled.fills[1].judgement.swept_elements = 40;
  sampled.fills[1].judgement.method = "float64, 2 of 8 rows a head";
  EXPECT_THAT(text_of(sampled),
              HasSubstr("in part: judged on 2 fills of inputs (random, codebook), "
                        "with 1 relation between runs, on 2 of 8 rows a head"));
  sampled.fills.resize(4, sampled.fills[0]);
  EXPECT_THAT(text_of(sampled), HasSubstr("judged on 2 fills of inputs (random, codebook), with"))
      << "two were the same with other seeds";
  sampled.fills[2].fill = "tokens";
  sampled.fills[3].fill = "ties";
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
      r.suite.clear();
      r.case_name = "problem1";
      r.inputs = inputs;
      r.impl = impl;
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

}  // namespace
}  // namespace attest::reports
