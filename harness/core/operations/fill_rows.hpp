// Fills rows of inputs in parallel. A row depends only on its number, so the bytes are the same
// with any number of threads.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor/constants.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/tensor.hpp"

namespace attest::core {

/// A value of V that no query sees: it shows in a sum even with a small weight.
inline constexpr float kDecoyValue = 1000;

/// Calls row(index, values) for every row of the last dim, in parallel, and stores the values; in 8
/// bits saturated.
template <class Row>
void fill_rows(const Tensor& tensor, const Row& row) {
  const TensorSpec& spec = tensor.spec;
  const int leading = spec.rank - 1;
  const int64_t width = spec.dim[leading], rows = row_count(spec, leading);
#pragma omp parallel if (rows * width > kThreadedElements)
  {
    std::vector<float> values(static_cast<size_t>(width));
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
      row(r, std::span<float>(values));
      if (is_f8(spec.dtype))
        for (float& value : values) value = saturated(value, spec.dtype);
      store_row(tensor.data, spec.dtype, row_offset(spec, leading, r), width, spec.stride[leading],
                values.data());
    }
  }
}

/// Returns a number by which kinds of rows take turns. The tensor is [batch, heads, rows, width].
/// Neighbouring rows, and the same row of neighbouring heads and sequences, have neighbouring
/// numbers.
inline int64_t turn_of(const Tensor& tensor, int64_t r) {
  const int64_t rows = tensor.spec.dim[2], heads = tensor.spec.dim[1];
  return r % rows + r / rows % heads + r / rows / heads;
}

/// Replaces every element x by change(row, channel, x). Channels count through the last dim, rows
/// through all dims before it.
template <class Change>
void edit_elements(const Tensor& tensor, const Change& change) {
  const TensorSpec& spec = tensor.spec;
  const int leading = spec.rank - 1;
  for (int64_t row = 0; row < row_count(spec, leading); ++row)
    for (int64_t c = 0; c < spec.dim[leading]; ++c) {
      const int64_t at = row_offset(spec, leading, row) + c * spec.stride[leading];
      store(tensor.data, spec.dtype, at, change(row, c, load(tensor.data, spec.dtype, at)));
    }
}

/// Fills a tensor with normal numbers. The counter of an element is its index in dense order, so
/// strides change nothing.
inline void fill_normal(const Tensor& tensor, uint64_t seed, float mean = 0, float deviation = 1) {
  fill_rows(tensor, [&](int64_t r, std::span<float> values) {
    for (size_t c = 0; c < values.size(); ++c)
      values[c] = mean + deviation * random_normal(seed, uint64_t(r) * values.size() + c);
  });
}

}  // namespace attest::core
