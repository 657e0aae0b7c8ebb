#include "core/run/outputs.hpp"

#include <fmt/format.h>

#include "core/tensor/error.hpp"

namespace attest::core {

const TensorSpec& main_output(const Problem& problem) {
  for (const Role& role : problem.operation->roles())
    if (is_output(role) && role.required) return problem.tensor[size_t(role.index)];
  throw Error(fmt::format("{} has no required output", problem.operation->name()));
}

std::string hash_outputs(const Problem& problem, const Tensors& tensors) {
  uint64_t hash = 0;
  for (const Role& role : problem.operation->roles()) {
    if (!is_output(role) || !tensors[size_t(role.index)]) continue;
    const uint64_t pair[] = {hash, hash_tensor(tensors[size_t(role.index)])};
    hash = hash_bytes(pair, sizeof(pair));
  }
  return hex(hash);
}

int64_t tensor_elements(const Problem& problem) {
  int64_t count = 0;
  for (const TensorSpec& spec : problem.tensor)
    if (present(spec)) count += element_count(spec);
  return count;
}

}  // namespace attest::core
