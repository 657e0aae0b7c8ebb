// attest list --events as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Events : public testing::FolderTest {
 protected:
  // 40 keys, judged on one fill that is named, so that what other fills do changes nothing here.
  Outcome run(const std::string& keys, const std::string& options = "") const {
    std::ofstream(folder_ / "s.json")
        << R"({"name": "s", "summary": "x", "cases": [{"name": "a", "operation": "softmax",
      "dtypes": ["f32", "f16"],      "seq_len_q": 40, "head_dim": 16, "fills": ["huge"])"
        << keys << "}]}";
    return attest("list --events s.json " + options);
  }
};

TEST_F(Events, AreCountedByGroupAndFill) {
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.code, 1) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("s/a f32: "), HasSubstr("s/a f16: "),
                                  HasSubstr("\n2 of 2 problems miss an event without giving a "
                                            "reason; --verbose shows the events of each fill\n"),
                                  Not(HasSubstr("can occur"))))
      << "in short";
  EXPECT_THAT(run("", "--verbose").text, HasSubstr("can occur  huge  any fill"));
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("missed lane/16: lane/16/0 .. 15\n"),
                                  HasSubstr("missed heavy: heavy\n")));
  EXPECT_THAT(outcome.text,
              AllOf(Not(HasSubstr("missed logit")), Not(HasSubstr("cannot occur ("))));
  EXPECT_THAT(run("", "--verbose --dtype f32").text,
              AllOf(HasSubstr("cannot occur (there is no mask): hidden/mask/16/first"),
                    Not(HasSubstr("s/a f16"))));
  EXPECT_THAT(run("", "--format markdown").text,
              AllOf(HasSubstr("## s/a f32: "), HasSubstr("| logit | 2 | 2 | 2 |")));
}

TEST_F(Events, AreMissedWithAReasonOrNotAtAll) {
  const Outcome excused = run(R"(, "misses": {"*": "one fill"})");
  EXPECT_EQ(excused.code, 0) << excused.text;
  EXPECT_THAT(excused.text, AllOf(HasSubstr("missed, and said so (one fill): rise/16/"),
                                  ::testing::ContainsRegex(" and [0-9]+ more\n")));
  const Outcome stale = run(R"(, "misses": {"*": "one fill", "logit/+*": "out of date"})");
  EXPECT_EQ(stale.code, 1) << stale.text;
  EXPECT_THAT(stale.text, HasSubstr("s/a: logit/+* is not missed any more"));
  EXPECT_EQ(run(R"(, "misses": {"*": "one fill", "logit/+*": "out of date"})", "--dtype f32").code,
            0)
      << "not all of the case was looked at";
  EXPECT_EQ(run(R"(, "misses": {"equal/*": "40 keys"})").code, 64);
}

TEST_F(Events, OfOneProblem) {
  const Outcome outcome =
      attest("list --events --for 'softmax seq_len_q=20 head_dim=16 num_heads=2'");
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("softmax dtype=f32 num_heads=2 seq_len_q=20 head_dim=16: "),
                    HasSubstr("rise/16")));
  const Outcome linear = attest("list --events --for 'linear seq_len_q=20 head_dim=16'");
  EXPECT_EQ(linear.code, 0) << linear.text;
  EXPECT_THAT(linear.text, AllOf(HasSubstr("normaliser"), Not(HasSubstr("missed"))));
  const Outcome deformable = attest(
      "list --events --for 'deformable seq_len_q=61 head_dim_v=16 num_points=4 level_height_0=9 "
      "level_width_0=14'");
  EXPECT_EQ(deformable.code, 0) << deformable.text;
  EXPECT_THAT(deformable.text, AllOf(HasSubstr("border"), Not(HasSubstr("missed"))));
  const Outcome gradients =
      attest("list --events --for 'softmax_backward seq_len_q=61 head_dim=16'");
  EXPECT_EQ(gradients.code, 0) << gradients.text;
  EXPECT_THAT(gradients.text, AllOf(HasSubstr("delta"), Not(HasSubstr("missed"))));
}

TEST_F(Events, OfSingleFills) {
  const Outcome outcome = run("", "--fill huge,codebook --dtype f32");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(
      outcome.text,
      AllOf(::testing::StartsWith("s/a f32\n"), HasSubstr("  huge causes logit: logit/+30000"),
            HasSubstr("  codebook causes rise/16: "), Not(HasSubstr("codebook causes logit")),
            Not(HasSubstr("missed"))));
  const Outcome one = attest("list --events --for 'softmax seq_len_q=40 head_dim=16' --fill wild");
  EXPECT_EQ(one.code, 0) << one.text;
  EXPECT_THAT(one.text, AllOf(HasSubstr("  wild causes nan: "), Not(HasSubstr("  huge"))));
  const Outcome unknown = run("", "--fill hug");
  EXPECT_EQ(unknown.code, 64);
  EXPECT_THAT(unknown.text, HasSubstr("--fill hug: matches none of: "));
  EXPECT_EQ(attest("list --fill huge smoke").code, 64) << "it goes with --events";
}

TEST_F(Events, WordsThatMakeNoSense) {
  EXPECT_EQ(attest("list --events").code, 64);
  EXPECT_EQ(attest("list --verbose").code, 64);
  EXPECT_EQ(run("", "--case b").code, 64);
  EXPECT_EQ(run("", "--format html").code, 64);
}

}  // namespace
}  // namespace attest::cli
