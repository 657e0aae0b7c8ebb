// Comparisons of records in which one thing was made worse, better, or not comparable.
#include "reports/compare/comparison.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"
#include "reports/compare/builds.hpp"
#include "reports/compare/comparison_text.hpp"
#include "reports/compare/launches.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using attest::testing::file;
using attest::testing::passed;
using attest::testing::time_of;
using core::Change;
using core::ReasonCode;
using core::Record;
using core::Results;
using core::Verdict;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const CompareOptions kWithFloor{.rule = {.floor = 0.03}};

Compared one(const Record& was, const Record& is, const CompareOptions& options = kWithFloor) {
  const Comparison found = compare({file({was})}, {file({is})}, options);
  EXPECT_EQ(found.cases.size(), 1u);
  return found.cases.at(0);
}
Record with(const std::function<void(Record&)>& change) {
  Record r = passed();
  change(r);
  return r;
}

TEST(Comparison, NothingChanged) {
  const Comparison found = compare({file({passed()})}, {file({passed()})}, kWithFloor);
  EXPECT_EQ(found.cases.at(0).time.change, Change::kSame);
  EXPECT_EQ(found.cases.at(0).memory.change, Change::kSame);
  EXPECT_EQ(found.cases.at(0).error.change, Change::kSame);
  EXPECT_FALSE(regressed(found) || worse(found) || inconclusive(found));
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("both sides ran the same binaries")));
}

TEST(Comparison, EachQuantityIsSeenAlone) {
  const Compared slower = one(passed(), passed("flash_cuda", 1.05e6));
  EXPECT_EQ(slower.time.change, Change::kWorse);
  EXPECT_NEAR(slower.time.ratio, 1.05, 0.002);
  EXPECT_EQ(slower.memory.change, Change::kSame);
  EXPECT_EQ(one(passed(), passed("flash_cuda", 0.95e6)).time.change, Change::kBetter);

  const Compared bigger =
      one(passed(), with([](Record& r) { r.memory.pool_peak_bytes = 1 << 15; }));
  EXPECT_EQ(bigger.memory.change, Change::kWorse);
  EXPECT_EQ(bigger.time.change, Change::kSame);

  const Compared coarser =
      one(passed(), with([](Record& r) { r.fills[0].judgement.rms_ratio = 0.31; }));
  EXPECT_EQ(coarser.error.change, Change::kWorse);
  EXPECT_EQ(
      one(passed(), with([](Record& r) { r.fills[0].judgement.max_ratio = 0.41; })).error.change,
      Change::kWorse);
  EXPECT_EQ(
      one(passed(), with([](Record& r) { r.fills[0].judgement.max_ratio = 0.2; })).error.change,
      Change::kBetter);
}

TEST(Comparison, VerdictsThatChanged) {
  const auto change = [](ReasonCode was, ReasonCode is) {
    const auto of = [](ReasonCode code) { return with([&](Record& r) { r.outcome.code = code; }); };
    return one(of(was), of(is)).verdict;
  };
  EXPECT_EQ(change(ReasonCode::kPass, ReasonCode::kFailTolerance), VerdictChange::kRegressed);
  EXPECT_EQ(change(ReasonCode::kPass, ReasonCode::kTimeoutRun), VerdictChange::kRegressed);
  EXPECT_EQ(change(ReasonCode::kPass, ReasonCode::kUnsupportedQuery), VerdictChange::kRegressed);
  EXPECT_EQ(change(ReasonCode::kUnsupportedQuery, ReasonCode::kFailTolerance),
            VerdictChange::kRegressed);
  EXPECT_EQ(change(ReasonCode::kPass, ReasonCode::kSkippedTime), VerdictChange::kSkipped);
  EXPECT_EQ(change(ReasonCode::kFailTolerance, ReasonCode::kPass), VerdictChange::kFixed);
  EXPECT_EQ(change(ReasonCode::kFailTolerance, ReasonCode::kCrashSignal), VerdictChange::kSame);
  EXPECT_EQ(change(ReasonCode::kUnsupportedQuery, ReasonCode::kPass), VerdictChange::kSame);
  EXPECT_EQ(
      one(passed(), with([](Record& r) { r.outcome.code = ReasonCode::kFailTolerance; })).time.code,
      "not-passed");
  // One bad launch of several is enough.
  const Record bad = with([](Record& r) { r.outcome.code = ReasonCode::kFailTolerance; });
  EXPECT_TRUE(regressed(
      compare({file({passed()})}, {file({passed()}), file({bad}), file({passed()})}, kWithFloor)));
}

