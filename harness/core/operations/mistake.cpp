#include "core/operations/mistake.hpp"

#include <cstring>

#include "core/tensor/error.hpp"

namespace attest::core {

void Mistake::drop(int32_t role) {
  inputs[size_t(role)] = {};
  problem.tensor[size_t(role)] = {};
}

void Mistake::cut(int32_t role, int axis, int64_t begin, int64_t end) {
  Tensor& tensor = inputs[size_t(role)];
  TensorSpec& spec = tensor.spec;
  if (!tensor || spec.dim[axis] == 1) return;
  tensor.data = static_cast<char*>(tensor.data) +
                begin * spec.stride[axis] * int64_t(dtype_bytes(spec.dtype));
  spec.dim[axis] = end - begin;
  if (end - begin == 1) spec.stride[axis] = 0;
  problem.tensor[size_t(role)] = spec;
}

void Mistake::gather(int32_t role, int axis, const std::vector<int64_t>& from) {
  Tensor& tensor = inputs[size_t(role)];
  const TensorSpec old = tensor.spec;
  std::vector<int64_t> shape(old.dim, old.dim + old.rank);
  shape[size_t(axis)] = int64_t(from.size());
  const TensorSpec spec = dense_tensor(old.dtype, old.access, shape);
  const size_t width = dtype_bytes(old.dtype);
  std::vector<std::byte>& made = storage.emplace_back(size_t(extent_bytes(spec)));
  // An element's index in the new tensor, dim by dim, gives its offset in the old one.
  for (int64_t element = 0; element < element_count(spec); ++element) {
    int64_t left = element, offset = 0;
    for (int dim = spec.rank; dim-- > 0; left /= spec.dim[dim]) {
      const int64_t index = left % spec.dim[dim];
      offset += (dim == axis ? from[size_t(index)] : index) * old.stride[dim];
    }
    std::memcpy(&made[size_t(element) * width],
                static_cast<const char*>(tensor.data) + offset * int64_t(width), width);
  }
  tensor = {spec, made.data()};
  problem.tensor[size_t(role)] = spec;
}

void add_mistake(std::vector<Mistake>& mistakes, std::string words, const Problem& problem,
                 const Tensors& inputs, const std::function<void(Mistake&)>& change) {
  Mistake mistake{.words = std::move(words), .problem = problem, .inputs = inputs, .storage = {}};
  try {
    change(mistake);
    finish_problem(mistake.problem);
  } catch (const Error&) {  // this problem has no such mistake
    return;
  }
  if (mistake.problem == problem && mistake.storage.empty() && mistake.row_factors.empty()) return;
  mistakes.push_back(std::move(mistake));
}

}  // namespace attest::core
