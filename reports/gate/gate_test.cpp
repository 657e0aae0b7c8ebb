// Gates: each limit is broken by something that only it sees; rules, waivers, what is undecided.
#include "reports/gate/gate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "reports/gate/gate_text.hpp"
#include "reports/testing/golden.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using attest::testing::file;
using attest::testing::passed;
using attest::testing::time_of;
using core::ReasonCode;
using core::Record;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const GateOptions kToday{.today = "2026-06-15"};
const Scope kEverything = [](const core::CaseKey&) { return true; };

Scope of_case(const std::string& name) {
  return [name](const core::CaseKey& key) { return key.case_name == name; };
}

/// Every limit that there is; what `measured` has keeps them all.
GateRule strictest() {
  return {.name = "rule 1",
          .scope = kEverything,
          .verdict = AllowedVerdict::kPass,
          .limits = {{Limit::kSlowerThan, 0.03},
                     {Limit::kBiggerThan, 0.05},
                     {Limit::kMaxRatio, 0.8},
                     {Limit::kRmsRatio, 0.7},
                     {Limit::kLargerThan, 0.5},
                     {Limit::kMissed, 0.01},
                     {Limit::kRunJoules, 0.5},
                     {Limit::kMoreThan, 0.1}}};
}

/// A record with frames and energy too, of which nothing has noise.
Record measured(const std::string& case_name = "a") {
  Record record = passed();
  record.case_name = case_name;
  record.max_ratio = 0.4;
  record.rms_ratio = 0.3;
  record.time->samples_ns.assign(20, 1e6);
  record.repro = "attest repro --impl flash_cuda 'softmax seq_len_q=64'";
  record.paced = core::PacedRecord{.period_ns = 5e7};
  record.paced->alone.policies = {{.policy = "queue-all", .frames = 500, .missed = 2},
                                  {.policy = "latest-only", .frames = 500, .missed = 2}};
  record.energy = {{.sensor = "package-0", .run_joules = 0.3}};
  return record;
}

Gated gated(const Record& was, const Record& is, const GateRules& rules = {{strictest()}, {}}) {
  return gate({file({was})}, {file({is})}, rules, kToday);
}

TEST(Gate, KeepsWhatDidNotChange) {
  const Gated found = gated(measured(), measured());
  EXPECT_EQ(found.cases, 1u);
  EXPECT_EQ(found.limits, 9u);
  EXPECT_THAT(found.broken, IsEmpty());
  EXPECT_FALSE(undecided(found)) << print_gate(found, false);
  EXPECT_EQ(found.unable, "");
}

