// The tensor that onednn_graph adds to scores: where all sequences and heads share the terms, each
// sequence has a copy.
#include "onednn/terms.hpp"

#include <gtest/gtest.h>

#include <array>

namespace {

constexpr int64_t kTokens = 5;

/// A causal problem with `batch` sequences and, if `bias_dims` has sizes, a dense bias instead.
struct Example {
  Example(int64_t batch, int64_t num_kv_heads, std::array<int64_t, 2> bias_dims = {}) {
    params.batch = batch;
    params.num_heads = 4;
    params.num_kv_heads = num_kv_heads;
    params.seq_len_q = kTokens;
    params.seq_len_kv = kTokens;
    problem.params = &params;
    problem.tensor = tensors.data();
    problem.features = ATTEST_WITH_CAUSAL;
    if (bias_dims[0] == 0) return;
    problem.features = ATTEST_WITH_BIAS;
    attest_tensor& bias = tensors[ATTEST_BIAS];
    bias.rank = 4;
    int64_t stride = 1;
    const int64_t dims[] = {bias_dims[0], bias_dims[1], kTokens, kTokens};
    for (int axis = 3; axis >= 0; stride *= dims[axis], --axis) {
      bias.dim[axis] = dims[axis];
      bias.stride[axis] = dims[axis] == 1 ? 0 : stride;
    }
  }
  std::array<int64_t, 2> outer_dims() const {
    const attest_tensor terms = onednn::terms_of(problem);
    return {terms.dim[0], terms.dim[1]};
  }

  attest_softmax_params params{};
  std::array<attest_tensor, ATTEST_ROLES> tensors{};
  attest_problem problem{};
};

using Dims = std::array<int64_t, 2>;

TEST(OneDnnTerms, SequencesGetCopiesOfWhatAllOfThemAndAllHeadsShare) {
  EXPECT_EQ(Example(3, 4).outer_dims(), (Dims{3, 1}));
  EXPECT_EQ(Example(3, 4, {1, 1}).outer_dims(), (Dims{3, 1}));
  EXPECT_FALSE(onednn::adds_bias_itself(Example(3, 4, {1, 1}).problem));
}

TEST(OneDnnTerms, NothingElseIsCopied) {
  EXPECT_EQ(Example(1, 4).outer_dims(), (Dims{1, 1})) << "one sequence";
  EXPECT_EQ(Example(3, 2).outer_dims(), (Dims{1, 1})) << "heads of K shared by groups";
  for (const Dims& dims : {Dims{3, 1}, Dims{1, 4}, Dims{3, 4}}) {
    EXPECT_EQ(Example(3, 4, dims).outer_dims(), dims);
    EXPECT_TRUE(onednn::adds_bias_itself(Example(3, 4, dims).problem));
  }
}

}  // namespace