TEST(Comparison, WhatIsNotComparableSaysWhy) {
  const auto time = [](const Record& was, const Record& is) { return one(was, is).time.code; };
  EXPECT_EQ(time(passed(), with([](Record& r) { r.spec = "softmax seq_len_q=65"; })),
            "other-problem");
  EXPECT_EQ(time(passed(), with([](Record& r) { r.device = "cpu"; })), "other-machine");
  EXPECT_EQ(time(passed(), with([](Record& r) { r.time.reset(); })), "timed-once");
  EXPECT_EQ(time(with([](Record& r) { r.time.reset(); }), with([](Record& r) { r.time.reset(); })),
            "not-timed");
  const auto on_cpu = [](int threads) {
    return with([&](Record& r) {
      r.device = "cpu";
      r.threads = threads;
    });
  };
  EXPECT_EQ(time(on_cpu(2), on_cpu(4)), "other-threads");
  EXPECT_EQ(time(on_cpu(2), on_cpu(2)), "floor");
  EXPECT_EQ(one(passed(), with([](Record& r) { r.fills[0].inputs_hash = "1111111111111111"; }))
                .error.code,
            "other-inputs");
  EXPECT_EQ(
      one(passed(), with([](Record& r) { r.fills[0].judgement.exact_elements = 20; })).error.code,
      "other-inputs")
      << "more rows";
  EXPECT_EQ(one(passed(), with([](Record& r) { r.arithmetic = "qk=f32"; })).error.code,
            "other-arithmetic");
  EXPECT_EQ(one(passed(), with([](Record& r) { r.memory.peak_bytes = 3; })).memory.code,
            "not-measured");
}

TEST(Comparison, OtherMachinesAndBuildsOnlyWhenAsked) {
  for (const auto& [group, name, code] :
       {std::tuple("cuda", "name", "other-machine"), {"build", "build_type", "other-build"}}) {
    Results other = file({passed("flash_cuda", 2e6)});
    other.header.environment[group][name] = "another";
    Comparison found = compare({file({passed()})}, {other}, kWithFloor);
    EXPECT_EQ(found.cases.at(0).time.code, code);
    EXPECT_EQ(found.cases.at(0).memory.change, Change::kSame);
    EXPECT_FALSE(worse(found));
    EXPECT_TRUE(inconclusive(found));
    EXPECT_THAT(found.notes, ::testing::Contains(HasSubstr("another after")));
    EXPECT_THAT(print_comparison(found, {}), HasSubstr(std::string(code) + ": times of different"));
    CompareOptions asked = kWithFloor;
    asked.across_machines = true;
    EXPECT_TRUE(worse(compare({file({passed()})}, {other}, asked)));
  }
  // The host is nothing to a device's times.
  Results other = file({passed()});
  other.header.environment["cpu"]["model"] = "Xeon";
  EXPECT_EQ(compare({file({passed()})}, {other}, kWithFloor).cases.at(0).time.change,
            Change::kSame);
}