TEST(Gate, EachLimitIsBrokenAlone) {
  const std::tuple<std::function<void(Record&)>, const char*, const char*> changes[] = {
      {[](Record& r) { r.outcome = {ReasonCode::kFailTolerance, "too large"}; }, "verdict",
       "fail, was pass: too large; rule 1 allows pass"},
      {[](Record& r) { r.time->samples_ns.assign(20, 1.04e6); }, "time",
       "slower x1.040 [1.040 1.040]; rule 1 allows 3 %"},
      {[](Record& r) { r.memory.pool_peak_bytes = 1 << 17; }, "memory",
       "bigger x1.125 [1.125 1.125]; rule 1 allows 5 %"},
      {[](Record& r) { r.max_ratio = 0.9; }, "error", "largest 0.9 of its gate; rule 1 allows 0.8"},
      {[](Record& r) { r.max_ratio = NAN; }, "error", "largest inf of its gate; rule 1 allows 0.8"},
      {[](Record& r) { r.rms_ratio = 0.75; }, "error", "rms 0.75 of its gate; rule 1 allows 0.7"},
      {[](Record& r) { r.fills[0].judgement.max_ratio = 0.64; }, "error",
       "larger x1.600 [1.600 1.600]; rule 1 allows 50 %"},
      {[](Record& r) { r.paced->alone.policies[1].missed = 6; }, "deadline",
       "6 of 500 frames missed, 1.2 % (latest-only, alone); rule 1 allows 1 %"},
      {[](Record& r) {
         r.paced->contended = r.paced->alone;
         r.paced->contended->policies[0].missed = 9;
       },
       "deadline",
       "9 of 500 frames missed, 1.8 % (queue-all, beside other work); rule 1 allows 1 %"},
      {[](Record& r) {
         r.paced->alone.policies[0].never_ran = 7;
         r.paced->alone.policies[0].missed = 9;
       },
       "deadline",
       "9 of 500 frames missed, 1.8 % (queue-all, alone; 7 never ran); rule 1 allows 1 %"},
      {[](Record& r) {
         r.energy = {{.sensor = "package-0", .run_joules = 0.32},
                     {.sensor = "dram", .run_joules = 0.6}};
       },
       "energy", "0.6 J a run (dram); rule 1 allows 0.5"},
      {[](Record& r) { (*r.energy)[0].run_joules = 0.36; }, "energy",
       "more x1.200 [1.200 1.200] (package-0); rule 1 allows 10 %"},
  };
  for (const auto& [change, group, what] : changes) {
    Record is = measured();
    change(is);
    is.plugin_hash = "1111111111111111";
    const Gated found = gated(measured(), is);
    ASSERT_EQ(found.broken.size(), 1u) << what << "\n" << print_gate(found, false);
    EXPECT_EQ(found.broken[0].group, group);
    EXPECT_EQ(found.broken[0].what, what);
    EXPECT_THAT(found.undecided, IsEmpty()) << what;
    EXPECT_EQ(verdict_broken(found), std::string(group) == "verdict");
  }
}

TEST(Gate, WhichVerdictsARuleAllows) {
  const auto breaks = [](AllowedVerdict allowed, ReasonCode was, ReasonCode is) {
    Record before = measured(), after = measured();
    before.outcome.code = was;
    after.outcome.code = is;
    return verdict_broken(
        gated(before, after,
              {{{.name = "rule 1", .scope = kEverything, .verdict = allowed, .limits = {}}}, {}}));
  };
  using enum ReasonCode;
  EXPECT_TRUE(breaks(AllowedVerdict::kPass, kUnsupportedQuery, kUnsupportedQuery));
  EXPECT_TRUE(breaks(AllowedVerdict::kPass, kPass, kSkippedTime));
  EXPECT_FALSE(breaks(AllowedVerdict::kNotBad, kPass, kUnsupportedQuery));
  EXPECT_TRUE(breaks(AllowedVerdict::kNotBad, kFailTolerance, kCrashSignal));
  EXPECT_TRUE(breaks(AllowedVerdict::kNotWorse, kPass, kUnsupportedQuery));
  EXPECT_TRUE(breaks(AllowedVerdict::kNotWorse, kPass, kSkippedTime));
  EXPECT_FALSE(breaks(AllowedVerdict::kNotWorse, kFailTolerance, kCrashSignal))
      << "it was bad before";
  EXPECT_FALSE(breaks(AllowedVerdict::kNotWorse, kUnsupportedQuery, kPass));
}

TEST(Gate, TheLastRuleThatSetsALimitDecidesIt) {
  Record slower = measured();
  slower.time->samples_ns.assign(20, 1.2e6);
  slower.plugin_hash = "1111111111111111";
  GateRule exception{
      .name = "rule 2", .scope = of_case("a"), .limits = {{Limit::kSlowerThan, 0.3}}};
  EXPECT_THAT(gated(measured(), slower, {{strictest(), exception}, {}}).broken, IsEmpty());
  EXPECT_EQ(gated(measured(), slower, {{exception, strictest()}, {}}).broken.size(), 1u);
  exception.scope = of_case("b");
  const Gated found = gated(measured(), slower, {{strictest(), exception}, {}});
  EXPECT_EQ(found.broken.size(), 1u);
  EXPECT_THAT(found.unmatched, ElementsAre("rule 2"));
  EXPECT_TRUE(undecided(found)) << "a rule that matches nothing may have a misprint";
}

