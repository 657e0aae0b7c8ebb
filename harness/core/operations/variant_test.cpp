// Variants: each is a valid problem that differs from the base's in what its name says.
#include "core/operations/variant.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/operations/linear/linear.hpp"
#include "core/operations/softmax/softmax.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

Problem softmax(const std::function<void(Problem&)>& change) {
  Problem problem = blank_problem(softmax_operation(), ATTEST_F32);
  auto& p = problem.as<attest_softmax_params>();
  p.batch = 3;
  p.num_heads = 4;
  p.seq_len_q = 20;
  p.head_dim = 16;
  change(problem);
  finish_problem(problem);
  return problem;
}

std::map<std::string, Problem> variants_of(const Problem& problem) {
  std::map<std::string, Problem> found;
  for (const Variant& variant : problem.operation->variants(problem))
    found.emplace(variant.name, variant.problem);
  return found;
}

// Those of softmax() with other parameters.
std::map<std::string, Problem> variants_with(void (*change)(attest_softmax_params&)) {
  return variants_of(
      softmax([change](Problem& other) { change(other.as<attest_softmax_params>()); }));
}

TEST(Variants, DifferInWhatTheirNamesSay) {
  const Problem problem = softmax([](Problem&) {});
  const auto found = variants_of(problem);
  std::vector<std::string> names;
  for (const auto& [name, variant] : found) names.push_back(name);
  EXPECT_THAT(
      names, UnorderedElementsAre("seq_len_q", "seq_len_kv", "head_dim_v", "scale", "num_kv_heads",
                                  "second num_kv_heads", "mask", "window", "window_right",
                                  "window_left", "second window_left", "diagonal_offset",
                                  "second diagonal_offset", "softcap", "second softcap", "bias",
                                  "alibi_slopes", "sinks", "lse", "patch_size", "second patch_size",
                                  "strides", "dtype f16", "dtype bf16", "dtype f64", "lengths"));
  EXPECT_EQ(found.at("scale").as<attest_softmax_params>().softmax_scale, 0.125f);
  EXPECT_EQ(found.at("scale").features, problem.features);
  EXPECT_EQ(found.at("strides").features, uint64_t{ATTEST_WITH_STRIDES});
  EXPECT_EQ(found.at("strides").params, problem.params);
  EXPECT_EQ(found.at("dtype f16").tensor[ATTEST_K].dtype, ATTEST_F16);
  EXPECT_EQ(found.at("dtype bf16").features, 0u);
  EXPECT_EQ(found.at("mask").features, uint64_t{ATTEST_WITH_MASK});
  EXPECT_EQ(found.at("window").features, uint64_t{ATTEST_WITH_CAUSAL});
  EXPECT_EQ(found.at("num_kv_heads").as<attest_softmax_params>().num_kv_heads, 1);
  EXPECT_EQ(found.at("second num_kv_heads").as<attest_softmax_params>().num_kv_heads, 2);
  EXPECT_EQ(found.at("window_left").as<attest_softmax_params>().window_left, 2);
  EXPECT_EQ(found.at("second window_left").as<attest_softmax_params>().window_left, 4);
  EXPECT_EQ(found.at("window_right").features, uint64_t{ATTEST_WITH_WINDOW});
  EXPECT_EQ(found.at("diagonal_offset").features,
            uint64_t{ATTEST_WITH_CAUSAL | ATTEST_WITH_DIAGONAL});
  EXPECT_EQ(found.at("alibi_slopes").features, uint64_t{ATTEST_WITH_ALIBI});
  EXPECT_EQ(found.at("lse").tensor[ATTEST_LSE].dtype, ATTEST_F32);
  EXPECT_EQ(found.at("bias").tensor[ATTEST_BIAS].dim[1], 1);
  EXPECT_EQ(found.at("lengths").features, uint64_t{ATTEST_WITH_SEQ_LENS});
}

TEST(Variants, TakeAwayWhatTheProblemHas) {
  const Problem problem = softmax([](Problem& other) {
    auto& p = other.as<attest_softmax_params>();
    p.window_right = 0;
    p.num_kv_heads = 2;
    other.tensor[ATTEST_MASK] =
        dense_tensor(ATTEST_BOOL, ATTEST_READ, std::vector<int64_t>{1, 1, 20, 20});
    other.tensor[ATTEST_Q] =
        dense_tensor(ATTEST_F32, ATTEST_READ, std::vector<int64_t>{3, 4, 20, 16});
    for (int axis = 0; axis < 4; ++axis) other.tensor[ATTEST_Q].stride[axis] *= 2;
  });
  const uint64_t features = problem.features;
  const auto found = variants_of(problem);
  EXPECT_EQ(found.at("mask").features, features & ~uint64_t{ATTEST_WITH_MASK});
  EXPECT_EQ(found.at("window").features, features & ~uint64_t{ATTEST_WITH_CAUSAL});
  EXPECT_EQ(found.at("strides").features, features & ~uint64_t{ATTEST_WITH_STRIDES});
  EXPECT_EQ(found.at("num_kv_heads").as<attest_softmax_params>().num_kv_heads, 1);
  EXPECT_EQ(found.at("second num_kv_heads").as<attest_softmax_params>().num_kv_heads, 4);
}

