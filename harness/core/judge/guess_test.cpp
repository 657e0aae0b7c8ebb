// Every mistake is found by an output that has it, and outputs that are wrong in other ways are not
// taken for one.
#include "core/judge/guess.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <numeric>

#include "core/judge/check.hpp"
#include "core/judge/testing/emulated_outputs.hpp"
#include "core/operations/mistake.hpp"
#include "core/operations/softmax/sigma/emulate.hpp"
#include "core/operations/softmax/testing/make_case.hpp"
#include "core/operations/softmax_backward/testing/backward_cases.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using testing::Case;
using Params = attest_softmax_params;

// Leaves the output of an honest float32 kernel for `problem` in the case's own output, each row
// multiplied by its factor, if there are any.
void emulate_for(const Case& c, const Problem& problem, const Tensors& inputs,
                 const std::vector<double>& row_factors = {}) {
  Tensors tensors = inputs;
  tensors[ATTEST_O] = c.tensors[ATTEST_O];
  Problem main = problem;
  main.tensor[ATTEST_LSE] = {};
  emulate_softmax(main, tensors, {}, {}, testing::all_rows(c.tensors[ATTEST_O]),
                  testing::store_into(c.tensors, [](int32_t, double value) { return value; }));
  const int64_t width = c.tensors[ATTEST_O].spec.dim[3];
  auto* const values = static_cast<float*>(c.tensors[ATTEST_O].data);
  for (size_t n = 0; n < row_factors.size() * size_t(width); ++n)
    values[n] *= float(row_factors[n / size_t(width)]);
}

std::optional<std::string> guess_of(const Case& c) {
  return guess_mistake(c.problem, {}, c.tensors, c.tensors);
}

constexpr const char* kNone = "no known mistake gives this output";

std::vector<Case> cases() {
  std::vector<Case> made;
  made.push_back(testing::make_case("plain", [](Params& p) { p.seq_len_kv = 150; }));
  made.push_back(testing::make_case("cross_causal", [](Params& p) {
    p.seq_len_kv = 70;
    p.window_right = 0;
    p.diagonal = ATTEST_BOTTOM_RIGHT;
  }));
  made.push_back(testing::make_case("window", [](Params& p) {
    p.seq_len_kv = 40;
    p.window_left = 9;
    p.window_right = 3;
    p.diagonal_offset = 2;
  }));
  made.push_back(testing::make_case("heads",
                                    [](Params& p) {
                                      p.num_heads = 6;
                                      p.num_kv_heads = 3;
                                      p.softcap = 2;
                                    },
                                    {ATTEST_BIAS, ATTEST_LSE}));
  made.push_back(testing::make_case("mask", [](Params& p) { p.batch = 2; },
                                    {ATTEST_MASK, ATTEST_ALIBI_SLOPES}));
  made.push_back(testing::make_case("sinks", [](Params&) {}, {ATTEST_SINKS}));
  made.push_back(
      testing::make_case("lengths", [](Params& p) { p.batch = 3; }, {ATTEST_SEQ_LENS_KV}));
  return made;
}

TEST(Guess, NamesEveryMistake) {
  for (const Case& c : cases()) {
    for (const Mistake& mistake : c.problem.operation->mistakes(c.problem, c.tensors)) {
      SCOPED_TRACE(c.name + ": " + mistake.words);
      emulate_for(c, mistake.problem, mistake.inputs, mistake.row_factors);
      const std::optional<std::string> guess = guess_of(c);
      ASSERT_TRUE(guess) << "the mistake shows in no element";
      EXPECT_EQ(*guess, "it is as if " + mistake.words);
    }
  }
}

