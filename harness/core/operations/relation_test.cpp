// Relations leave numbers where the declared arithmetic can hold them.
#include "core/operations/relation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/operations/deformable/testing/deformable_cases.hpp"
#include "core/operations/linear/testing/linear_cases.hpp"
#include "core/operations/softmax/arithmetic.hpp"
#include "core/operations/softmax/testing/make_case.hpp"
#include "core/operations/softmax_backward/backward_arithmetic.hpp"
#include "core/operations/softmax_backward/testing/backward_cases.hpp"

namespace attest::core {
namespace {

void set_all(const Tensors& tensors, int32_t role, double value) {
  const Tensor& x = tensors[size_t(role)];
  for (int64_t n = 0; n < element_count(x.spec); ++n) store(x.data, x.spec.dtype, n, value);
}

// What value-scale multiplies values of `value` by for an implementation of that arithmetic; 0: it
// does not apply.
double value_factor(const Problem& problem, const Tensors& inputs, const Arithmetic& arithmetic) {
  const TensorSpec& spec = inputs[ATTEST_V].spec;
  const double before = load(inputs[ATTEST_V].data, spec.dtype, 0);
  std::vector<std::vector<char>> memory(ATTEST_ROLES);
  Tensors changed{};
  for (size_t role = 0; role < ATTEST_ROLES; ++role) {
    if (!inputs[role]) continue;
    memory[role].resize(size_t(extent_bytes(inputs[role].spec)));
    changed[role] = {inputs[role].spec, memory[role].data()};
  }
  double factor = 0;
  for (const auto& relation : problem.operation->relations(problem, inputs)) {
    if (relation->name() != "value-scale" || !relation->suits(arithmetic)) continue;
    EXPECT_EQ(factor, 0) << "two of them suit one arithmetic";
    relation->fill(0, changed);
    factor = load(changed[ATTEST_V].data, spec.dtype, 0) / before;
  }
  return factor;
}

double softmax_factor(double value, int64_t keys, const Arithmetic& arithmetic) {
  const testing::Case c = testing::make_case(
      "",
      [&](attest_softmax_params& p) {
        p.seq_len_q = 2;
        p.seq_len_kv = keys;
      },
      {}, ATTEST_F16);
  set_all(c.tensors, ATTEST_V, value);
  return value_factor(c.problem, c.tensors, arithmetic);
}

TEST(ValueScale, IsAsLargeAsSumsMayBe) {
  const SoftmaxArithmetic wide{.output = ATTEST_F16},
      narrow{.accumulator = ATTEST_F16, .output = ATTEST_F16};
  // 515 * 28 = 14,420: twice that fits into 65,504, four times is too close.
  EXPECT_EQ(softmax_factor(28, 515, wide), 16);
  EXPECT_EQ(softmax_factor(28, 515, narrow), 2);
  EXPECT_EQ(softmax_factor(4, 515, narrow), 16);
  EXPECT_EQ(softmax_factor(28, 1021, narrow), 0);
  // The largest number in e4m3 is 448.
  const SoftmaxArithmetic e4m3{.pv = ATTEST_F8E4M3, .output = ATTEST_F16};
  EXPECT_EQ(softmax_factor(28, 515, e4m3), 8);
  // That of O and V, whatever is declared.
  EXPECT_EQ(softmax_factor(3000, 515, wide), 8);
}

TEST(ValueScale, CountsTheStateOfLinearAttention) {
  const auto factor = [](double value, const Arithmetic& arithmetic) {
    const testing::LinearCase c({.seq_len_q = 2, .seq_len_kv = 100, .head_dim = 8}, ATTEST_F16, {});
    set_all(c.tensors, ATTEST_Q, 0);
    set_all(c.tensors, ATTEST_K, 0);
    set_all(c.tensors, ATTEST_V, value);
    return value_factor(c.problem, c.tensors, arithmetic);
  };
  Arithmetic narrow;
  narrow.stage[ATTEST_LINEAR_ACCUMULATOR].dtype = ATTEST_F16;
  // phi is 1: a state of 100 v, eight channels of it, and as much again for other orders
  EXPECT_EQ(factor(1, {}), 16);
  EXPECT_EQ(factor(1, narrow), 16);
  EXPECT_EQ(factor(8, narrow), 2);
  EXPECT_EQ(factor(40, narrow), 0);
}

// Pixels of opposite signs differ by twice their magnitude.
TEST(ValueScale, LeavesRangeForDifferencesOfPixels) {
  const auto factor = [](double value, const Arithmetic& arithmetic) {
    const testing::DeformableCase c({.seq_len_q = 2, .num_points = 4}, ATTEST_F32, {});
    set_all(c.tensors, ATTEST_WEIGHTS, 0.25);
    set_all(c.tensors, ATTEST_V, value);
    return value_factor(c.problem, c.tensors, arithmetic);
  };
  Arithmetic products, sums;
  products.stage[ATTEST_DEFORMABLE_PRODUCT].dtype = ATTEST_F16;
  sums.stage[ATTEST_DEFORMABLE_ACCUMULATOR].dtype = ATTEST_F16;
  // 2,500 * 16 = 40,000, which f16 holds. It does not hold twice as much.
  EXPECT_EQ(factor(2500, {}), 16);
  EXPECT_EQ(factor(2500, sums), 16);
  EXPECT_EQ(factor(2500, products), 8);
  EXPECT_EQ(factor(1300, products), 16);
}

// Rows of dO in sized are large: four times as much may leave the range of f16 in each of these
// stages.
TEST(ValueScale, NeedsTheRangeOfFloat32InStagesOfGradients) {
  const testing::BackwardCase c({.seq_len_q = 20}, ATTEST_F32, {"sized", 5});
  const auto count = [&](const BackwardArithmetic& arithmetic) {
    const auto relations = c.problem.operation->relations(c.problem, c.tensors);
    return std::ranges::count_if(relations, [&](const auto& relation) {
      return relation->name() == "value-scale" && relation->suits(arithmetic);
    });
  };
  EXPECT_EQ(count({}), 2);
  EXPECT_EQ(count({.operand = ATTEST_BF16, .delta = ATTEST_BF16}), 2);
  EXPECT_EQ(count({.score = ATTEST_F16}), 0);
  EXPECT_EQ(count({.product = ATTEST_F16}), 0);
  EXPECT_EQ(count({.accumulator = ATTEST_F16}), 0);
  EXPECT_EQ(count({.operand = ATTEST_F16}), 0);
  EXPECT_EQ(count({.delta = ATTEST_F16}), 0);
}

// A run whose first fill is one of these checks relations on a later one, or none.
TEST(Relations, DoNotHoldOnEveryFill) {
  for (const char* name : {"softmax", "linear", "deformable", "softmax_backward"}) {
    const Operation& operation = *find_operation(name);
    EXPECT_TRUE(operation.relations_hold_on("random")) << name;
    EXPECT_FALSE(operation.relations_hold_on("wild")) << name;
  }
  const Operation& softmax = *find_operation("softmax");
  for (const char* fill : {"wild_2", "wild_7", "top_k_wild", "wide", "subnormal"})
    EXPECT_FALSE(softmax.relations_hold_on(fill)) << fill;
  for (const char* fill : {"huge", "codebook_peaked", "rising_2"})
    EXPECT_TRUE(softmax.relations_hold_on(fill)) << fill;
  EXPECT_FALSE(find_operation("softmax_backward")->relations_hold_on("top_k_wild"));
}

}  // namespace
}  // namespace attest::core
