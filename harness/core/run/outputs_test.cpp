// The main output, hashes of outputs, and sizes of problems.
#include "core/run/outputs.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/problem/spec.hpp"

namespace attest::core {
namespace {

// Rows of O are 4 elements of which 3 belong to it.
constexpr const char* kWithGaps =
    "softmax dtype=f32 num_heads=1 seq_len_q=2 seq_len_kv=5 head_dim=3 o.strides=[0,0,4,1] lse";

// The tensors of a problem, in memory of their own.
struct OwnTensors {
  explicit OwnTensors(const Problem& problem) {
    for (size_t role = 0; role < problem.tensor.size(); ++role) {
      const TensorSpec& spec = problem.tensor[role];
      if (!present(spec)) continue;
      memory[role].assign(size_t(extent(spec)), 1.0f);
      tensors[role] = {spec, memory[role].data()};
    }
  }
  Tensors tensors{};
  std::vector<float> memory[std::tuple_size_v<Tensors>];
};

TEST(Outputs, TheMainOneIsOOrDq) {
  const Problem problem = parse_problem(kWithGaps);
  EXPECT_EQ(&main_output(problem), &problem.tensor[ATTEST_O]);
  const Problem backward = parse_problem("softmax_backward seq_len_q=4 head_dim=8");
  EXPECT_EQ(&main_output(backward), &backward.tensor[ATTEST_DQ]);
}

TEST(Outputs, AHashIsOfAllOutputsAndOfNothingElse) {
  const Problem problem = parse_problem(kWithGaps);
  OwnTensors values(problem);
  const auto hash = [&] { return hash_outputs(problem, values.tensors); };
  const std::string first = hash();
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(hash(), first);

  values.memory[ATTEST_V][0] = 2;
  values.memory[ATTEST_O][3] = 2;
  EXPECT_EQ(hash(), first) << "inputs, and gaps between rows, are no outputs";
  values.memory[ATTEST_O][6] = 2;
  const std::string second = hash();
  EXPECT_NE(second, first);
  values.memory[ATTEST_LSE][1] = 2;
  EXPECT_NE(hash(), second);
  values.memory[ATTEST_O][6] = 1;
  EXPECT_NE(hash(), first);
}

TEST(Outputs, AHashKnowsWhichOutputHasWhat) {
  const Problem problem =
      parse_problem("softmax_backward dtype=f32 num_heads=1 seq_len_q=4 seq_len_kv=4 head_dim=8");
  OwnTensors values(problem);
  values.memory[ATTEST_DQ][0] = 2;
  const std::string in_dq = hash_outputs(problem, values.tensors);
  values.memory[ATTEST_DQ][0] = 1;
  values.memory[ATTEST_DK][0] = 2;
  EXPECT_NE(hash_outputs(problem, values.tensors), in_dq);
}

TEST(Outputs, ElementsAreOfAllTensors) {
  const Problem problem = parse_problem(kWithGaps);
  // Q and O of 2 x 3, K and V of 5 x 3, LSE of 2; gaps do not count.
  EXPECT_EQ(tensor_elements(problem), 6 + 15 + 15 + 6 + 2);
}

}  // namespace
}  // namespace attest::core