// Rows that would see no key are often left as they were.
TEST(Guess, AllowsForAFewRows) {
  const Case c = testing::make_case("causal", [](Params& p) { p.window_right = 0; });
  for (const Mistake& mistake : c.problem.operation->mistakes(c.problem, c.tensors)) {
    if (!mistake.words.starts_with("the diagonal were one key further to the left")) continue;
    emulate_for(c, mistake.problem, mistake.inputs);
    auto* const values = static_cast<float*>(c.tensors[ATTEST_O].data);
    const auto spoil_row = [&](int64_t row) { std::fill_n(values + row * 8, 8, NAN); };
    spoil_row(0);
    spoil_row(37);  // row 0 of the second head
    EXPECT_EQ(guess_of(c), "it is as if " + mistake.words + ", but for 2 of 74 rows");
    for (int64_t row = 1; row < 4; ++row) spoil_row(row);
    EXPECT_EQ(guess_of(c), kNone) << "5 rows of 74 are too many";
  }
}

// Factors that no list has.
TEST(Guess, FindsTheFactorOnTheScale) {
  for (const Case& c : cases())
    for (const double factor : {0.37, 0.93, 1.41, 5.3}) {
      SCOPED_TRACE(fmt::format("{} {}", c.name, factor));
      Problem changed = c.problem;
      const double scale = double(changed.as<Params>().softmax_scale) * factor;
      changed.as<Params>().softmax_scale = float(scale);
      emulate_for(c, changed, c.tensors);
      EXPECT_EQ(guess_of(c),
                fmt::format("it is as if softmax_scale were {:.4g} ({:.4g} of what it is)", scale,
                            factor));
    }
}

TEST(Guess, FindsTheFactorOnTheOutput) {
  for (const Case& c : cases())
    for (const float factor : {0.75F, 1.001F, -1.F, 64.F}) {
      SCOPED_TRACE(fmt::format("{} {}", c.name, factor));
      emulate_for(c, c.problem, c.tensors);
      auto* const values = static_cast<float*>(c.tensors[ATTEST_O].data);
      for (int64_t i = 0; i < element_count(c.tensors[ATTEST_O].spec); ++i) values[i] *= factor;
      EXPECT_EQ(guess_of(c), fmt::format("it is as if o were multiplied by {:.4g}", factor));
    }
}

// Only a factor explains these; each is named.
TEST(Guess, NamesTheFactorOnAnOutput) {
  const Case c = testing::make_case("", [](Params& p) {
    p.num_heads = 6;
    p.num_kv_heads = 2;
    p.head_dim = p.head_dim_v = 7;
  });
  const std::pair<double, const char*> factors[] = {
      {1 / std::sqrt(7.0), "0.378 (softmax_scale, which is 1 / sqrt(head_dim))"},
      {std::sqrt(7.0), "2.646 (1 / softmax_scale, which is sqrt(head_dim))"},
      {std::numbers::log2e, "1.443 (log2(e))"},
      {1 / std::numbers::log2e, "0.6931 (1 / log2(e))"},
      {3, "3 (num_heads / num_kv_heads)"},
      {1.0 / 3, "0.3333 (1 / (num_heads / num_kv_heads))"},
      {1.7, "1.7"}};
  for (const auto& [factor, words] : factors) {
    emulate_for(c, c.problem, c.tensors);
    auto* const values = static_cast<float*>(c.tensors[ATTEST_O].data);
    for (int64_t i = 0; i < element_count(c.tensors[ATTEST_O].spec); ++i)
      values[i] *= float(factor);
    EXPECT_EQ(guess_of(c), fmt::format("it is as if o were multiplied by {}", words));
  }
}

// The scale is 1 / sqrt(head_dim) only by default.
TEST(Guess, TellsAnotherScaleFromTheRootOfTheHeadDim) {
  const Case c = testing::make_case("", [](Params& p) {
    p.head_dim = p.head_dim_v = 9;
    p.softmax_scale = 0.2F;
  });
  for (const auto& [factor, words] :
       {std::pair(5.F, "5 (1 / softmax_scale)"), std::pair(3.F, "3 (sqrt(head_dim))")}) {
    emulate_for(c, c.problem, c.tensors);
    auto* const values = static_cast<float*>(c.tensors[ATTEST_O].data);
    for (int64_t i = 0; i < element_count(c.tensors[ATTEST_O].spec); ++i) values[i] *= factor;
    EXPECT_EQ(guess_of(c), fmt::format("it is as if o were multiplied by {}", words));
  }
}