// A machine that is slower today is no fault of the build.
TEST(Gate, TheSameBuildIsNeverSlower) {
  const auto ran = [](double ns) {
    Record record = measured();
    record.time->samples_ns.assign(20, ns);
    record.libraries_hash = "2222222222222222";
    core::Results results = file({record});
    results.header.environment["identity"]["attest"] = "33";
    results.header.environment["run"]["variables_hash"] = "55";
    return results;
  };
  EXPECT_THAT(gate({ran(1e6)}, {ran(2e6)}, {{strictest()}, {}}, kToday).broken, IsEmpty());
}

TEST(Gate, WaiversExcuseUntilTheyExpire) {
  Record failing = measured();
  failing.outcome = {ReasonCode::kFailTolerance, "too large"};
  const GateWaiver waiver{.name = "waiver 1",
                          .scope = of_case("a"),
                          .groups = {},
                          .reason = "issue 12",
                          .expires = "2026-06-15"};
  const auto with = [&](const std::function<void(GateWaiver&)>& change) {
    GateWaiver changed = waiver;
    change(changed);
    return gated(measured(), failing, {{strictest()}, {changed}});
  };
  const Gated waived = with([](GateWaiver&) {});
  EXPECT_THAT(waived.broken, IsEmpty()) << "today is the last day";
  ASSERT_EQ(waived.waived.size(), 1u);
  EXPECT_EQ(waived.waived[0].waiver, "waived until 2026-06-15: issue 12");
  EXPECT_THAT(with([](GateWaiver& w) { w.groups = {"time", "verdict"}; }).broken, IsEmpty());

  const Gated of_time = with([](GateWaiver& w) { w.groups = {"time"}; });
  EXPECT_EQ(of_time.broken.size(), 1u);
  EXPECT_THAT(of_time.notes, ::testing::Contains("waiver 1 waives nothing: remove it (issue 12)"));
  EXPECT_EQ(with([](GateWaiver& w) { w.scope = of_case("b"); }).broken.size(), 1u);

  const Gated expired = with([](GateWaiver& w) { w.expires = "2026-06-14"; });
  EXPECT_EQ(expired.broken.size(), 1u);
  EXPECT_THAT(expired.waived, IsEmpty());
  EXPECT_THAT(
      expired.notes,
      ::testing::Contains(
          "waiver 1 expired on 2026-06-14 and waives nothing; it would waive 1 (issue 12)"));
}

TEST(Gate, WhatCannotBeJudgedIsUndecided) {
  const std::tuple<std::function<void(Record&)>, const char*, const char*> changes[] = {
      {[](Record& r) { r.time.reset(); }, "time", "timed-once"},
      {[](Record& r) { r.paced.reset(); }, "deadline", "no-frames"},
      {[](Record& r) { r.fills[0].inputs_hash = "1111111111111111"; }, "error", "other-inputs"},
      {[](Record& r) { r.memory.peak_bytes = 1; }, "memory", "not-measured"},
      {[](Record& r) { r.time = time_of(1.03e6); }, "time", "wide"},
      {[](Record& r) { r.time->samples_ns.assign(20, 0); }, "time", "bad-times"},
      {[](Record& r) { r.time->samples_ns.assign(1, 1e6); }, "time", "one-sample"},
  };
  for (const auto& [change, group, code] : changes) {
    Record is = measured();
    change(is);
    const Gated found = gated(measured(), is);
    ASSERT_EQ(found.undecided.size(), 1u) << code << print_gate(found, false);
    EXPECT_EQ(found.undecided[0].group, group);
    EXPECT_EQ(found.undecided[0].code, code);
    EXPECT_THAT(found.broken, IsEmpty());
    EXPECT_TRUE(undecided(found));
  }
  Record refused = measured();
  (*refused.energy)[0].refusal = "may not be read";
  EXPECT_EQ(gated(measured(), refused).undecided.size(), 2u) << "joules of a run, and their growth";
  Record failing = measured();
  failing.outcome.code = ReasonCode::kFailTolerance;
  const GateRules times{
      {{.name = "rule 1", .scope = kEverything, .limits = {{Limit::kSlowerThan, 0.03}}}}, {}};
  EXPECT_EQ(gated(measured(), failing, times).undecided.at(0).code, "not-passed");
  EXPECT_THAT(gated(failing, measured(), times).undecided, IsEmpty()) << "it has become right";
}

