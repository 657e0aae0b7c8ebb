// Rules files: what they say is read, and what is wrong in them is named.
#include "cli/comparison/gate_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"
#include "testing/json_schema.hpp"

namespace attest::cli {
namespace {

using nlohmann::json;
using reports::AllowedVerdict;
using reports::GateRules;
using reports::Limit;
using ::testing::ElementsAre;
using ::testing::Pair;

const std::string kAll = ATTEST_SOURCE_DIR "/harness/cli/comparison/corpus/gate_rules/all.json";

core::CaseKey key(const char* suite, const char* case_name, const char* dtype, const char* impl) {
  return {.suite = suite, .case_name = case_name, .dtype = dtype, .impl = impl};
}

std::string error_of(const std::string& text) {
  try {
    parse_gate_rules(text, "r.json");
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

TEST(GateRules, AreReadWhole) {
  const GateRules rules = read_gate_rules(kAll);
  ASSERT_EQ(rules.rules.size(), 3u);
  EXPECT_EQ(rules.rules[0].verdict, AllowedVerdict::kNotBad);
  EXPECT_EQ(rules.rules[2].verdict, AllowedVerdict::kNotWorse);
  EXPECT_EQ(rules.rules[1].name, "rule 2");
  EXPECT_EQ(rules.rules[1].verdict, AllowedVerdict::kPass);
  EXPECT_THAT(rules.rules[1].limits,
              ElementsAre(Pair(Limit::kSlowerThan, 0.03), Pair(Limit::kBiggerThan, 0.05),
                          Pair(Limit::kMaxRatio, 0.8), Pair(Limit::kRmsRatio, 0.9),
                          Pair(Limit::kLargerThan, 0.1), Pair(Limit::kMissed, 0.001),
                          Pair(Limit::kRunJoules, 0.5), Pair(Limit::kMoreThan, 0.1)));
  ASSERT_EQ(rules.waivers.size(), 2u);
  EXPECT_EQ(rules.waivers[0].name, "waiver 1");
  EXPECT_EQ(rules.waivers[0].reason, "issue 12");
  EXPECT_THAT(rules.waivers[0].groups, ElementsAre("time"));
  EXPECT_EQ(rules.waivers[1].expires, "2028-02-29");
}

TEST(GateRules, MatchByEveryGlob) {
  const GateRules rules = read_gate_rules(kAll);
  EXPECT_TRUE(rules.rules[0].scope(key("any", "any", "f64", "any")));
  const reports::Scope& narrow = rules.rules[1].scope;
  EXPECT_TRUE(narrow(key("vit", "vit_b/self", "f16", "flash_cpu")));
  EXPECT_TRUE(narrow(key("vit", "vit_b/self", "f16", "window_cpu")));
  EXPECT_FALSE(narrow(key("bev", "vit_b/self", "f16", "flash_cpu")));
  EXPECT_FALSE(narrow(key("vit", "swin", "f16", "flash_cpu")));
  EXPECT_FALSE(narrow(key("vit", "vit_b/self", "f32", "flash_cpu")));
  EXPECT_FALSE(narrow(key("vit", "vit_b/self", "f16", "naive")));
  EXPECT_TRUE(rules.waivers[0].scope(key("bev", "self", "f16", "naive"))) << "suite/case";
}

TEST(GateRules, ErrorsNameTheKeyAndWhatIsRight) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "r.json: must be an object of rules, waivers"},
      {R"({)",
       "r.json: line 1, column 2: syntax error while parsing object key - unexpected end of "
       "input; expected string literal"},
      {R"({"rule": []})", "r.json: unknown key 'rule', did you mean 'rules'?"},
      {R"({"rules": []})", R"(r.json: has no rules, e.g. "rules": [{"verdict": "pass"}])"},
      {R"({"rules": {}})", "r.json: rules: must be a list of at most 1000"},
      {R"({"rules": [{"verdict": "pass"}, {"impls": "a", "verdict": "pass"}]})",
       "r.json: rule 2: unknown key 'impls', did you mean 'impl'?"},
      {R"({"rules": [{"impl": "a"}]})",
       "r.json: rule 1: sets no limit; it may set verdict, time, memory, error, deadline, energy"},
      {R"({"rules": [{"impl": 1, "verdict": "pass"}]})",
       "r.json: rule 1: impl: must be text of 1 to 400 characters on one line"},
      {R"({"rules": [{"impl": [], "verdict": "pass"}]})",
       "r.json: rule 1: impl: must be one text, or a list of 1 to 100"},
      {R"({"rules": [{"verdict": "passes"}]})",
       "r.json: rule 1: verdict: must be one of pass, not_bad, not_worse"},
      {R"({"rules": [{"time": 1.1}]})",
       "r.json: rule 1: time: must be an object of slower_than, e.g. \"time\": {\"slower_than\": "
       "\"3 %\"}"},
      {R"({"rules": [{"error": 1}]})",
       "r.json: rule 1: error: must be an object of max_ratio, rms_ratio, larger_than, e.g. "
       "\"error\": {\"max_ratio\": 1}"},
      {R"({"rules": [{"time": {}}]})", "r.json: rule 1: time: sets no limit; it has slower_than"},
      {R"({"rules": [{"time": {"slowr_than": "3 %"}}]})",
       "r.json: rule 1: time: unknown key 'slowr_than', did you mean 'slower_than'?"},
      {R"({"rules": [{"time": {"bigger": "3 %"}}]})",
       "r.json: rule 1: time: unknown key 'bigger'; the keys are slower_than"},
      {R"({"rules": [{"error": {"max_ratio": "0.8"}}]})",
       "r.json: rule 1: error: max_ratio: must be a number from 0 to 1"},
      {R"({"rules": [{"verdict": "pass"}], "waivers": [{"reason": "x", "expires": "2026-12-31"}]})",
       "r.json: waiver 1: names no case; it needs one or more of suite, impl, case, dtype"},
      {R"({"rules": [{"verdict": "pass"}], "waivers": [{"impl": "a", "expires": "2026-12-31"}]})",
       R"(r.json: waiver 1: has no reason, e.g. "reason": "issue 12: known, accepted")"},
      {R"({"rules": [{"verdict": "pass"}], "waivers": [{"impl": "a", "reason": "x"}]})",
       R"(r.json: waiver 1: has no expires, e.g. "expires": "2026-12-31")"},
      {R"({"rules": [{"verdict": "pass"}], "waivers": [{"impl": "a", "reason": "x",
        "expires": "2026-12-31", "limits": ["times"]}]})",
       "r.json: waiver 1: limits: no limit 'times', did you mean 'time'?"},
  };
  for (const auto& [text, said] : cases) EXPECT_EQ(error_of(text), said) << text;
}