// A cache may know whether heads are grouped, and whether there is a band, and no more.
TEST(Variants, ChangeGroupsAndDiagonalsThatAreThere) {
  const auto found = variants_with([](attest_softmax_params& p) {
    p.num_heads = 6;
    p.num_kv_heads = 2;
    p.seq_len_kv = 30;
    p.window_right = 0;
  });
  EXPECT_EQ(found.at("second num_kv_heads").as<attest_softmax_params>().num_kv_heads, 3);
  EXPECT_EQ(found.at("diagonal").as<attest_softmax_params>().diagonal, ATTEST_BOTTOM_RIGHT);
  EXPECT_EQ(found.count("diagonal of a new band"), 0u);
  const auto without = variants_with([](attest_softmax_params& p) { p.seq_len_kv = 30; });
  EXPECT_EQ(without.count("diagonal"), 0u);
  EXPECT_EQ(without.at("diagonal of a new band").as<attest_softmax_params>().window_right, 0);
}

TEST(Variants, OfAGridAreThoseThatItHas) {
  const auto found = variants_with([](attest_softmax_params& p) {
    p.seq_len_q = 24;
    p.grid_height = 4;
    p.grid_width = 6;
    p.window_height = 2;
    p.window_width = 3;
    p.shift_y = 1;
    p.shift_bias = -100;
  });
  for (const char* name : {"window", "window_left", "diagonal_offset", "alibi_slopes", "order",
                           "patch_size", "lengths"})
    EXPECT_FALSE(found.contains(name)) << name;
  EXPECT_EQ(found.at("shift_y").as<attest_softmax_params>().shift_y, 0);
  EXPECT_EQ(found.at("shift_x").as<attest_softmax_params>().shift_x, 1);
  EXPECT_EQ(found.at("shift_bias").as<attest_softmax_params>().shift_bias, -1);
  EXPECT_EQ(found.at("window_height").as<attest_softmax_params>().window_height, 4);
  EXPECT_EQ(found.at("rel_bias").features, uint64_t{ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS});
}

// Packed sequences come in the opposite order: the same problem, other data.
TEST(Variants, ReverseLengthsThatAreThere) {
  const Problem problem = softmax([](Problem& other) {
    for (const int role : {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV})
      other.tensor[size_t(role)] = dense_tensor(ATTEST_I32, ATTEST_READ, std::vector<int64_t>{4});
  });
  for (const Variant& variant : problem.operation->variants(problem)) {
    if (variant.name != "lengths") continue;
    EXPECT_TRUE(variant.problem == problem);
    std::vector<int32_t> sums = {0, 5, 5, 12};
    Tensors tensors{};
    tensors[ATTEST_CU_SEQLENS_Q] = {problem.tensor[ATTEST_CU_SEQLENS_Q], sums.data()};
    variant.change(tensors);
    EXPECT_THAT(sums, ElementsAre(0, 7, 7, 12));
    return;
  }
  FAIL() << "no variant of lengths";
}

// The second of three padded sequences is empty, and so has no pages.
TEST(Variants, OfLengthsReadNoPageThatIsNotThere) {
  const Problem problem = softmax([](Problem& other) {
    other.as<attest_softmax_params>().page_size = 4;
    other.tensor[ATTEST_PAGE_TABLE] =
        dense_tensor(ATTEST_I32, ATTEST_READ, std::vector<int64_t>{3, 5});
  });
  for (const Variant& variant : problem.operation->variants(problem)) {
    if (variant.name != "lengths") continue;
    const TensorSpec& lengths = variant.problem.tensor[ATTEST_SEQ_LENS_KV];
    std::vector<int32_t> of_sequences = {20, 0, 13};
    Tensors tensors{};
    tensors[ATTEST_SEQ_LENS_KV] = {lengths, of_sequences.data()};
    variant.change(tensors);
    EXPECT_THAT(of_sequences, ElementsAre(11, 12, 13)) << "without pages";
    std::vector<int32_t> table(15);
    tensors[ATTEST_PAGE_TABLE] = {problem.tensor[ATTEST_PAGE_TABLE], table.data()};
    of_sequences = {20, 0, 13};
    variant.change(tensors);
    EXPECT_THAT(of_sequences, ElementsAre(11, 0, 13));
    return;
  }
  FAIL() << "no variant of lengths";
}

TEST(Variants, OfLinearAttention) {
  Problem problem = blank_problem(*find_operation("linear"), ATTEST_F32);
  auto& p = problem.as<attest_linear_params>();
  p.num_heads = 2;
  p.seq_len_q = 20;
  p.head_dim = 16;
  finish_problem(problem);
  std::vector<std::string> names;
  for (const auto& [name, variant] : variants_of(problem)) names.push_back(name);
  EXPECT_THAT(names, UnorderedElementsAre("strides", "dtype f16", "dtype bf16", "dtype f64", "eps",
                                          "mask", "num_kv_heads"));
}

}  // namespace
}  // namespace attest::core