// One build, compared with itself: what the time does is the machine's, whatever it does.
TEST(Comparison, OfTheSameEverythingOnlyTheMachineDiffers) {
  const auto ran = [](
                       double ns, const std::function<void(Results&)>& change = [](Results&) {}) {
    Results results = file({passed("flash_cuda", ns)});
    results.records[0].libraries_hash = "2222222222222222";
    results.header.environment["identity"]["attest"] = "33 44";
    results.header.environment["run"]["variables_hash"] = "55";
    change(results);
    return results;
  };
  const Comparison same = compare({ran(1e6)}, {ran(1.3e6)}, kWithFloor);
  EXPECT_EQ(same.cases.at(0).time.change, Change::kWorse) << "it is shown";
  EXPECT_FALSE(worse(same)) << "and is no regression";
  EXPECT_THAT(print_comparison(same, {}), HasSubstr("] (machine)"));
  const auto counted = [](const char* text) { return ::testing::Contains(HasSubstr(text)); };
  EXPECT_THAT(same.notes,
              counted("A/A: 1 times of identical builds: 1 slower, 0 faster, 0 inconclusive"));
  EXPECT_THAT(compare({ran(1e6)}, {ran(1e6)}, kWithFloor).notes, counted(": 0 slower, 0 faster"));
  EXPECT_THAT(compare({file({passed()})}, {file({passed()})}, kWithFloor).notes,
              ::testing::Not(counted("A/A")));
  EXPECT_THAT(print_comparison(same, {}),
              HasSubstr("machine: implementation, attest, libraries and environment are the same"));
  EXPECT_EQ(to_json(same)["cases"][0]["same_everything"], true);
  const std::function<void(Results&)> changes[] = {
      [](Results& r) { r.records[0].plugin_hash = "1111111111111111"; },
      [](Results& r) { r.records[0].libraries_hash = "1111111111111111"; },
      [](Results& r) { r.records[0].libraries_hash.reset(); },
      [](Results& r) { r.header.environment["identity"]["attest"] = "33 45"; },
      [](Results& r) { r.header.environment.erase("identity"); },
      [](Results& r) { r.header.environment["run"]["variables_hash"] = "56"; },
  };
  for (const auto& change : changes)
    EXPECT_TRUE(worse(compare({ran(1e6)}, {ran(1.3e6, change)}, kWithFloor)));
  EXPECT_THAT(same.notes, counted("what differs is this machine's doing"));
  const Comparison other_environment = compare({ran(1e6)}, {ran(1.3e6, changes[5])}, kWithFloor),
                   other_libraries = compare({ran(1e6)}, {ran(1.3e6, changes[1])}, kWithFloor);
  EXPECT_THAT(other_environment.notes, counted("not known to be the same: environment variables"));
  EXPECT_THAT(other_environment.notes, ::testing::Not(counted("this machine's doing")));
  EXPECT_THAT(other_libraries.notes, counted("not known to be the same: the libraries"));
  // What is no time is never the machine's.
  EXPECT_TRUE(worse(compare(
      {ran(1e6)}, {ran(1e6, [](Results& r) { r.records[0].memory.pool_peak_bytes = 1 << 22; })},
      kWithFloor)));
}

// Among 30 cases that vary, one whose eight pairs all grew is to be expected.
TEST(Comparison, MemoryOfManyCasesIsCorrected) {
  const auto launches = [](int cases, double grown) {
    std::vector<Results> all;
    for (int launch = 0; launch < 8; ++launch) {
      std::vector<Record> records;
      for (int i = 0; i < cases; ++i) {
        records.push_back(passed());
        records.back().case_name = fmt::format("c{}", i);
        records.back().memory.peak_bytes = uint64_t((4e6 + 3e5 * launch) * (i == 0 ? grown : 1));
      }
      all.push_back(file(std::move(records)));
    }
    return all;
  };
  const auto memory = [&](int cases) {
    return compare(launches(cases, 1), launches(cases, 1.1), {.in_turns = true}).cases.at(0).memory;
  };
  EXPECT_EQ(memory(1).change, Change::kWorse);
  EXPECT_EQ(memory(1).code, "paired");
  EXPECT_EQ(memory(30).change, Change::kSame);
  EXPECT_EQ(memory(30).code, "exact") << "the meaning of another code would be printed";
}

