// Every mistake of deformable attention is found by an output that has it.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/judge/guess.hpp"
#include "core/judge/testing/emulated_outputs.hpp"
#include "core/operations/deformable/testing/deformable_cases.hpp"
#include "core/operations/mistake.hpp"

namespace attest::core {
namespace {

using testing::DeformableCase, testing::DeformableShape;

// Leaves the output of an honest float32 kernel for `problem` in the case's own output.
std::optional<std::string> guess_of(const DeformableCase& c, const Problem& problem,
                                    const Tensors& inputs) {
  emulate_deformable(problem, inputs, {}, 0, testing::all_rows(c.tensors[ATTEST_O]),
                     testing::store_into(c.tensors));
  return guess_mistake(c.problem, {}, c.tensors, c.tensors);
}

TEST(DeformableGuess, NamesEveryMistake) {
  const DeformableShape shapes[] = {
      {.num_heads = 2, .seq_len_q = 12, .num_points = 4, .levels = {{9, 14}, {5, 7}, {3, 4}}},
      {.batch = 2, .seq_len_q = 12, .num_points = 3, .levels = {{6, 11}}, .align_corners = true},
      {.seq_len_q = 40, .num_points = 1, .levels = {{8, 8}, {4, 4}}, .location_dtype = ATTEST_F32}};
  std::set<std::string> named;
  for (const DeformableShape& shape : shapes) {
    const DeformableCase c(shape, ATTEST_F32, {"random", 3});
    EXPECT_FALSE(guess_of(c, c.problem, c.tensors));
    for (const Mistake& mistake : c.problem.operation->mistakes(c.problem, c.tensors)) {
      const std::optional<std::string> guess = guess_of(c, mistake.problem, mistake.inputs);
      ASSERT_TRUE(guess) << mistake.words << " shows in no element";
      EXPECT_EQ(*guess, "it is as if " + mistake.words);
      named.insert(mistake.words);
    }
  }
  EXPECT_EQ(named.size(), 18u);
}

// Inputs with NaN and infinities, and outputs that are wrong in another way.
TEST(DeformableGuess, TakesOtherBugsForNoMistake) {
  const DeformableShape shape{
      .num_heads = 2, .seq_len_q = 12, .num_points = 4, .levels = {{9, 14}, {5, 7}}};
  for (const char* fill : {"random", "borders", "far", "wild", "alone"}) {
    const DeformableCase c(shape, ATTEST_F32, {fill, 3});
    EXPECT_FALSE(guess_of(c, c.problem, c.tensors)) << fill;
    auto* const o = static_cast<float*>(c.tensors[ATTEST_O].data);
    for (int64_t n = 0; n < element_count(c.tensors[ATTEST_O].spec); n += 3) o[n] += 0.3F;
    EXPECT_EQ(guess_mistake(c.problem, {}, c.tensors, c.tensors),
              "no known mistake gives this output")
        << fill;
  }
}

}  // namespace
}  // namespace attest::core