TEST(GateRules, RefusesWhatIsNoPercentage) {
  for (const char* value : {"3", "\"3\"", "\"%\"", "\"3 %%\"", "\"0.5 %\"", "\"1001 %\"",
                            "\"nan %\"", "\"-3 %\"", "\"3  %\"", "\"three %\"", "null"})
    EXPECT_EQ(error_of(std::string(R"({"rules": [{"time": {"slower_than": )") + value + "}}]}"),
              "r.json: rule 1: time: slower_than: must be a percentage such as \"3 %\", from 1 % "
              "to 1000 %")
        << value;
}

TEST(GateRules, RefusesWhatIsNoDay) {
  for (const char* day : {"2026-02-30", "2027-02-29", "2026-13-01", "2026-1-1", "31.12.2026",
                          "2026-12-31T00:00", "2026-00-10", "soon", "-026-01-01"})
    EXPECT_EQ(error_of(std::string(R"({"rules": [{"verdict": "pass"}], "waivers": [
        {"impl": "a", "reason": "x", "expires": ")") +
                       day + "\"}]}"),
              "r.json: waiver 1: expires: '" + std::string(day) +
                  "' is no day of the calendar; must be YYYY-MM-DD, the last day on which the "
                  "waiver holds");
}

TEST(GateRules, HaveASchemaThatRefusesTheSame) {
  const attest::testing::JsonSchema schema("reports/gate/rules.schema.json");
  const json good = json::parse(std::ifstream(kAll));
  EXPECT_EQ(schema.errors(good), "");
  const auto refused = [&](const json& bad) {
    EXPECT_NE(schema.errors(bad), "") << bad;
    EXPECT_NE(error_of(bad.dump()), "") << bad;
  };
  for (const char* keys : {R"({"rules": []})", R"({"rule": 1})", R"({"waivers": {}})"}) {
    json bad = good;
    bad.update(json::parse(keys));
    refused(bad);
  }
  for (const char* keys :
       {R"({"impls": "a"})", R"({"impl": ""})", R"({"case": []})", R"({"verdict": "fail"})",
        R"({"time": {}})", R"({"time": {"slower_than": 3}})", R"({"memory": {"bigger_than": "x"}})",
        R"({"error": {"max_ratio": 1.5}})", R"({"deadline": {"misses": "1 %"}})",
        R"({"energy": {"run_joules": -1}})"}) {
    json bad = good;
    bad["rules"][0].update(json::parse(keys));
    refused(bad);
  }
  for (const char* keys : {R"({"limits": "times"})", R"({"reason": ""})", R"({"expires": "soon"})",
                           R"({"until": "2026-12-31"})"}) {
    json bad = good;
    bad["waivers"][0].update(json::parse(keys));
    refused(bad);
  }
  for (const char* key : {"reason", "expires", "case"}) {
    json bad = good;
    bad["waivers"][0].erase(key);
    refused(bad);
  }
}

}  // namespace
}  // namespace attest::cli