// What no record has is one line, however many cases there are.
TEST(Gate, SaysOnceWhatIsUndecidedAlike) {
  std::vector<Record> was, is;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    was.push_back(measured(name));
    is.push_back(measured(name));
    is.back().paced.reset();
    is.back().energy.reset();
  }
  is.back().time->samples_ns.assign(1, 1e6);
  const Gated found = gate({file(was)}, {file(is)}, {{strictest()}, {}}, kToday);
  EXPECT_EQ(found.undecided.size(), 16u);
  const std::string text = print_gate(found, false);
  const std::string title = "undecided:\n";
  const size_t begin = text.find(title) + title.size(), end = text.find("one-sample: ");
  EXPECT_EQ(std::ranges::count(text.substr(begin, end - begin), '\n'), 4) << text;
  EXPECT_THAT(text, HasSubstr("  deadline: no frame was released (no-frames); rule 1 allows 1 %: 5 "
                              "records (vit/a f16 flash_cuda, vit/b f16 flash_cuda, vit/c f16 "
                              "flash_cuda and 2 more)\n"));
  EXPECT_THAT(text, HasSubstr("\n  vit/e f16 flash_cuda: time: "));
  EXPECT_EQ(to_json(found)["undecided"].size(), 16u) << "a program gets each";
}

// Whether the time changed is open; that it did not grow by 3 % is not.
TEST(Gate, KeepsWhatCannotBeOverTheLimit) {
  Record is = measured();
  is.time->samples_ns.assign(20, 1.02e6);
  EXPECT_FALSE(undecided(gated(measured(), is)));
  is.time->samples_ns.assign(10, 0.9e6);
  is.time->samples_ns.resize(20, 1.02e6);
  EXPECT_FALSE(undecided(gated(measured(), is)));
}

TEST(Gate, ListsCasesOfOneSide) {
  const Gated found = gate({file({measured("a"), measured("gone")})},
                           {file({measured("a"), measured("new")})}, {{strictest()}, {}}, kToday);
  EXPECT_THAT(found.missing, ElementsAre("vit/gone f16 flash_cuda"));
  EXPECT_THAT(found.added, ElementsAre("vit/new f16 flash_cuda"));
  EXPECT_TRUE(undecided(found));
  EXPECT_EQ(found.unable, "");
}

TEST(Gate, SaysWhenItCanJudgeNothing) {
  const GateRules rules{{strictest()}, {}};
  EXPECT_EQ(gate({file({measured("b")})}, {file({measured("a")})}, rules, kToday).unable,
            "the baseline has none of these cases");
  GateRule other = strictest();
  other.scope = of_case("b");
  EXPECT_EQ(gated(measured("a"), measured("a"), {{other}, {}}).unable,
            "no rule matches a case of the results");
  core::Results elsewhere = file({measured()});
  elsewhere.header.environment["cuda"]["name"] = "another";
  const Gated found = gate({elsewhere}, {file({measured()})}, rules, kToday);
  EXPECT_THAT(found.unable, HasSubstr("the baseline is of another machine"));
  EXPECT_EQ(found.undecided.size(), 2u) << "time and energy";
  GateOptions relative = kToday;
  relative.relative_to = "peer";
  Record peer = measured();
  peer.impl = "peer";
  elsewhere.records.push_back(peer);
  EXPECT_THAT(gate({elsewhere}, {file({measured(), peer})}, rules, relative).unable,
              HasSubstr("another machine"));
  elsewhere.records.pop_back();
  GateOptions asked = kToday;
  asked.across_machines = true;
  EXPECT_EQ(gate({elsewhere}, {file({measured()})}, rules, asked).unable, "");
}

