// Declarations: which can be judged by, how they are printed, what --min-arithmetic refuses.
#include "core/operations/declaration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/operations/linear/linear.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/operations/softmax_backward/backward.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

std::string wrong(const Operation& operation, const std::function<void(attest_support&)>& declare) {
  attest_support support{};
  declare(support);
  return wrong_declaration(operation, support);
}

TEST(Arithmetic, OfAnEmptySupportIsFloat32) {
  const Arithmetic arithmetic = declared_arithmetic({}, ATTEST_F16);
  EXPECT_EQ(arithmetic, Arithmetic{.output = ATTEST_F16});
  EXPECT_EQ(print(softmax_operation(), arithmetic), "qk=f32,pv=f32,score=f32,prob=f32,acc=f32");
  EXPECT_EQ(print(linear_operation(), arithmetic), "features=f32,state=f32,acc=f32");
}

TEST(Arithmetic, IsPrintedWithTheOperationsWords) {
  Arithmetic arithmetic{.ways = ATTEST_P_TRUNCATED | ATTEST_FLUSHES_SUBNORMALS, .sum_chain = 64};
  arithmetic.stage[ATTEST_SOFTMAX_PROBABILITY] = {ATTEST_BF16, 0.001};
  EXPECT_EQ(print(softmax_operation(), arithmetic),
            "qk=f32,pv=f32,score=f32,prob=bf16,acc=f32,truncated,flushes,prob-rel-error=0.001,"
            "chain=64");
  EXPECT_EQ(print(linear_operation(), {.ways = ATTEST_WEIGHS_PAIRS}),
            "features=f32,state=f32,acc=f32,weighs-pairs");
}

// The names of stages in C++ and their places in attest_support.
TEST(Arithmetic, OfAnOperationNamesItsStages) {
  const SoftmaxArithmetic softmax{.qk = ATTEST_F16,
                                  .pv = ATTEST_BF16,
                                  .score = ATTEST_F64,
                                  .probability = ATTEST_F8E4M3,
                                  .accumulator = ATTEST_TF32,
                                  .output = ATTEST_F16,
                                  .ways = ATTEST_SUMS_ROUNDED_P,
                                  .exp_error = 1e-4,
                                  .sum_chain = 7};
  EXPECT_EQ(print(softmax_operation(), softmax),
            "qk=f16,pv=bf16,score=f64,prob=f8e4m3,acc=tf32,sums-rounded,prob-rel-error=0.0001,"
            "chain=7");
  EXPECT_EQ(Arithmetic(SoftmaxArithmetic::of(softmax)), Arithmetic(softmax));
  const LinearArithmetic linear{.features = ATTEST_F16,
                                .state = ATTEST_BF16,
                                .accumulator = ATTEST_TF32,
                                .output = ATTEST_BF16,
                                .ways = ATTEST_WEIGHS_PAIRS,
                                .exp_error = 1e-3,
                                .sum_chain = 3};
  EXPECT_EQ(print(linear_operation(), linear),
            "features=f16,state=bf16,acc=tf32,weighs-pairs,features-rel-error=0.001,chain=3");
  EXPECT_EQ(Arithmetic(LinearArithmetic::of(linear)), Arithmetic(linear));
}

TEST(Declaration, ThatCannotBeJudgedByIsNamed) {
  const Operation &softmax = softmax_operation(), &linear = linear_operation();
  EXPECT_EQ(wrong(softmax, [](auto&) {}), "");
  EXPECT_EQ(wrong(softmax,
                  [](auto& support) {
                    support.stage[ATTEST_SOFTMAX_PROBABILITY] = {ATTEST_BF16, 0x1p-8f};
                  }),
            "");
  EXPECT_THAT(wrong(softmax, [](auto& s) { s.stage[ATTEST_SOFTMAX_ACCUMULATOR].dtype = 77; }),
              HasSubstr("stage acc is 77"));
  EXPECT_THAT(
      wrong(softmax, [](auto& s) { s.stage[ATTEST_SOFTMAX_ACCUMULATOR].dtype = ATTEST_I32; }),
      HasSubstr("stage acc is"));
  for (const float error : {0.01f, -1e-3f, std::nanf(""), std::numeric_limits<float>::infinity()})
    EXPECT_THAT(
        wrong(softmax, [&](auto& s) { s.stage[ATTEST_SOFTMAX_PROBABILITY].rel_error = error; }),
        HasSubstr("rel_error of stage prob is"));
  EXPECT_THAT(wrong(softmax, [](auto& s) { s.stage[ATTEST_SOFTMAX_QK].rel_error = 0x1p-10f; }),
              HasSubstr("stage qk is 0.0009765625, where no function is computed"));
  EXPECT_THAT(wrong(softmax, [](auto& s) { s.sum_chain = -1; }), HasSubstr("sum_chain is -1"));
  // Stages and ways are the operation's own.
  EXPECT_THAT(
      wrong(linear, [](auto& s) { s.stage[ATTEST_SOFTMAX_PROBABILITY].dtype = ATTEST_BF16; }),
      HasSubstr("stage[3] is declared, which linear does not have"));
  EXPECT_THAT(wrong(softmax, [](auto& s) { s.stage[ATTEST_STAGES - 1].rel_error = 0x1p-10f; }),
              HasSubstr("stage[15] is declared"));
  EXPECT_THAT(wrong(linear, [](auto& s) { s.arithmetic = ATTEST_SUMS_ROUNDED_P; }),
              HasSubstr("arithmetic has bits 0x40000, which linear does not have"));
  EXPECT_EQ(wrong(linear, [](auto& s) { s.arithmetic = ATTEST_FLUSHES_SUBNORMALS; }), "");
}

