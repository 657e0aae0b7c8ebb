// Problems of deformable attention with memory behind every tensor, for tests.
#pragma once
#include <array>
#include <utility>
#include <vector>

#include "core/operations/deformable/deformable.hpp"

namespace attest::core::testing {

struct DeformableShape {
  int64_t batch = 1, num_heads = 1, seq_len_q = 0, head_dim_v = 8, num_points = 4;
  std::vector<std::pair<int32_t, int32_t>> levels{{9, 7}};  // height, width
  bool align_corners = false;
  DType location_dtype = ATTEST_NONE, v_dtype = ATTEST_NONE;  // as the others
};

// A problem with memory behind every tensor.
struct DeformableCase {
  Problem problem;
  std::array<std::vector<char>, ATTEST_ROLES> memory;
  Tensors tensors{};

  DeformableCase(const DeformableShape& s, DType dtype, const Fill& fill)
      : problem(blank_problem(deformable_operation(), dtype)) {
    auto& p = problem.as<attest_deformable_params>();
    p.batch = s.batch;
    p.num_heads = s.num_heads;
    p.seq_len_q = s.seq_len_q;
    p.head_dim_v = s.head_dim_v;
    p.num_points = s.num_points;
    p.align_corners = s.align_corners ? 1 : 0;
    for (size_t l = 0; l < s.levels.size(); ++l) {
      p.level_height[l] = s.levels[l].first;
      p.level_width[l] = s.levels[l].second;
    }
    deformable_operation().complete(problem);
    for (const auto& [role, own] :
         {std::pair(int32_t{ATTEST_LOCATIONS}, s.location_dtype), {ATTEST_V, s.v_dtype}})
      if (own != ATTEST_NONE)
        problem.tensor[size_t(role)] =
            dense_tensor(own, ATTEST_READ, deformable_operation().dims(problem, role));
    finish_problem(problem);
    for (size_t role = 0; role < ATTEST_ROLES; ++role) {
      memory[role].resize(size_t(extent_bytes(problem.tensor[role])));
      tensors[role] = {problem.tensor[role], memory[role].data()};
    }
    deformable_operation().fill(problem, fill, tensors, false);
  }
  const attest_deformable_params& p() const { return problem.as<attest_deformable_params>(); }
};

}  // namespace attest::core::testing
