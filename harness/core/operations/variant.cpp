#include "core/operations/variant.hpp"

#include <algorithm>

#include "core/operations/relation.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

// Elements behind each row: 32 bytes at least, so that rows stay as aligned as they were
constexpr int64_t kPadding = 16;

bool is_main(const Role& role, const TensorSpec& spec) {
  return present(spec) && role.required && role.dtype == ATTEST_NONE && spec.rank > 1;
}

// Tensors that every problem of the operation has, each row followed by a gap.
void pad_rows(Problem& problem) {
  for (const Role& role : problem.operation->roles()) {
    TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (!is_main(role, spec)) continue;
    int64_t stride = spec.dim[spec.rank - 1] + kPadding;
    for (int i = spec.rank - 1; i-- > 0; stride *= spec.dim[i])
      spec.stride[i] = spec.dim[i] == 1 ? 0 : stride;
  }
}

void set_dtype(Problem& problem, DType dtype) {
  for (const Role& role : problem.operation->roles()) {
    TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (present(spec) && role.dtype == ATTEST_NONE && spec.dtype == problem.dtype)
      spec.dtype = dtype;
  }
  problem.dtype = dtype;
}

}  // namespace

void add_variant(std::vector<Variant>& variants, std::string name, const Problem& problem,
                 const std::function<void(Problem&)>& change,
                 std::function<void(const Tensors&)> change_inputs) {
  try {
    Problem other = problem;
    change(other);
    finish_problem(other);
    if (other == problem && !change_inputs) return;
    variants.push_back({std::move(name), other, std::move(change_inputs)});
  } catch (const Error&) {  // this problem has no such variant
  }
}

std::vector<Variant> common_variants(const Problem& problem) {
  std::vector<Variant> variants;
  const bool strided = (problem.features & ATTEST_WITH_STRIDES) != 0;
  add_variant(variants, "strides", problem, [&](Problem& other) {
    if (strided)
      other = resized(problem, [](Problem&) {});
    else
      pad_rows(other);
  });
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16, ATTEST_F64})
    if (dtype != problem.dtype)
      add_variant(variants, "dtype " + std::string(dtype_name(dtype)), problem,
                  [&](Problem& other) { set_dtype(other, dtype); });
  return variants;
}

}  // namespace attest::core
