// attest choose as a user and a runtime meet it: what it says, and the exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "testing/json_schema.hpp"
#include "testing/shell.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Of results with every verdict: flash_cpu and naive pass vit_b_16_224/self, 8 and 44 ms.
Outcome choose(const std::string& arguments) {
  return testing::run_attest(::testing::TempDir(), "choose " ATTEST_SOURCE_DIR
                                                   "/reports/golden/results.jsonl " +
                                                       arguments);
}

nlohmann::json choose_json(const std::string& arguments) {
  const std::string text = choose(arguments + " --format json").text;
  return nlohmann::json::parse(text.substr(text.find("{\n")));  // behind the warnings
}

TEST(Choose, NamesTheBestAndWhyNotTheOthers) {
  const Outcome all = choose("--case 'vit_b*' --deadline 50ms --memory 1GiB --max-error-ratio 0.5");
  EXPECT_EQ(all.code, 0) << all.text;
  EXPECT_THAT(all.text, AllOf(HasSubstr("vit/vit_b_16_224/self f16, on Example CPU\n"
                                        "  take flash_cpu: 2 of 4 may be used within 50.0 ms, "
                                        "1.00 GiB beyond the tensors, "
                                        "a largest error of 0.5 of its gate\n"),
                              HasSubstr("  no           breaks      crash: SIGSEGV in run"),
                              HasSubstr("attest repro --impl breaks")));
  const Outcome tight = choose("--case 'vit/vit_b*' --deadline 17ms");
  EXPECT_THAT(tight.text, HasSubstr("  no           naive       median 43.4 ms, slowest "));
  EXPECT_THAT(tight.text, HasSubstr("the median is 2.55 times the deadline of 17.0 ms"));
}

TEST(Choose, NamesTheNearestMissWhereNoneMayBeUsed) {
  const Outcome none = choose("--case 'vit_b*' --deadline 1ms");
  EXPECT_EQ(none.code, 1) << none.text;
  EXPECT_THAT(
      none.text,
      ::testing::ContainsRegex(
          "none of 4 may be used within 1.00 ms; the nearest that was measured is flash_cpu: "
          "its median of [0-9.]+ ms is [0-9.]+ times the deadline of 1.00 ms"));
}

TEST(Choose, TakesADeadlineAsARate) {
  EXPECT_EQ(choose_json("--deadline 20Hz")["limits"]["deadline_ns"], 5e7);
  EXPECT_EQ(choose_json("--deadline 50ms")["limits"]["deadline_ns"], 5e7);
  const Outcome wrong = choose("--deadline 0Hz");
  EXPECT_EQ(wrong.code, 64);
  EXPECT_THAT(wrong.text, HasSubstr("must be a rate such as 12Hz, or a time such as 50ms"));
}

TEST(Choose, ALimitNeedsItsUnit) {
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Outcome outcome = choose(arguments);
    EXPECT_EQ(outcome.code, 64) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(words));
  };
  refused("--deadline 20", "--deadline: 20 has no unit: say 20Hz, 20ms or 20s; ");
  refused("--memory 64", "--memory: 64 has no unit: say 64MiB or 64GiB; ");
  refused("--memory 0", "must be at least 1B");
  EXPECT_EQ(choose_json("--memory 64MiB")["limits"]["memory_bytes"], 0x1p26);
}

TEST(Choose, NamesTheDtypesThatThereAre) {
  const Outcome outcome = choose("--case 'vit_b_16*' --dtype f32");
  EXPECT_EQ(outcome.code, 4) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("there are no records with --dtype f32, but of: "
                                      "vit/vit_b_16_224/self f16"));
}

TEST(Choose, ExitCodesFailSafe) {
  const Outcome inconclusive = choose("--case 'vit_b*' --deadline 10ms");
  EXPECT_EQ(inconclusive.code, 3) << inconclusive.text;
  EXPECT_THAT(inconclusive.text, HasSubstr("INCONCLUSIVE"));
  EXPECT_EQ(choose("--case 'vit_b*' --max-error-ratio 0.1").code, 1);
  EXPECT_EQ(choose("--case vit_b_16_224/self --tokens 4k").code, 3) << "larger than measured";
  EXPECT_EQ(choose("").code, 1) << "for some cases none passes";
  const Outcome unknown = choose("--case nowhere");
  EXPECT_EQ(unknown.code, 64);
  EXPECT_THAT(unknown.text, HasSubstr("--case nowhere: matches none of: "));
  EXPECT_EQ(choose("--tokens 0").code, 64);
  EXPECT_EQ(choose("--deadline soon").code, 64);
  for (const char* share : {"nan", "1.5", "-0.1", "half"}) {
    const Outcome wrong = choose(std::string("--max-error-ratio=") + share);
    EXPECT_EQ(wrong.code, 64) << share;
    EXPECT_THAT(wrong.text, HasSubstr("must be a number from 0 to 1"));
  }
}

TEST(Choose, ARuntimeReadsTheJson) {
  const nlohmann::json document = choose_json("--case 'vit_b*' --tokens 197 --deadline 50ms");
  EXPECT_EQ(document["limits"]["deadline_ns"], 5e7);
  const nlohmann::json& choice = document["choices"].at(0);
  EXPECT_EQ(choice["answer"], "use");
  EXPECT_EQ(choice["best"], "flash_cpu");
  EXPECT_EQ(choice["candidates"][0]["points"][0]["tokens"], 197);
  EXPECT_EQ(document["grids"].size(), 1u);
}

TEST(Choose, WritesJsonAsItsSchemaSays) {
  const testing::JsonSchema schema("reports/choice.schema.json");
  for (const char* arguments :
       {"", "--tokens 1k --deadline 50ms", "--max-error-ratio 0.1 --memory 1MiB"})
    EXPECT_EQ(schema.errors(choose_json(arguments)), "") << arguments;
}

// An answer names an implementation exactly if there is one to take.
TEST(Choose, TheSchemaRefusesAnAnswerThatContradictsItself) {
  const testing::JsonSchema schema("reports/choice.schema.json");
  const nlohmann::json document = choose_json("--case 'vit_b*' --deadline 50ms");
  ASSERT_EQ(document["choices"][0]["answer"], "use");
  for (const auto& [key, value] : {std::pair<const char*, nlohmann::json>{"best", nullptr},
                                   {"threads", nullptr},
                                   {"answer", "none"},
                                   {"answer", "perhaps"}}) {
    nlohmann::json wrong = document;
    wrong["choices"][0][key] = value;
    EXPECT_NE(schema.errors(wrong), "") << key << " " << value;
  }
}

}  // namespace
}  // namespace attest::cli