TEST(Builds, OneSideIsOneBuild) {
  const auto ran = [](const std::string& path, const std::string& hash) {
    Results results = file({passed("mine"), passed("peer")});
    results.path = path;
    results.records[0].plugin_hash = hash;
    return results;
  };
  const std::string was = "1111111111111111", is = "2222222222222222", third = "3333333333333333";
  const auto said = [](const std::vector<Results>& before,
                       const std::vector<Results>& after) -> std::string {
    try {
      require_one_build(before, after);
    } catch (const core::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(said({ran("a1", was), ran("a2", was)}, {ran("b1", is), ran("b2", is)}), "");
  EXPECT_EQ(said({ran("a1", was), ran("a2", was), ran("b1", is)}, {ran("b2", is)}),
            "the side before has 2 builds of mine, and one side is one build: 1111111111111111 in "
            "a1 a2; 2222222222222222 in b1 "
            "b2; compare them by: attest compare a1 a2 --after b1 b2");
  EXPECT_THAT(said({ran("a1", was)}, {ran("b1", is), ran("b2", third)}),
              HasSubstr("the side after has 3 builds of mine"));
  Results both = ran("c", was);
  both.records.push_back(both.records[0]);
  both.records.back().plugin_hash = is;
  EXPECT_THAT(said({ran("a1", was)}, {both}),
              HasSubstr("1111111111111111 and 2222222222222222 in c"));
}

// A clock that went back, or a file that was edited: no verdict, and nothing that is passed over.
TEST(Comparison, TimesThatAreNoTimesAreNotCompared) {
  for (const double ns : {0.0, -1e6, double(NAN), double(INFINITY)}) {
    const auto bad_sample = [ns](Record& r) { r.time->samples_ns[3] = ns; };
    const auto all_bad = [ns](Record& r) { r.time->samples_ns.assign(20, ns); };
    EXPECT_EQ(one(passed(), with(bad_sample)).time.code, "bad-times") << ns;
    EXPECT_EQ(one(with(bad_sample), passed()).time.code, "bad-times") << ns;
    const Comparison found = compare({file({with(all_bad)})}, {file({with(all_bad)})}, kWithFloor);
    EXPECT_EQ(found.cases.at(0).time.code, "bad-times") << ns;
    EXPECT_EQ(found.cases.at(0).memory.change, Change::kSame);
    EXPECT_FALSE(worse(found));
    EXPECT_TRUE(inconclusive(found));
    EXPECT_THAT(print_comparison(found, {.changed_only = true}), HasSubstr("INVALID (bad-times)"));
  }
}

TEST(Comparison, OneSampleDecidesNothing) {
  const auto sample = [](double ns) {
    return with([ns](Record& r) { r.time->samples_ns.assign(1, ns); });
  };
  for (const double factor : {0.5, 1.0, 2.0}) {
    EXPECT_EQ(one(passed(), sample(1e6 * factor)).time.code, "one-sample") << factor;
    EXPECT_EQ(one(sample(1e6 * factor), passed()).time.code, "one-sample") << factor;
  }
  EXPECT_TRUE(inconclusive(compare({file({passed()})}, {file({sample(1e6)})}, kWithFloor)));
}

// The floor says by how much launches differ: what is smaller is neither a change nor equality.
TEST(Comparison, AFloorMakesNothingEqual) {
  const Record slower = passed("flash_cuda", 1.02e6);
  EXPECT_EQ(one(passed(), slower).time.code, "within-floor");
  const Comparison found = compare({file({passed()})}, {file({slower})}, kWithFloor);
  EXPECT_FALSE(worse(found));
  EXPECT_TRUE(inconclusive(found));
  EXPECT_THAT(print_comparison(found, {.changed_only = true}), HasSubstr("1 of 1 did not change"));
  EXPECT_EQ(one(passed(), passed("flash_cuda", 1.001e6)).time.change, Change::kSame);
}

TEST(Comparison, SaysIfNoTimeIsComparable) {
  Results elsewhere = file({passed(), passed("window_cuda")});
  elsewhere.header.environment["cuda"]["name"] = "another";
  const Results here = file({passed(), passed("window_cuda")});
  EXPECT_TRUE(all_apart(compare({elsewhere}, {here}, kWithFloor)));
  EXPECT_FALSE(all_apart(compare({here}, {here}, kWithFloor)));
  EXPECT_FALSE(all_apart(compare({elsewhere}, {here}, {.rule = {}, .across_machines = true})));
  CompareOptions relative = kWithFloor;
  relative.relative_to = "window_cuda";
  EXPECT_TRUE(all_apart(compare({elsewhere}, {here}, relative))) << "the peer is not compared";
  Results untimed = here;
  for (Record& record : untimed.records) record.time.reset();
  EXPECT_FALSE(all_apart(compare({untimed}, {untimed}, kWithFloor)));
}

TEST(Comparison, OneSideAlone) {
  const Record other = passed("window_cuda");
  const Comparison found =
      compare({file({passed(), other})}, {file({passed(), passed("linear_cuda")})}, kWithFloor);
  EXPECT_THAT(found.only_before, ElementsAre("vit/a f16 window_cuda"));
  EXPECT_THAT(found.only_after, ElementsAre("vit/a f16 linear_cuda"));
  EXPECT_EQ(found.cases.size(), 1u);
  EXPECT_TRUE(inconclusive(found));
}

TEST(Comparison, TornFilesAndDuplicates) {
  Results torn = file({passed(), passed("flash_cuda", 1.01e6)});
  torn.complete = false;
  const Comparison found = compare({torn}, {file({passed()})}, kWithFloor);
  EXPECT_EQ(found.cases.at(0).time.launches_before, 1u);
  EXPECT_THAT(found.notes,
              ElementsAre(HasSubstr("was cut short"), HasSubstr("1 records of what it has already"),
                          HasSubstr("same binaries")));
  EXPECT_NEAR(found.cases.at(0).before_ns, 1.005e6, 4000);  // of all 40 samples
}

// The machine is 20 % slower on the second day, the implementation 10 % slower than that.
TEST(Comparison, RelativeToAPeerOfTheSameLaunch) {
  const Results before = file({passed("flash_cuda", 1e6), passed("cudnn_cuda", 2e6)}),
                after = file({passed("flash_cuda", 1.32e6), passed("cudnn_cuda", 2.4e6)});
  CompareOptions options = kWithFloor;
  options.relative_to = "cudnn_cuda";
  const Comparison found = compare({before}, {after}, options);
  ASSERT_EQ(found.cases.size(), 2u);
  EXPECT_NEAR(found.cases[0].time.ratio, 1.1, 0.002);
  EXPECT_EQ(found.cases[0].time.change, Change::kWorse);
  EXPECT_EQ(found.cases[1].time.code, "is-peer");
  EXPECT_EQ(compare({file({passed()})}, {file({passed()})}, options).cases[0].time.code, "no-peer");
  // The same share: whatever the day was like.
  EXPECT_FALSE(worse(compare(
      {before}, {file({passed("flash_cuda", 1.2e6), passed("cudnn_cuda", 2.4e6)})}, options)));
}

// On the second day the machine has half the clock, and the implementation keeps its share of it.
TEST(Comparison, RelativeToTheRooflineOfTheSameLaunch) {
  const auto day = [](double ns, double least_ns) {
    Record record = passed("flash_cuda", ns);
    record.roofline = core::RooflineRecord{
        .share = least_ns / ns, .limit = "f32 AVX3", .least_ns = least_ns, .flops_per_byte = {}};
    return file({record});
  };
  CompareOptions options = kWithFloor;
  options.relative_to = kRooflinePeer;
  EXPECT_FALSE(worse(compare({day(1e6, 8e5)}, {day(2e6, 16e5)}, options)));
  const Comparison found = compare({day(1e6, 8e5)}, {day(2e6, 14e5)}, options);
  EXPECT_NEAR(found.cases[0].time.ratio, 2 * 8.0 / 14, 0.002);
  EXPECT_EQ(found.cases[0].time.change, Change::kWorse);
  EXPECT_EQ(compare({file({passed()})}, {file({passed()})}, options).cases[0].time.code, "no-peer");
}

std::string at(int minute) { return "2026-01-01T00:" + std::to_string(10 + minute) + ":00Z"; }

// A machine that gets slower and slower, by 2 % a launch: ABBA ABBA cancels it.
TEST(Comparison, LaunchesThatTookTurnsArePaired) {
  for (const double change : {1.0, 1.05}) {
    std::vector<Results> before, after;
    for (int i = 0; i < 16; ++i) {
      const bool is_after = i % 4 == 1 || i % 4 == 2;
      Record r = passed();
      r.time = time_of(1e6 * std::pow(1.002, i) * (is_after ? change : 1), uint64_t(i));
      (is_after ? after : before).push_back(file({r}, at(i)));
    }
    std::swap(before[0], before[5]);  // the order of files is none
    const Comparison found = compare(before, after, {});
    EXPECT_TRUE(found.cases.at(0).time.paired);
    EXPECT_EQ(found.cases.at(0).time.change, change > 1 ? Change::kWorse : Change::kSame);
    before.pop_back();
    EXPECT_FALSE(compare(before, after, {}).cases.at(0).time.paired);
  }
  std::vector<Results> before, after;
  for (int i = 0; i < 8; ++i) {
    before.push_back(file({passed()}, at(i)));
    after.push_back(file({passed()}, at(i + 10)));
  }
  EXPECT_FALSE(compare(before, after, {}).cases.at(0).time.paired) << "one side after the other";
}

// A ratio of the fastest runs stands beside medians: the row and the legend say so, of times that
// did not change too.
TEST(Comparison, SaysWhichRatiosAreOfTheFastestRuns) {
  std::vector<Results> before, after;
  for (int i = 0; i < 16; ++i) {
    Record r = passed();
    r.time = time_of(1e6, uint64_t(i));
    (i % 4 == 1 || i % 4 == 2 ? after : before).push_back(file({r}, at(i)));
  }
  const std::string text = print_comparison(compare(before, after, {}), {});
  EXPECT_THAT(text, ::testing::ContainsRegex("SAME x1.000 .0.[0-9]+ [01].[0-9]+. .fast."));
  EXPECT_THAT(text, HasSubstr("(fast): x is of the time that a tenth of the runs beat"));
}

TEST(Comparison, IsReadable) {
  Record fast = passed("flash_cuda", 1e6), slow = passed("flash_cuda", 1.1e6);
  fast.time->samples_ns.assign(20, 1e6);
  slow.time->samples_ns.assign(20, 1.1e6);
  slow.plugin_hash = "1111111111111111";
  slow.memory.pool_peak_bytes = 1 << 20;
  slow.fills[0].judgement.max_ratio = 0.6;
  Record was = passed("window_cuda"), is = was;
  is.outcome.code = ReasonCode::kFailTolerance;
  const Comparison found =
      compare({file({fast, was, passed("x")})}, {file({slow, is})}, {.rule = {.floor = 0.05}});
  EXPECT_EQ(print_comparison(found, {}),
            "                  verdict          time                                               "
            "               memory         "
            "          error\n"
            "vit/a f16\n"
            "  flash_cuda      pass             1.00 ms -> 1.10 ms     SLOWER x1.100 [1.100 1.100] "
            "               BIGGER x2.000  "
            "          LESS ACCURATE x1.500\n"
            "  window_cuda     pass -> fail  (same binary)\n"
            "\nonly before:\n  vit/a f16 x\n"
            "2 compared: 1 regressed, 0 fixed, 0 skipped; 1 slower, 0 faster, 0 as fast, 0 "
            "inconclusive, 0 not comparable; "
            "1 bigger, 0 smaller; 1 less accurate, 0 more accurate; 1 only before, 0 only after\n"
            "x: after / before, with its interval\n");
  const nlohmann::json json = to_json(found);
  EXPECT_EQ(json["cases"][0]["time"]["change"], "SLOWER");
  EXPECT_EQ(json["cases"][0]["time"]["code"], "floor");
  EXPECT_EQ(json["cases"][1]["verdict"], "regressed");
  EXPECT_EQ(json["only_before"][0], "vit/a f16 x");
  EXPECT_EQ(json["totals"]["verdict"],
            (nlohmann::json{{"same", 1}, {"regressed", 1}, {"fixed", 0}, {"skipped", 0}}));
  EXPECT_EQ(json["totals"]["time"],
            (nlohmann::json{
                {"SAME", 0}, {"FASTER", 0}, {"SLOWER", 1}, {"INCONCLUSIVE", 0}, {"INVALID", 0}}))
      << "of what did not pass nothing is told";
}

TEST(Comparison, OfOneBinaryWithItselfSaysTheFloor) {
  Record was[] = {passed("x"), passed("y"), passed("z")}, is[] = {was[0], was[1], was[2]};
  const double after_ns[] = {1e6, 1.02e6, 0.8e6};
  for (int i = 0; i < 3; ++i) {
    was[i].time->samples_ns.assign(20, 1e6);
    is[i].time->samples_ns.assign(20, after_ns[i]);
  }
  EXPECT_THAT(
      compare({file({was[0], was[1], was[2]})}, {file({is[0], is[1], is[2]})}, {}).notes,
      ElementsAre(HasSubstr("the same binaries of implementations; times differ by 2.0 % in "
                            "the median case, by up to 25.0 %")));
}

TEST(Comparison, LeavesOutWhatDidNotChange) {
  Record same = passed("same"), slower = passed("slower"), untold = passed("untold"),
         fixed = passed("fixed");
  same.time->samples_ns.assign(20, 1e6);
  const Record unsupported{.suite = "vit",
                           .case_name = "a",
                           .impl = "unsupported",
                           .dtype = "f16",
                           .outcome = {ReasonCode::kUnsupportedQuery, ""}};
  std::vector<Record> was{same, slower, untold, fixed, unsupported}, is = was;
  is[1].time = time_of(2e6);
  is[2].threads = 4;
  is[2].device = was[2].device = "cpu";
  was[3].outcome.code = ReasonCode::kFailTolerance;
  const Comparison found = compare({file(was)}, {file(is)}, kWithFloor);
  const std::string all = print_comparison(found, {}),
                    changed = print_comparison(found, {.changed_only = true});
  for (const char* impl : {"  slower ", "  untold ", "  fixed "})
    EXPECT_THAT(changed, HasSubstr(impl));
  for (const char* impl : {"  same ", "  unsupported "}) {
    EXPECT_THAT(all, HasSubstr(impl));
    EXPECT_THAT(changed, ::testing::Not(HasSubstr(impl)));
  }
  EXPECT_THAT(changed, HasSubstr("2 of 5 did not change\n"));
  EXPECT_THAT(changed,
              HasSubstr("1 slower, 0 faster, 1 as fast, 0 inconclusive, 1 not comparable"));
  EXPECT_THAT(all, ::testing::Not(HasSubstr("did not change")));
}

}  // namespace
}  // namespace attest::reports
