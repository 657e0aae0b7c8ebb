// Inputs of linear attention.
#include <algorithm>
#include <vector>

#include "core/operations/linear/linear.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

// Every element from its own counter, which is its place in the dense order: strides change nothing.
void fill_normal(const Tensor& tensor, uint64_t seed, float mean, float deviation) {
  const TensorSpec& spec = tensor.spec;
  const int64_t rows = row_count(spec, 3), width = spec.dim[3];
#pragma omp parallel
  {
    std::vector<float> row(static_cast<size_t>(width));
#pragma omp for
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < width; ++c) row[size_t(c)] = mean + deviation * random_normal(seed, uint64_t(r * width + c));
      store_row(tensor.data, spec.dtype, row_offset(spec, 3, r), width, spec.stride[3], row.data());
    }
  }
}

// Some kSpeaking keys of all have a phi near e^-8, the others one near e^-30: their sum stays so small that eps shows in it.
constexpr int64_t kSpeaking = 16;
constexpr float kFaint = -8, kSilent = -30;
void fill_faint_keys(const Tensor& tensor, uint64_t seed) {
  fill_normal(tensor, seed, kFaint, 0.5f);
  const TensorSpec& spec = tensor.spec;
  const std::vector<float> silent(size_t(spec.dim[3]), kSilent);
  const auto one_in = uint64_t(std::max<int64_t>(spec.dim[2] / kSpeaking, 1));
  for (int64_t r = 0; r < row_count(spec, 3); ++r)
    if (random_below(seed + 1, uint64_t(r), one_in) != 0)
      store_row(tensor.data, spec.dtype, row_offset(spec, 3, r), spec.dim[3], spec.stride[3], silent.data());
}

// One in eight is masked away.
void fill_mask(const Tensor& tensor, uint64_t seed) {
  for (int64_t i = 0; i < row_count(tensor.spec, 4); ++i)
    store(tensor.data, ATTEST_BOOL, row_offset(tensor.spec, 4, i), random_below(seed, uint64_t(i), 8) != 0);
}

}  // namespace

void fill_linear(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own) {
  const bool faint = fill.name == "faint";
  for (const Role& role : problem.operation->roles()) {
    const Tensor& tensor = tensors[size_t(role.index)];
    if (!tensor || is_output(role) || (only_own && role.content != Role::Content::kOwn)) continue;
    const uint64_t seed = random_bits(fill.seed, uint64_t(role.index));
    if (role.dtype == ATTEST_BOOL)
      fill_mask(tensor, seed);
    else if (faint && role.index == ATTEST_K)
      fill_faint_keys(tensor, seed);
    else if (faint && role.index == ATTEST_Q)
      fill_normal(tensor, seed, kFaint, 0.5f);
    else
      fill_normal(tensor, seed, 0, 1);
  }
}

}  // namespace attest::core
