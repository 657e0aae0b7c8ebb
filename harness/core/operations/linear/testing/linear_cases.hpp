// Problems of linear attention with memory behind every tensor, for tests.
#pragma once
#include <array>
#include <vector>

#include "core/operations/linear/linear.hpp"

namespace attest::core::testing {

struct LinearShape {
  int64_t batch = 1, num_heads = 1, num_kv_heads = -1, seq_len_q = 0, seq_len_kv = -1, head_dim = 0,
          head_dim_v = -1;
  float eps = 1e-6f;
  DType v_dtype = ATTEST_NONE;  // as the others
};

// A problem with memory behind every tensor.
struct LinearCase {
  Problem problem;
  std::array<std::vector<char>, ATTEST_ROLES> memory;
  Tensors tensors{};

  LinearCase(const LinearShape& s, DType dtype, const Fill& fill, bool masked = false)
      : problem(blank_problem(linear_operation(), dtype)) {
    auto& q = problem.as<attest_linear_params>();
    q.batch = s.batch;
    q.num_heads = s.num_heads;
    q.num_kv_heads = s.num_kv_heads;
    q.seq_len_q = s.seq_len_q;
    q.seq_len_kv = s.seq_len_kv;
    q.head_dim = s.head_dim;
    q.head_dim_v = s.head_dim_v;
    q.eps = s.eps;
    if (masked) {
      linear_operation().complete(problem);
      for (const int32_t role : std::initializer_list<int32_t>{ATTEST_MASK, ATTEST_QUERY_MASK})
        problem.tensor[size_t(role)] =
            dense_tensor(ATTEST_BOOL, ATTEST_READ, linear_operation().dims(problem, role));
    }
    if (s.v_dtype != ATTEST_NONE) {
      linear_operation().complete(problem);
      problem.tensor[ATTEST_V] =
          dense_tensor(s.v_dtype, ATTEST_READ, linear_operation().dims(problem, ATTEST_V));
    }
    finish_problem(problem);
    for (size_t role = 0; role < ATTEST_ROLES; ++role) {
      memory[role].resize(size_t(extent_bytes(problem.tensor[role])));
      tensors[role] = {problem.tensor[role], memory[role].data()};
    }
    linear_operation().fill(problem, fill, tensors, false);
  }
  const attest_linear_params& p() const { return problem.as<attest_linear_params>(); }
  const TensorSpec& spec(int32_t role) const { return problem.tensor[size_t(role)]; }
};

}  // namespace attest::core::testing