// In one row the maximum rises by thousands at the last key, behind every tile but the last.
TEST(Guess, NamesRescalesBeforeAFarRise) {
  Case c = testing::make_case("far", [](Params& p) { p.seq_len_kv = 150; });
  auto *const q = static_cast<float*>(c.tensors[ATTEST_Q].data), *const k = static_cast<float*>(
                                                                     c.tensors[ATTEST_K].data);
  for (int64_t d = 0; d < 8; ++d) {
    k[149 * 8 + d] = 3 * q[d];
    q[d] *= 2000;
  }
  int rescales = 0;
  for (const Mistake& mistake : c.problem.operation->mistakes(c.problem, c.tensors)) {
    if (mistake.words.find("not rescaled") == std::string::npos) continue;
    SCOPED_TRACE(mistake.words);
    ++rescales;
    for (const double factor : mistake.row_factors) EXPECT_TRUE(std::isfinite(factor));
    emulate_for(c, mistake.problem, mistake.inputs, mistake.row_factors);
    EXPECT_EQ(guess_of(c), "it is as if " + mistake.words);
  }
  EXPECT_GE(rescales, 12);
}

// An lse to the base of 2 beside a right output.
TEST(Guess, NamesTheFactorOnAnOptionalOutput) {
  const Case c = testing::make_case("", [](Params&) {}, {ATTEST_LSE});
  const auto write = [&](const std::function<double(double)>& change) {
    emulate_softmax(c.problem, c.tensors, {}, {}, testing::all_rows(c.tensors[ATTEST_O]),
                    testing::store_into(c.tensors, [&](int32_t role, double value) {
                      return role == ATTEST_LSE ? change(value) : value;
                    }));
  };
  write([](double lse) { return lse; });
  EXPECT_FALSE(guess_of(c));
  write([](double lse) { return lse * std::numbers::log2e; });
  EXPECT_EQ(guess_of(c), "it is as if lse were multiplied by 1.443 (log2(e))");
  write([](double lse) { return lse + 1; });
  EXPECT_FALSE(guess_of(c));
}

// Gradients whose kernel forgets a factor in one of them, or in two.
TEST(Guess, NamesFactorsOfGradients) {
  const testing::BackwardCase c(
      {.num_heads = 6, .num_kv_heads = 2, .seq_len_q = 20, .head_dim = 16, .head_dim_v = 8},
      ATTEST_F32, {"random", 3});
  std::vector<int64_t> rows(6 * 20);
  std::iota(rows.begin(), rows.end(), 0);
  const auto guess = [&](const std::map<int32_t, double>& factors) {
    backward::emulate(c.problem, c.tensors, {}, 0, rows,
                      testing::store_into(c.tensors, [&](int32_t role, double value) {
                        const auto found = factors.find(role);
                        return found == factors.end() ? value : value * found->second;
                      }));
    return guess_mistake(c.problem, {}, c.tensors, c.tensors);
  };
  EXPECT_FALSE(guess({}));
  EXPECT_EQ(guess({{ATTEST_DK, 4}}),
            "it is as if dk were multiplied by 4 (1 / softmax_scale, which is sqrt(head_dim))");
  EXPECT_EQ(guess({{ATTEST_DQ, 4}, {ATTEST_DK, 4}}),
            "it is as if dq were multiplied by 4 (1 / softmax_scale, which is sqrt(head_dim)), "
            "dk by 4 (1 / softmax_scale, which is sqrt(head_dim))");
  EXPECT_EQ(guess({{ATTEST_DV, 1.0 / 3}}),
            "it is as if dv were multiplied by 0.3333 (1 / (num_heads / num_kv_heads))");
  EXPECT_EQ(guess({{ATTEST_DV, -1}}), "it is as if dv were multiplied by -1");
}

