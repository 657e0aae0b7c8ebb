// For tests: a softmax problem with memory for its tensors.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/operations/softmax/softmax.hpp"

namespace attest::core::testing {

/// A problem with memory for its tensors.
struct Case {
  std::string name;
  Problem problem;
  std::vector<std::vector<std::byte>> memory;
  Tensors tensors{};

  const attest_softmax_params& params() const { return problem.as<attest_softmax_params>(); }
  void fill(uint64_t seed = 1) {
    softmax_operation().fill(problem, {"random", seed}, tensors, false);
  }
  void allocate() {
    memory.resize(ATTEST_ROLES);
    for (size_t role = 0; role < ATTEST_ROLES; ++role) {
      if (!present(problem.tensor[role])) continue;
      memory[role].assign(size_t(extent_bytes(problem.tensor[role])), std::byte{0x7f});
      tensors[role] = {problem.tensor[role], memory[role].data()};
    }
  }
};

/// `set` changes parameters; `with` are optional tensors, dense and in full. `f8`: the dtype of Q,
/// K and V where it is one of 8 bits.
inline Case make_case(const std::string& name,
                      const std::function<void(attest_softmax_params&)>& set,
                      const std::vector<int32_t>& with = {}, DType dtype = ATTEST_F32,
                      DType f8 = ATTEST_NONE) {
  Case c{.name = name, .problem = blank_problem(softmax_operation(), dtype), .memory = {}};
  auto& p = c.problem.as<attest_softmax_params>();
  p.num_heads = 2;
  p.seq_len_q = 37;
  p.head_dim = 8;
  set(p);
  softmax_operation().complete(c.problem);
  for (const int32_t role : with)
    c.problem.tensor[size_t(role)].dtype = ATTEST_I32;  // present, so that dims() sees all of them
  for (const int32_t role : with) {
    const Role& r = *find_role(softmax_operation(), role);
    TensorSpec& spec = c.problem.tensor[size_t(role)];
    spec = dense_tensor(r.dtype == ATTEST_NONE ? dtype : r.dtype, r.access,
                        softmax_operation().dims(c.problem, role));
  }
  for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V})
    if (f8 != ATTEST_NONE)
      c.problem.tensor[size_t(role)] =
          dense_tensor(f8, ATTEST_READ, softmax_operation().dims(c.problem, role));
  finish_problem(c.problem);
  c.allocate();
  c.fill();
  return c;
}

/// The same with some dims of a tensor broadcast.
inline Case broadcast(Case c, int32_t role, const std::vector<int>& axes) {
  std::vector<int64_t> shape(dims(c.problem.tensor[size_t(role)]).begin(),
                             dims(c.problem.tensor[size_t(role)]).end());
  for (const int axis : axes) shape[size_t(axis)] = 1;
  c.problem.tensor[size_t(role)] =
      dense_tensor(c.problem.tensor[size_t(role)].dtype, ATTEST_READ, shape);
  finish_problem(c.problem);
  c.allocate();
  c.fill();
  return c;
}

}  // namespace attest::core::testing
