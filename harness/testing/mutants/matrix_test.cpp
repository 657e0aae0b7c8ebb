// What follows from the rows of a matrix: which check is worth what, and that rows survive being
// written.
#include "testing/mutants/matrix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "testing/mutants/trial.hpp"

namespace attest::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

MatrixRow row(const std::string& mutant, const std::string& outcome,
              const std::vector<std::string>& checks, int64_t tokens = 61) {
  return {.mutant = "mutant_" + mutant,
          .family = "plain",
          .dtype = "f16",
          .tokens = tokens,
          .outcome = outcome,
          .checks = checks,
          .by = std::vector<std::string>(checks.size(), "o")};
}

TEST(Matrix, ACheckIsWorthWhatItAloneSees) {
  MatrixRow first_only = row("late", "caught", {"random"});
  first_only.all_checks = false;  // nobody knows what others would have said
  const auto worth =
      worth_of_checks({row("a", "caught", {"random", "codebook"}), row("b", "caught", {"codebook"}),
                       first_only, row("c", "equivalent", {}), row("d", "got away", {})});
  ASSERT_EQ(worth.size(), 2u);
  EXPECT_EQ(worth.at("random").caught, 1);
  EXPECT_EQ(worth.at("random").alone, 0);
  EXPECT_EQ(worth.at("codebook").caught, 2);
  EXPECT_EQ(worth.at("codebook").mutants_alone, std::set<std::string>{"b"});
}

TEST(Matrix, PrintsWhereEachCheckSees) {
  MatrixRow other = row("", "caught", {"crash:signal"});
  other.mutant = "hostile_abort";
  const std::string text =
      print_matrix({{row("a", "caught", {"random", "codebook"}),
                     row("a", "caught", {"codebook"}, 197), row("a", "caught", {"codebook"}, 4099),
                     row("d", "got away", {}), row("e", "equivalent", {}), other},
                    {},
                    12});
  EXPECT_THAT(text, HasSubstr("1 of 3 mutants are caught; 3 of 4 trials"));
  EXPECT_THAT(text, HasSubstr("| a | 3 of 3 | 61 - 4099 | 61 |"));
  EXPECT_THAT(text, HasSubstr("| random | 1 | 0 | none: diagnostic |"));
  EXPECT_THAT(text, HasSubstr("- d on plain, 61 tokens, f16"));
  EXPECT_THAT(text, HasSubstr("- e: plain 61\n"));
  EXPECT_THAT(text, HasSubstr("| hostile_abort | crash:signal |"));
}

TEST(Matrix, HasTheMutantsOfSteps) {
  MatrixRow step = row("", "got away", {});
  step.mutant = "step_sum_kept_last_tile_t16";
  EXPECT_THAT(print_matrix({{step}, {}, 1}), HasSubstr("| step_sum_kept_last_tile_t16 | 0 of 1 |"));
  EXPECT_EQ(escapes({step}), std::vector<std::string>{"step_sum_kept_last_tile_t16 plain f16 61"});
  step.mutant = "step_none_t16";
  step.outcome = "passes";
  EXPECT_TRUE(escapes({step}).empty());
}

TEST(Matrix, SaysWhatWasTried) {
  MatrixRow late = row("a", "caught", {"random"}, 262147);
  late.all_checks = false;
  const std::string text = print_matrix(
      {{row("a", "caught", {"random"}), row("b", "equivalent", {}), late}, {{"commit 1", 3}}, 1});
  EXPECT_THAT(text, HasSubstr("Made by commit 1: 3 trials."));
  EXPECT_THAT(text, HasSubstr("- 61 tokens: f16 (1 kinds of case)\n"));
  EXPECT_THAT(text, HasSubstr("- 262147 tokens: f16 (1 kinds of case); a mutant was done with at "
                              "the first check that saw it\n"));
}

// What the command's exit code follows from.
TEST(Matrix, TellsWhatShouldHaveBeenCaught) {
  MatrixRow twin = row("", "passes", {}), liar = twin;
  twin.mutant = "trespasser_none";
  liar.mutant = "hostile_forks";
  const std::vector<MatrixRow> rows = {row("dropped_key", "caught", {"random"}),
                                       row("dropped_key", "equivalent", {}),
                                       row("dropped_key", "got away", {}, 197), twin, liar};
  EXPECT_EQ(escapes(rows),
            (std::vector<std::string>{"mutant_dropped_key plain f16 197", "hostile_forks"}));
  // Whoever fails what is right is at fault.
  MatrixRow late = liar;
  late.mutant = "cheat_mortal";
  EXPECT_TRUE(escapes({late}).empty());
  late.outcome = "caught";
  EXPECT_TRUE(escapes({late}).empty());
  twin.outcome = "caught";
  EXPECT_EQ(escapes({twin}), std::vector<std::string>{"trespasser_none plain f16 61"});
}

