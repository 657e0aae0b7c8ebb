// The printed table against what a person should read.
#include "reports/table.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reports/findings.hpp"

namespace attest::reports {
namespace {

core::Record passed_on_cpu() {
  core::Record r;
  r.suite = "vit";
  r.case_name = "vit_b16_224/self";
  r.dtype = "f16";
  r.impl = "flash_cpu";
  r.outcome = {};
  r.max_ratio = 0.4;
  r.rms_ratio = 0.25;
  r.flops = 120e6;
  core::FillRecord fill;
  fill.judgement.exact_elements = 10;
  r.fills.push_back(fill);
  r.time =
      core::TimeRecord{.median_ns = 1.5e6, .q1_ns = 1.4e6, .q3_ns = 1.55e6, .cold_median_ns = 2e6};
  r.memory.peak_bytes = 3 << 20;
  return r;
}

TEST(Table, IsReadable) {
  core::Record skipped = passed_on_cpu(), other = passed_on_cpu();
  skipped.impl = "naive";
  skipped.outcome.code = core::ReasonCode::kSkippedTime;
  skipped.outcome.reason = "needs 57 GiB";
  skipped.time.reset();
  skipped.fills.clear();
  other.impl = "linear_cpu";
  other.outcome.code = core::ReasonCode::kUnsupportedQuery;
  other.outcome.reason = "is not an implementation of softmax";
  EXPECT_EQ(
      print_table({passed_on_cpu(), skipped, other, other}, false),
      "                  verdict      worst    rms      time    +-      cold GFLOP/s    memory\n"
      "vit/vit_b16_224/self f16\n"
      "  flash_cpu       pass          0.40   0.25   1.50 ms   10%   2.00 ms    80.0  3.00 MiB\n"
      "  naive           skipped                    needs 57 GiB\n"
      "\nunsupported:\n"
      "  linear_cpu    2: is not an implementation of softmax (2)\n"
      "\n1 pass, 2 unsupported, 1 skipped\n"
      "worst, rms: error as a share of its gate, <= 1 passes; +-: interquartile range; memory: "
      "peak beyond the tensors\n"
      "after a case: batch x heads x tokens x channels; a/b: a of queries, b of keys or values\n");
}

TEST(Table, HasTheSizesOfEachCase) {
  EXPECT_EQ(print_sizes("softmax dtype=f16 num_heads=12 seq_len_q=197 head_dim=64"), "1x12x197x64");
  EXPECT_EQ(print_sizes("softmax batch=2 num_heads=8 num_kv_heads=2 seq_len_q=16 seq_len_kv=4096 "
                        "head_dim=64 head_dim_v=128"),
            "2x8/2x16/4096x64/128");
  EXPECT_EQ(print_sizes("softmax num_heads=8 num_kv_heads=8 seq_len_q=9 head_dim=16"), "1x8x9x16");
  EXPECT_EQ(print_sizes("deformable batch=2 num_heads=8 seq_len_q=2500 head_dim_v=32"),
            "2x8x2500x32");
  EXPECT_EQ(print_sizes("scale rows=3"), "");
  EXPECT_EQ(print_sizes("none"), "");
  core::Record r = passed_on_cpu();
  r.spec = "softmax num_heads=12 seq_len_q=197 head_dim=64";
  EXPECT_NE(print_table({r}, false).find("vit/vit_b16_224/self f16  1x12x197x64\n  flash_cpu"),
            std::string::npos);
}

// Row by row it is the same table; a case whose rows are apart has its title again.
TEST(Table, GrowsWithEachRecord) {
  core::Record second = passed_on_cpu(), other = passed_on_cpu();
  second.impl = "naive";
  other.case_name = "b";
  TableWriter writer({"flash_cpu", "naive"}, false);
  std::string text = writer.heading();
  text += writer.add(passed_on_cpu());
  EXPECT_NE(text.find("vit/vit_b16_224/self f16\n  flash_cpu       pass "), std::string::npos)
      << text;
  text += writer.add(second);
  text += writer.add(other);
  text += writer.ending({passed_on_cpu(), second, other});
  EXPECT_EQ(text, print_table({passed_on_cpu(), second, other}, false));
  EXPECT_EQ(text, print_table({passed_on_cpu(), other, second}, false))
      << "by case, whatever the order";
  EXPECT_EQ(writer.add(passed_on_cpu()).find("vit/vit_b16_224/self f16\n"), 0u);
}

// What is right by luck has no time that anybody could use.
TEST(Table, ShowsNoTimeOfAPassBesideARace) {
  core::Record lucky = passed_on_cpu();
  lucky.outcome = {core::ReasonCode::kSuspectRace, "passes, but a rerun of b gave other outputs"};
  const std::string text = print_table({lucky}, false);
  EXPECT_NE(text.find("passes, but a rerun of b"), std::string::npos) << text;
  EXPECT_EQ(text.find(" ms"), std::string::npos) << text;
}

core::FillRecord judged(const std::string& fill, core::ReasonCode code) {
  core::FillRecord one{.fill = fill};
  one.judgement.outcome.code = code;
  if (code != core::ReasonCode::kPass) {
    one.judgement.location = core::Location{.tensor = "o", .elements = 9, .wrong_elements = 3};
    one.judgement.guess = "no known mistake gives this output";
  }
  return one;
}

// One mistake may spoil several outputs, each at another place.
TEST(Table, SaysWhereEachOutputIsWrong) {
  core::Record r = passed_on_cpu();
  r.outcome.code = core::ReasonCode::kFailTolerance;
  r.fills = {judged("random", core::ReasonCode::kFailTolerance)};
  set_locations(r.fills[0].judgement, {{.tensor = "o", .elements = 9, .wrong_elements = 3},
                                       {.tensor = "lse", .elements = 3, .wrong_elements = 1}});
  const std::string text = print_hints(r, 4);
  EXPECT_NE(text.find("on random: o: 3 of 9 elements"), std::string::npos) << text;
  EXPECT_NE(text.find("on random: lse: 1 of 3 elements"), std::string::npos) << text;
}

// The fills pass, so their errors say nothing of the verdict.
TEST(Table, ShowsTheErrorsThatTheVerdictComesFrom) {
  core::Record r = passed_on_cpu();
  EXPECT_EQ(errors_of_verdict(r)->largest, r.max_ratio);
  r.outcome = {core::ReasonCode::kFailTolerance, "of its variant 'window'"};
  r.time.reset();
  r.relations.push_back({.relation = "plan-reuse"});
  core::Judgement& judgement = r.relations.back().judgement;
  judgement.outcome = r.outcome;
  judgement.max_ratio = 1234;
  judgement.rms_ratio = 56;
  ASSERT_TRUE(errors_of_verdict(r));
  EXPECT_EQ(errors_of_verdict(r)->largest, 1234);
  EXPECT_EQ(errors_of_verdict(r)->rms, 56);
  EXPECT_NE(print_table({r}, false).find(" 1.2e+03     56  of its variant"), std::string::npos)
      << print_table({r}, false);
  judgement.max_ratio = 0.5;
  EXPECT_FALSE(errors_of_verdict(r)) << "no error made it fail";
  r.fills[0].judgement.outcome = r.outcome;
  EXPECT_EQ(errors_of_verdict(r)->largest, r.max_ratio) << "a fill fails, too";
}

// Which inputs pass and which do not is half of an explanation.
TEST(Table, SaysWhatTheFailingFillHas) {
  core::Record r = passed_on_cpu();
  r.outcome.code = core::ReasonCode::kFailTolerance;
  r.fills = {judged("random", core::ReasonCode::kPass), judged("codebook", core::ReasonCode::kPass),
             judged("huge", core::ReasonCode::kFailTolerance)};
  EXPECT_NE(print_hints(r, 4).find("passes on random, codebook; huge has logits near 30,000"),
            std::string::npos)
      << print_hints(r, 4);
  r.fills.back().fill = "rising_12";
  EXPECT_NE(
      print_hints(r, 4).find("passes on random, codebook; rising_12 has a maximum that rises"),
      std::string::npos)
      << print_hints(r, 4);
  r.fills.erase(r.fills.begin(), r.fills.begin() + 2);
  EXPECT_EQ(print_hints(r, 4).find("passes on"), std::string::npos) << "nothing passed before";
  r.fills.insert(r.fills.begin(), judged("random", core::ReasonCode::kPass));
  r.fills.back().fill = "somebody's own";
  EXPECT_EQ(print_hints(r, 4).find("passes on"), std::string::npos) << "nobody knows what it has";
}

// Bits that change from run to run are no mistake in a formula.
TEST(Table, TellsOfARaceFirstAndGuessesNothingThen) {
  core::Record r = passed_on_cpu();
  r.outcome.code = core::ReasonCode::kFailTolerance;
  r.fills = {judged("random", core::ReasonCode::kFailTolerance)};
  EXPECT_NE(print_hints(r, 4).find("no known mistake"), std::string::npos);
  r.fills[0].reruns = core::RerunRecord{.runs = 1, .unjudged = 1, .apart = true};
  r.fills[0].reruns->others.emplace_back();
  r.fills[0].reruns->others[0].runs = 1;
  const std::string text = print_hints(r, 4);
  EXPECT_EQ(text.find("no known mistake"), std::string::npos) << text;
  EXPECT_LT(text.find("race or uninitialised memory"), text.find("on random: o:")) << text;
}

// A relation may find what no fill does.
TEST(Table, SaysWhereTheOutputOfARelationIsWrong) {
  core::Record r = passed_on_cpu();
  r.outcome.code = core::ReasonCode::kFailTolerance;
  r.fills = {judged("random", core::ReasonCode::kPass)};
  r.relations = {{.relation = "plan-reuse"}};
  r.relations[0].judgement = judged("", core::ReasonCode::kFailTolerance).judgement;
  EXPECT_NE(print_hints(r, 4).find("on plan-reuse: o: 3 of 9 elements"), std::string::npos)
      << print_hints(r, 4);
}

// Hundreds of unsupported cases take a line for each implementation.
TEST(Table, NamesTheMostFrequentReasonsOfUnsupportedCases) {
  UnsupportedCounts counts;
  EXPECT_EQ(counts.print(), "");
  core::Record record = passed_on_cpu();
  record.outcome.code = core::ReasonCode::kUnsupportedTable;
  for (int reason = 1; reason <= 5; ++reason)
    for (int i = 0; i < reason; ++i) {
      record.outcome.reason = fmt::format("lacks {}", reason);
      counts.add(record);
    }
  record.impl = "naive";
  counts.add(record);
  EXPECT_EQ(counts.print(),
            "\nunsupported:\n"
            "  flash_cpu   15: lacks 5 (5), lacks 4 (4), lacks 3 (3), and 2 more reasons (3)\n"
            "  naive        1: lacks 5 (1)\n");
}

TEST(Table, ColoursOnlyWhenAsked) {
  EXPECT_EQ(print_table({passed_on_cpu()}, false).find('\033'), std::string::npos);
  EXPECT_NE(print_table({passed_on_cpu()}, true).find("\033[32mpass"), std::string::npos);
}

TEST(Table, TextOfRecordsDoesNotSteerTheTerminal) {
  core::Record r = passed_on_cpu();
  r.impl = "a\033[31m";
  r.case_name = "b\r";
  EXPECT_NE(print_table({r}, false).find("vit/b? f16\n  a?[31m"), std::string::npos);
}

}  // namespace
}  // namespace attest::reports
