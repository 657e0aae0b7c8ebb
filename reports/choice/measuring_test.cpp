// Commands that measure what the records of a choice do not tell.
#include "reports/choice/measuring.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/choice/choice_text.hpp"
#include "reports/testing/choices.hpp"

namespace attest::reports {
namespace {

using ::testing::HasSubstr;

TEST(Measuring, ListsWhatTheMachineRanElsewhere) {
  const auto named = [](const char* impl, const char* name, int32_t threads = 2) {
    return taken([&](Record& r) {
      r.impl = impl;
      r.case_name = name;
      r.threads = threads;
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
            "--output more_vit_x_f16_c_4.jsonl");
  const Answer answer{problem, choose(problem, {}, {})};
  EXPECT_THAT(print_choice(answer, {}, false), HasSubstr("not measured here: c\n"));
  EXPECT_EQ(choices_json({answer}, {}, {})["choices"][0]["not_measured"][0]["impl"], "c");
  input.runs[0].header.command = "attest run share/attest/suites/vit.json";
  EXPECT_EQ(subject_of(input.runs[0], input.runs[0].records[0]), "vit --case x --dtype f16");
}

// attest repro writes no records.
TEST(Measuring, TheCommandOfASkippedCaseMeasuresIt) {
  Input input;
  input.runs = {attest::testing::file({skipped(40e9)})};
  const ProblemRecords problem = cases(input).at(0);
  EXPECT_EQ(command_of(problem, {}, choose(problem, {}, {}).candidates[0]),
            "attest run vit --case n1000 --dtype f16 --impl a --threads 2 --timeout 80s "
            "--case-limit 320s --output more_vit_n1000_f16_a_2.jsonl");
  Record for_memory = skipped(1);
  for_memory.outcome.code = core::ReasonCode::kSkippedMemory;
  for_memory.repro = "attest repro --impl a --threads 2 --memory 2GiB 'softmax'";
  EXPECT_EQ(options_of(for_memory), "--impl a --threads 2");
  for_memory.outcome.code = core::ReasonCode::kFailTolerance;
  EXPECT_EQ(options_of(for_memory), "--impl a --threads 2 --memory 2GiB");
  core::Results& run = input.runs[0];
  run.header.command = "attest run 'my suites/vit.json'";
  EXPECT_EQ(subject_of(run, run.records[0]), "'my suites/vit.json' --case n1000 --dtype f16");
  run.header.command = "attest run vit";
  Record globs = skipped(1);
  globs.case_name = "a*b,c?[d]\\e";
  EXPECT_EQ(subject_of(run, globs), "vit --case 'a\\*b?c\\?\\[d]\\\\e' --dtype f16");
  globs.suite.clear();
  globs.impl = "wie\xc3\x9f $x";
  input.runs = {attest::testing::file({globs})};
  const ProblemRecords hard = cases(input).at(0);
  EXPECT_THAT(command_of(hard, {}, choose(hard, {}, {}).candidates[0]),
              ::testing::EndsWith(" --output more_a-b-c--d--e_softmax-dtype-f16-seq_len_q-1000-"
                                  "head_dim-64_f16_wie---x_2.jsonl"));
  Record hostile = skipped(1);
  hostile.case_name = "a'; b";
  EXPECT_EQ(subject_of(input.runs[0], hostile), "vit --case 'a'\\''; b' --dtype f16");
  hostile.suite.clear();
  EXPECT_EQ(subject_of(input.runs[0], hostile), "'softmax dtype=f16 seq_len_q=1000 head_dim=64'");
  hostile.repro = "attest run --vectors v.npz --case c --impl a --threads 2";
  EXPECT_EQ(subject_of(input.runs[0], hostile), "--vectors v.npz --case c");
  EXPECT_EQ(options_of(hostile), "--impl a --threads 2 --case-limit 1s");
}

TEST(Measuring, TheCommandForASizeThatWasNotMeasuredMeasuresIt) {
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
            "attest run vit --case n4000 --dtype f16 --impl a --threads 2 "
            "--output more_vit_n4000_f16_a_2.jsonl");
  EXPECT_EQ(command_at(5000),
            "attest run 'softmax dtype=f16 seq_len_q=5000 head_dim=64' --impl a --threads 2 "
            "--output more_vit_n4000_f16_5000_a_2.jsonl");
}

}  // namespace
}  // namespace attest::reports