std::string refused(const Operation& operation, const Arithmetic& arithmetic, const char* least) {
  return falls_short(operation, arithmetic, parse_min_arithmetic(least, all_operations()));
}

TEST(MinArithmetic, RefusesWhatIsCoarser) {
  const SoftmaxArithmetic half{.accumulator = ATTEST_F16};
  EXPECT_EQ(refused(softmax_operation(), half, "acc=f32"), "declares acc=f16, less than acc=f32");
  EXPECT_EQ(refused(softmax_operation(), half, "acc=f16,qk=f32"), "");
  EXPECT_EQ(refused(softmax_operation(), SoftmaxArithmetic{.exp_error = 1e-3}, "prob=f32"),
            "declares an exp with an error of 0.001, less than prob=f32");
  EXPECT_EQ(refused(softmax_operation(), SoftmaxArithmetic{.exp_error = 1e-3}, "prob=bf16"), "");
  EXPECT_EQ(refused(softmax_operation(), SoftmaxArithmetic{.exp_error = 3e-7}, "prob=f32"), "");
}

// One line may name the stages of several operations. Softmax's words of operands are understood of
// linear attention as well.
TEST(MinArithmetic, SaysNothingOfOperationsWithoutTheStage) {
  const LinearArithmetic half{.features = ATTEST_F16, .state = ATTEST_BF16};
  EXPECT_EQ(refused(linear_operation(), half, "prob=f32,score=f32"), "");
  EXPECT_EQ(refused(linear_operation(), half, "features=f32"),
            "declares features=f16, less than features=f32");
  EXPECT_EQ(refused(linear_operation(), half, "qk=f32"), "declares features=f16, less than qk=f32");
  EXPECT_EQ(refused(linear_operation(), half, "pv=f32"), "declares state=bf16, less than pv=f32");
  EXPECT_EQ(refused(softmax_operation(), SoftmaxArithmetic{.qk = ATTEST_F16}, "features=f32"), "");
}

// The operands of the gradients are two stages.
TEST(MinArithmetic, HoldsEveryStageThatAWordNames) {
  const Operation& gradients = softmax_backward_operation();
  EXPECT_EQ(refused(gradients, BackwardArithmetic{.product = ATTEST_F16}, "pv=f32"),
            "declares product=f16, less than pv=f32");
  EXPECT_EQ(refused(gradients, BackwardArithmetic{.operand = ATTEST_BF16}, "pv=f32"),
            "declares operand=bf16, less than pv=f32");
  EXPECT_EQ(refused(gradients, BackwardArithmetic{.operand = ATTEST_BF16}, "qk=f32,delta=f32"), "");
}

TEST(MinArithmetic, NamesWhatIsNoWord) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse_min_arithmetic(text, all_operations());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(
      message("sum=f32"),
      HasSubstr("--min-arithmetic: 'sum=f32': a word of qk, pv, score, prob, acc, features, "
                "state, location, weight, product, operand, delta, then = and a dtype"));
  EXPECT_THAT(message("acc=f33"), HasSubstr("'acc=f33': the dtype must be"));
  EXPECT_THAT(message("acc"), HasSubstr("the dtype must be"));
  EXPECT_THAT(message("acc=i32"), HasSubstr("the dtype must be"));
}

TEST(ParseArithmetic, KnowsTheWordsOfOneOperation) {
  const SoftmaxArithmetic expected{.score = ATTEST_F16, .probability = ATTEST_BF16};
  EXPECT_EQ(parse_arithmetic("prob=bf16,score=f16", softmax_operation(), "x"),
            Arithmetic(expected));
  EXPECT_EQ(parse_arithmetic("", softmax_operation(), "x"), Arithmetic{});
  EXPECT_EQ(parse_arithmetic("pv=f16", linear_operation(), "x"),
            Arithmetic(LinearArithmetic{.state = ATTEST_F16}));
  EXPECT_THROW(parse_arithmetic("prob=f16", linear_operation(), "x"), Error);
}

TEST(ParseArithmetic, ReadsWhatIsPrinted) {
  const SoftmaxArithmetic softmax{.qk = ATTEST_F16,
                                  .probability = ATTEST_BF16,
                                  .ways = ATTEST_SUMS_ROUNDED_P | ATTEST_NONDETERMINISTIC,
                                  .exp_error = 1e-4,
                                  .sum_chain = 7};
  EXPECT_EQ(parse_arithmetic(print(softmax_operation(), softmax), softmax_operation(), "x"),
            Arithmetic(softmax));
  const LinearArithmetic linear{.ways = ATTEST_WEIGHS_PAIRS | ATTEST_FLUSHES_SUBNORMALS};
  EXPECT_EQ(parse_arithmetic(print(linear_operation(), linear), linear_operation(), "x"),
            Arithmetic(linear));
  for (const char* text :
       {"chain=0", "chain=7x", "chain=", "qk-rel-error=1e-4", "prob-rel-error=0.1",
        "prob-rel-error=-1", "weighs-pairs", "prob-rel-error=1e-4x"})
    EXPECT_THROW(parse_arithmetic(text, softmax_operation(), "x"), Error) << text;
}

}  // namespace
}  // namespace attest::core
