// problem_copy.hpp: a problem and its data as a kernel with a planted bug reads them.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "attest.hpp"

namespace mutants {

template <class Params>
struct ProblemCopy {
  ProblemCopy(const attest_problem& original, void* const* given)
      : problem(original), params(attest::params<Params>(original)) {
    std::copy_n(original.tensor, ATTEST_ROLES, tensor.begin());
    std::copy_n(given, ATTEST_ROLES, data.begin());
    problem.params = &params;
    problem.tensor = tensor.data();
  }
  // A copy of it would point into this one.
  ProblemCopy(const ProblemCopy&) = delete;
  ProblemCopy& operator=(const ProblemCopy&) = delete;

  void forget(int32_t role) {
    tensor[role].dtype = ATTEST_NONE;
    data[role] = nullptr;
  }
  void take_for_dense(int32_t role) {
    int64_t stride = 1;
    for (int axis = tensor[role].rank - 1; axis >= 0; --axis) {
      if (tensor[role].dim[axis] > 1) tensor[role].stride[axis] = stride;
      stride *= tensor[role].dim[axis];
    }
  }
  /// Takes the tensor to lie on 64 bytes.
  void align(int32_t role) {
    data[role] = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(data[role]) / 64 * 64);
  }

  attest_problem problem;
  Params params;
  std::array<attest_tensor, ATTEST_ROLES> tensor{};
  std::array<void*, ATTEST_ROLES> data{};
  // What a bug puts in the place of a tensor's elements
  std::vector<uint8_t> bytes;
  std::vector<int32_t> integers;
  std::vector<float> numbers;
};

}  // namespace mutants
