// What a run did not judge of all that the tables declare.
#include "core/session/coverage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/operations/operation.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

const Implementation kFlash{
    .name = "flash",
    .operation = find_operation("softmax")->number(),
    .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16),
    .features = ATTEST_WITH_CAUSAL | ATTEST_WITH_LSE | ATTEST_WITH_GQA,
};

Record record_of(const std::string& spec, ReasonCode code = ReasonCode::kPass,
                 const std::string& impl = "flash") {
  Record made;
  made.impl = impl;
  made.operation = spec.substr(0, spec.find(' '));
  made.spec = spec;
  made.outcome = {code, code == ReasonCode::kPass ? "" : "a reason"};
  return made;
}

NeverJudged left_of(const std::vector<Record>& records) {
  return never_judged({{.plugin = nullptr, .implementation = &kFlash, .own_name = "flash"}},
                      records);
}

TEST(Coverage, NamesTheFeaturesAndDtypesThatNoRecordHad) {
  EXPECT_THAT(left_of({record_of("softmax seq_len_q=8 head_dim=16 causal")}),
              ElementsAre(Pair("flash", ElementsAre("GQA", "LSE", "f16"))));
  EXPECT_THAT(left_of({record_of("softmax seq_len_q=8 head_dim=16 causal"),
                       record_of("softmax dtype=f16 num_heads=4 num_kv_heads=2 seq_len_q=8 "
                                 "head_dim=16 lse")}),
              IsEmpty());
}

TEST(Coverage, AFailureWasJudgedAndARefusalWasNot) {
  const std::string all = "softmax num_heads=4 num_kv_heads=2 seq_len_q=8 head_dim=16 causal lse";
  for (const ReasonCode judged :
       {ReasonCode::kPass, ReasonCode::kFailTolerance, ReasonCode::kSuspectZeros})
    EXPECT_THAT(left_of({record_of(all, judged)}), ElementsAre(Pair("flash", ElementsAre("f16"))));
  for (const ReasonCode unjudged : {ReasonCode::kUnsupportedQuery, ReasonCode::kSkippedMemory,
                                    ReasonCode::kCrashSignal, ReasonCode::kTimeoutRun})
    EXPECT_THAT(left_of({record_of(all, unjudged)}),
                ElementsAre(Pair("flash", ElementsAre("GQA", "CAUSAL", "LSE", "f32", "f16"))));
}

// The records of one implementation say nothing of another.
TEST(Coverage, CountsForTheImplementationOfTheRecordAlone) {
  const std::vector<Record> records{
      record_of("softmax dtype=f16 num_heads=4 num_kv_heads=2 seq_len_q=8 head_dim=16 causal lse",
                ReasonCode::kPass, "other"),
      record_of("softmax seq_len_q=8 head_dim=16")};
  EXPECT_THAT(left_of(records),
              ElementsAre(Pair("flash", ElementsAre("GQA", "CAUSAL", "LSE", "f16"))));
}

TEST(Coverage, LeavesOutWhatNoCaseWasFor) {
  EXPECT_THAT(left_of({}), IsEmpty());
  EXPECT_THAT(left_of({record_of("softmax seq_len_q=8 head_dim=16", ReasonCode::kPass, "other")}),
              IsEmpty());
  EXPECT_THAT(left_of({record_of("linear seq_len_q=8 head_dim=16", ReasonCode::kUnsupportedTable)}),
              IsEmpty());
}

TEST(Coverage, ALineThatIsNoProblemSaysNothing) {
  EXPECT_THAT(left_of({record_of("softmax of the future")}),
              ElementsAre(Pair("flash", ElementsAre("GQA", "CAUSAL", "LSE", "f32", "f16"))));
}

TEST(Coverage, IsALineForEachImplementation) {
  EXPECT_EQ(print_never_judged({{"a", {"GQA", "f16"}}, {"b", {"LSE"}}}),
            "a: declared, never judged: GQA, f16\nb: declared, never judged: LSE\n");
  EXPECT_EQ(print_never_judged({}), "");
}

}  // namespace
}  // namespace attest::core