TEST(Gate, KnowsWhichRulesNeedABaseline) {
  GateRule rule{.name = "rule 1",
                .scope = kEverything,
                .verdict = AllowedVerdict::kPass,
                .limits = {{Limit::kMaxRatio, 0.5}, {Limit::kMissed, 0}}};
  EXPECT_EQ((GateRules{{rule}, {}}.needs_baseline()), "");
  const Gated found = gate({}, {file({measured()})}, {{rule}, {}}, kToday);
  EXPECT_EQ(found.broken.size(), 1u);
  EXPECT_THAT(found.added, IsEmpty());
  EXPECT_EQ(found.unable, "");
  rule.limits[Limit::kSlowerThan] = 0.03;
  EXPECT_EQ((GateRules{{rule}, {}}.needs_baseline()), "rule 1: time.slower_than");
}

// Six broken limits, the worst first, of which five have their command; and all else that a log
// may hold.
TEST(Gate, IsReadable) {
  const double factors[] = {1.1, 1.5, 1.2, 1.3, 1.4};
  std::vector<Record> was, is;
  for (int i = 0; i < 5; ++i) {
    was.push_back(measured("slower_" + std::to_string(i)));
    is.push_back(was.back());
    is.back().time->samples_ns.assign(20, 1e6 * factors[i]);
  }
  for (const char* name : {"failing", "known", "untimed", "gone"}) was.push_back(measured(name));
  for (const char* name : {"failing", "known", "untimed", "new"}) is.push_back(measured(name));
  is[5].outcome = is[6].outcome = {ReasonCode::kFailTolerance, "largest error is 3 of its gate"};
  is[7].time.reset();
  for (Record& record : is) record.plugin_hash = "1111111111111111";
  GateRule unmatched = strictest();
  unmatched.name = "rule 2";
  unmatched.scope = of_case("misprint");
  const GateWaiver known{.name = "waiver 1",
                         .scope = of_case("known"),
                         .groups = {"verdict"},
                         .reason = "issue 12",
                         .expires = "2026-12-31"};
  GateWaiver expired = known, unused = known;
  expired.name = "waiver 2";
  expired.scope = of_case("failing");
  expired.expires = "2026-01-31";
  unused.name = "waiver 3";
  unused.scope = of_case("slower_0");
  unused.groups = {"memory"};
  const Gated found =
      gate({file(was)}, {file(is)}, {{strictest(), unmatched}, {known, expired, unused}}, kToday);
  attest::testing::expect_golden(print_gate(found, false), "gate.terminal");
  EXPECT_THAT(print_gate(found, true), HasSubstr("\033[1;31m  vit/failing f16 flash_cuda"));
  const nlohmann::json written = to_json(found);
  EXPECT_EQ(written["broken"].size(), found.broken.size());
  EXPECT_EQ(written["broken"][0]["case"], "failing");
  EXPECT_EQ(written["waived"][0]["waiver"], "waived until 2026-12-31: issue 12");
  EXPECT_EQ(written["undecided"][0]["code"], found.undecided[0].code);
  EXPECT_EQ(written["missing"], nlohmann::json({"vit/gone f16 flash_cuda"}));
  EXPECT_EQ(written["new"], nlohmann::json({"vit/new f16 flash_cuda"}));
  EXPECT_EQ(written["unmatched"], nlohmann::json({"rule 2"}));
  EXPECT_EQ(written["limits"], found.limits);
}

}  // namespace
}  // namespace attest::reports