TEST(Guess, SaysNothingOfARightOutput) {
  for (const Case& c : cases()) {
    emulate_for(c, c.problem, c.tensors);
    EXPECT_FALSE(guess_of(c)) << c.name;
  }
}

// A hundred outputs that are wrong in other ways.
TEST(Guess, TakesOtherBugsForNoMistake) {
  int guesses = 0, bugs = 0;
  std::vector<Case> all = cases();
  for (uint64_t seed = 0; seed < 16; ++seed)
    for (Case& c : all) {
      emulate_for(c, c.problem, c.tensors);
      const Tensor& o = c.tensors[ATTEST_O];
      auto* const values = static_cast<float*>(o.data);
      const int64_t count = element_count(o.spec), width = o.spec.dim[3], rows = count / width;
      const int64_t row = int64_t(random_below(seed, 1, uint64_t(rows)));
      switch (seed % 8) {
        case 0: values[random_below(seed, 2, uint64_t(count))] += 0.01F; break;
        case 1: std::fill_n(values + row * width, width, 0.F); break;
        case 2: std::rotate(values, values + width, values + count); break;  // rows are off by one
        case 3:
          for (int64_t i = 0; i < count; ++i) values[i] += 0.01F;
          break;
        case 4:  // one head is scaled
          for (int64_t i = 0; i < count / o.spec.dim[1]; ++i) values[i] *= 1.5F;
          break;
        case 5:  // each row by another factor
          for (int64_t i = 0; i < count; ++i) values[i] *= 1 + 0.01F * float(i / width % 7);
          break;
        case 6:  // one channel
          for (int64_t i = 0; i < count; i += width) values[i] = -values[i];
          break;
        default: std::reverse(values + row * width, values + (row + 1) * width); break;
      }
      const std::optional<std::string> guess = guess_of(c);
      ++bugs;
      guesses += guess && guess != kNone;
    }
  EXPECT_GE(bugs, 100);
  EXPECT_LE(guesses, 2);
}

// The sentence of a failure is about the number in the column, whichever output has it.
TEST(Judge, SpeaksOfTheOutputThatErrsMost) {
  const Case c = testing::make_case("lse", [](Params&) {}, {ATTEST_LSE});
  const auto golden = c.problem.operation->golden(c.problem, {"random", 0}, c.tensors);
  emulate_softmax(c.problem, c.tensors, {}, {}, testing::all_rows(c.tensors[ATTEST_O]),
                  testing::store_into(c.tensors, [](int32_t, double value) { return value; }));
  ASSERT_TRUE(judge(c.problem, *golden, {}, c.tensors).outcome.passes());
  static_cast<float*>(c.tensors[ATTEST_O].data)[3] += 1e-3F;
  static_cast<float*>(c.tensors[ATTEST_LSE].data)[5] = -INFINITY;
  const Judgement judgement = judge(c.problem, *golden, {}, c.tensors);
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kFailNan);
  EXPECT_EQ(judgement.outcome.reason.find("lse[0,0,5] = -inf where "), 0u)
      << judgement.outcome.reason;
  EXPECT_EQ(judgement.worst->tensor, "lse");
  static_cast<float*>(c.tensors[ATTEST_LSE].data)[5] = 1e6F;
  EXPECT_EQ(judge(c.problem, *golden, {}, c.tensors).outcome.code, ReasonCode::kFailTolerance);
}

TEST(Guess, LeavesLargeProblemsAlone) {
  const Case c = testing::make_case("large", [](Params& p) {
    p.seq_len_q = 4099;
    p.head_dim = 4;
  });
  EXPECT_EQ(guess_of(c),
            "the problem is too large to try known mistakes; a smaller one may name it");
}

}  // namespace
}  // namespace attest::core
