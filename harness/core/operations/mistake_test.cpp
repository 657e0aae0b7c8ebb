// Tensors of mistakes: views of the true ones, or copies.
#include "core/operations/mistake.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core {
namespace {

using testing::Case;

std::vector<Mistake> mistakes_of(const Case& c) {
  return c.problem.operation->mistakes(c.problem, c.tensors);
}
std::set<std::string> words_of(const Case& c) {
  std::set<std::string> words;
  for (const Mistake& mistake : mistakes_of(c)) words.insert(mistake.words);
  return words;
}

TEST(Mistake, CutsAViewOfSomeKeys) {
  const Case c = testing::make_case("", [](auto& p) { p.seq_len_kv = 9; });
  Mistake mistake{.words = "", .problem = c.problem, .inputs = c.tensors, .storage = {}};
  mistake.cut(ATTEST_K, 2, 3, 8);
  const Tensor& k = mistake.inputs[ATTEST_K];
  EXPECT_EQ(k.spec.dim[2], 5);
  EXPECT_EQ(mistake.problem.tensor[ATTEST_K].dim[2], 5);
  for (int64_t j = 0; j < 5; ++j)
    EXPECT_EQ(k.at({0, 1, j, 2}), c.tensors[ATTEST_K].at({0, 1, j + 3, 2}));
  mistake.cut(ATTEST_V, 2, 8, 9);
  EXPECT_EQ(mistake.inputs[ATTEST_V].spec.stride[2], 0);
  EXPECT_EQ(mistake.inputs[ATTEST_V].at({0, 1, 0, 2}), c.tensors[ATTEST_V].at({0, 1, 8, 2}));
  mistake.cut(ATTEST_MASK, 3, 0, 1);  // absent
  EXPECT_FALSE(mistake.inputs[ATTEST_MASK]);
}

TEST(Mistake, GathersHeads) {
  const Case c = testing::make_case("", [](auto& p) {
    p.num_heads = 4;
    p.num_kv_heads = 2;
  });
  Mistake mistake{.words = "", .problem = c.problem, .inputs = c.tensors, .storage = {}};
  mistake.gather(ATTEST_K, 1, {1, 0, 1});
  const Tensor& k = mistake.inputs[ATTEST_K];
  ASSERT_EQ(k.spec.dim[1], 3);
  for (int64_t j = 0; j < k.spec.dim[2]; ++j)
    for (int64_t d = 0; d < k.spec.dim[3]; ++d) {
      EXPECT_EQ(k.at({0, 0, j, d}), c.tensors[ATTEST_K].at({0, 1, j, d}));
      EXPECT_EQ(k.at({0, 1, j, d}), c.tensors[ATTEST_K].at({0, 0, j, d}));
      EXPECT_EQ(k.at({0, 2, j, d}), c.tensors[ATTEST_K].at({0, 1, j, d}));
    }
}

// Query heads that read another key head read its factors, too.
TEST(Mistake, GathersTheFactorsOfHeads) {
  for (const int64_t heads : {2, 1}) {
    Case c = testing::make_case(
        "",
        [](auto& p) {
          p.num_heads = 4;
          p.num_kv_heads = 2;
        },
        {ATTEST_K_DESCALE, ATTEST_V_DESCALE}, ATTEST_F32, ATTEST_F8E4M3);
    for (const int32_t role : {ATTEST_K_DESCALE, ATTEST_V_DESCALE}) {
      TensorSpec& spec = c.tensors[size_t(role)].spec;
      spec.dim[1] = heads;
      if (heads == 1) spec.stride[1] = 0;
      c.problem.tensor[size_t(role)] = spec;
    }
    const std::vector<Mistake> mistakes = mistakes_of(c);
    const auto modulo = std::ranges::find(
        mistakes, std::string("query head h read key head h % num_kv_heads"), &Mistake::words);
    ASSERT_NE(modulo, mistakes.end());
    for (const int32_t role : {ATTEST_K_DESCALE, ATTEST_V_DESCALE}) {
      const Tensor &read = modulo->inputs[size_t(role)], &true_ones = c.tensors[size_t(role)];
      EXPECT_EQ(read.spec.dim[1], heads == 1 ? 1 : 4);
      for (int64_t h = 0; h < read.spec.dim[1]; ++h)
        EXPECT_EQ(read.at({0, h, 0}), true_ones.at({0, heads == 1 ? 0 : h % 2, 0}));
    }
  }
}

TEST(Mistake, ThatChangesNothingIsNone) {
  const Case c = testing::make_case("", [](auto& p) { p.head_dim = 1; });  // the scale is 1
  EXPECT_FALSE(words_of(c).contains("softmax_scale were 1"));
  EXPECT_FALSE(words_of(c).contains("softcap were left out"));
  EXPECT_TRUE(words_of(c).contains("softmax_scale were half as large"));
}

TEST(Mistake, OfSoftmaxFollowTheProblem) {
  const std::set<std::string> plain = words_of(testing::make_case("", [](auto&) {}));
  EXPECT_TRUE(
      plain.contains("the last 5 keys were missing (37 keys are tiles of 16 or 32 and 5 more)"));
  EXPECT_TRUE(plain.contains("the first 32 keys were missing"));
  EXPECT_FALSE(plain.contains("the diagonal were one key further to the right"));
  const std::set<std::string> causal = words_of(testing::make_case("",
                                                                   [](auto& p) {
                                                                     p.num_heads = 4;
                                                                     p.num_kv_heads = 2;
                                                                     p.window_right = 0;
                                                                   },
                                                                   {ATTEST_BIAS}));
  EXPECT_TRUE(causal.contains(
      "the diagonal were one key further to the right, so that a row sees one key too many"));
  EXPECT_TRUE(causal.contains("query head h read key head h % num_kv_heads"));
  EXPECT_TRUE(causal.contains("query head h read V of key head h % num_kv_heads"));
  EXPECT_TRUE(causal.contains("every query head read K of key head 0"));
  EXPECT_TRUE(causal.contains("bias were left out"));
}

}  // namespace
}  // namespace attest::core