// What the harness or the machine lacks is no catch.
TEST(Catches, AccuseTheImplementation) {
  using core::ReasonCode;
  const auto found = [](ReasonCode code) {
    core::Record record;
    record.fills.push_back({.fill = "random", .judgement = {.outcome = {code, ""}}});
    record.relations.push_back({.relation = "split-merge", .judgement = {.outcome = {code, ""}}});
    record.outcome = {code, ""};
    return catches(record).size();
  };
  for (const ReasonCode code : {ReasonCode::kFailTolerance, ReasonCode::kFailNan,
                                ReasonCode::kCrashSignal, ReasonCode::kErrorRuntime})
    EXPECT_EQ(found(code), 2u) << name(code);
  for (const ReasonCode code : {ReasonCode::kErrorToleranceModel, ReasonCode::kErrorGolden,
                                ReasonCode::kErrorMemory, ReasonCode::kCrashOom})
    EXPECT_EQ(found(code), 0u) << name(code);
  core::Record early;
  early.outcome = {ReasonCode::kCrashSignal, ""};
  EXPECT_EQ(catches(early).size(), 1u);
  early.outcome.code = ReasonCode::kCrashOom;
  EXPECT_EQ(catches(early).size(), 0u);
}

TEST(Matrix, SizesMissedInSomeDtypesAreInBrackets) {
  MatrixRow missed = row("a", "caught", {"codebook"});
  missed.dtype = "f32";
  const std::string text =
      print_matrix({{row("a", "caught", {"random", "codebook"}), missed}, {}, 1});
  EXPECT_THAT(text, HasSubstr("| a | 2 of 2 | 61 | (61) |"));
}

TEST(Matrix, RowsSurviveBeingWritten) {
  MatrixRow wanted = row("a", "caught", {"random", "codebook"}, 262147);
  wanted.all_checks = false;
  wanted.worst = 0.5;
  const MatrixRow read = row_of_line(to_line(wanted));
  EXPECT_EQ(to_line(read), to_line(wanted));
  EXPECT_EQ(read.key(), wanted.key());
  EXPECT_EQ(read.all_checks, false);
}

TEST(Matrix, RoundsCountAsTheirFill) {
  const std::string path = ::testing::TempDir() + "/rounds.jsonl";
  MatrixRow made = row("a", "caught", {"random", "rising_2", "rising_10", "rising"});
  made.by = {"o", "lse", "o", "o"};
  std::ofstream(path) << to_line(made) << '\n';
  const MatrixRow read = read_rows(path).rows.at(0);
  EXPECT_EQ(read.checks, (std::vector<std::string>{"random", "rising"}));
  EXPECT_EQ(read.by, (std::vector<std::string>{"o", "lse"}));
}

// The published rows: a check that alone sees nothing is either named here as diagnostic, or not
// worth a run.
TEST(Matrix, EveryPublishedCheckIsWorthItsTime) {
  // What these alone see is planted elsewhere: closed_form/fills_test (closed forms),
  // relations_test, state_test (what repetition is based on), plugins without mutants for
  // deformable attention (alone). Relations that permute or repeat show bugs that plan-reuse and
  // changed-tensor see by their goldens, too, but not the cheats that only a second run of one
  // problem shows.
  const std::set<std::string> diagnostic = {"alone",
                                            "codebook",
                                            "codebook_peaked",
                                            "relation base",
                                            "relation batch-repetition",
                                            "relation head-repetition",
                                            "relation hidden-values",
                                            "relation key-permutation",
                                            "relation query-permutation",
                                            "relation repetition"};
  const std::vector<MatrixRow> rows =
      read_rows(ATTEST_SOURCE_DIR "/reports/published/mutants.jsonl").rows;
  const auto worth = worth_of_checks(rows);
  EXPECT_GE(worth.size(), 5u);
  for (const auto& [check, one] : worth)
    EXPECT_EQ(one.alone == 0, diagnostic.count(check) > 0) << check;
}

}  // namespace
}  // namespace attest::testing
