#include "core/judge/reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/operations/softmax/softmax.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

/// One head, two queries, two keys: outputs are averages of (1, 2) and (3, 4).
struct Small {
  Problem problem = blank_problem(softmax_operation(), ATTEST_F32);
  std::vector<float> q{0, 0, 100, 0}, k{1, 0, -1, 0}, v{1, 2, 3, 4}, o{2, 3, 1, 2};
  Tensors tensors{};

  Small() {
    problem.as<attest_softmax_params>().seq_len_q = 2;
    problem.as<attest_softmax_params>().head_dim = 2;
    finish_problem(problem);
    for (const auto& [role, data] : {std::pair(ATTEST_Q, &q), std::pair(ATTEST_K, &k),
                                     std::pair(ATTEST_V, &v), std::pair(ATTEST_O, &o)})
      tensors[size_t(role)] = {problem.tensor[size_t(role)], data->data()};
  }
  Judgement compare(double tolerance = 1e-6, bool partial = false) const {
    return compare_golden(problem, *problem.operation->golden(problem, {"given", 0}, tensors),
                          ATTEST_O, tensors[ATTEST_O], tolerance, partial);
  }
};

TEST(Reference, AgreesWithinTheToleranceAndNotBeyond) {
  Small small;
  EXPECT_EQ(small.compare().outcome.verdict(), Verdict::kPass) << small.compare().outcome.reason;
  EXPECT_EQ(small.compare().exact_elements, 4);
  small.o[3] = 2 + 1e-5f;
  const Judgement j = small.compare();
  EXPECT_EQ(j.outcome.code, ReasonCode::kErrorReference);
  EXPECT_THAT(j.outcome.reason, HasSubstr("o[0,0,1,1] is 2.00001"));
  EXPECT_THAT(j.worst->index, ::testing::ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(small.compare(1e-4).outcome.verdict(), Verdict::kPass);
  small.o[3] = NAN;
  EXPECT_EQ(small.compare(1e-4).outcome.code, ReasonCode::kErrorReference);
}

// What a partial output leaves out is not compared; where that is all of it, nothing was.
TEST(Reference, APartialOutputHasToHaveSomething) {
  Small small;
  small.o[3] = NAN;
  EXPECT_EQ(small.compare(1e-6, true).outcome.verdict(), Verdict::kPass);
  EXPECT_EQ(small.compare(1e-6, true).exact_elements, 3);
  for (float& o : small.o) o = NAN;
  EXPECT_EQ(small.compare(1e-6, true).outcome.code, ReasonCode::kErrorReference);
}

/// The first row said exactly, both rows held to a range; in either order.
struct Halves final : Golden {
  std::vector<double> value{2, 3}, sigma{0, 0}, low{1, 1}, high{5, 5};
  std::vector<int64_t> first{0}, both{0, 1};
  bool sweep_first = false;

  void expect(const Arithmetic&, const Sink& sink) const override {
    const Expected exact{.role = ATTEST_O,
                         .leading = 3,
                         .width = 2,
                         .rows = first,
                         .value = value.data(),
                         .sigma = sigma.data()};
    const Expected swept{.role = ATTEST_O,
                         .leading = 3,
                         .width = 2,
                         .rows = both,
                         .shared = true,
                         .low = low.data(),
                         .high = high.data()};
    sink(sweep_first ? swept : exact);
    sink(sweep_first ? exact : swept);
  }
  int64_t distinct_rows() const override { return 1; }
  std::string method() const override { return "halves"; }
};

TEST(Reference, WhatWasOnlySweptIsNotCountedAsExact) {
  const Small small;
  for (const bool sweep_first : {false, true}) {
    Halves golden;
    golden.sweep_first = sweep_first;
    const Judgement j =
        compare_golden(small.problem, golden, ATTEST_O, small.tensors[ATTEST_O], 1e-6);
    EXPECT_EQ(j.outcome.verdict(), Verdict::kPass) << j.outcome.reason;
    EXPECT_EQ(j.exact_elements, 2) << sweep_first;
    EXPECT_EQ(j.swept_elements, 2) << sweep_first;
    golden.value[1] = 3.5;  // within the range, but not what the exact value is
    EXPECT_EQ(
        compare_golden(small.problem, golden, ATTEST_O, small.tensors[ATTEST_O], 1e-6).outcome.code,
        ReasonCode::kErrorReference);
    golden.value[1] = 3;
    golden.low[1] = 2.5;  // nobody says more of the second row than that
    EXPECT_EQ(
        compare_golden(small.problem, golden, ATTEST_O, small.tensors[ATTEST_O], 1e-6).outcome.code,
        ReasonCode::kErrorReference);
  }
}

TEST(Reference, InfinitiesAndNanMustBeTheSame) {
  std::vector<double> stored{1, INFINITY, -INFINITY, NAN};
  const std::vector<int64_t> dims{4};
  const Tensor expected{dense_tensor(ATTEST_F64, ATTEST_READ, dims), stored.data()};
  EXPECT_EQ(compare_values(std::vector<double>{1, INFINITY, -INFINITY, NAN}, expected, "y", 1e-6)
                .outcome.verdict(),
            Verdict::kPass);
  for (const std::vector<double>& wrong : {std::vector<double>{NAN, INFINITY, -INFINITY, NAN},
                                           {1, -INFINITY, -INFINITY, NAN},
                                           {1, 1e300, -INFINITY, NAN},
                                           {1, INFINITY, -INFINITY, 0},
                                           {1, INFINITY, -INFINITY}})
    EXPECT_EQ(compare_values(wrong, expected, "y", 1e-6).outcome.code, ReasonCode::kErrorReference);
}

}  // namespace
}  // namespace attest::core
