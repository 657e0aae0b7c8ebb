// For tests: outputs as an emulated kernel would leave them.
#pragma once
#include <functional>
#include <numeric>
#include <vector>

#include "core/operations/golden.hpp"
#include "core/tensor/tensor.hpp"

namespace attest::core::testing {

/// Every row of an output tensor of rank 4.
inline std::vector<int64_t> all_rows(const Tensor& o) {
  std::vector<int64_t> rows(size_t(row_count(o.spec, 3)));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// Stores rows into dense outputs, each number as `change` makes it.
inline EmulationSink store_into(const Tensors& tensors,
                                std::function<double(int32_t role, double value)> change = {}) {
  return [&tensors, change = std::move(change)](int32_t role, int64_t row,
                                                std::span<const double> values) {
    const Tensor& x = tensors[size_t(role)];
    for (size_t e = 0; e < values.size(); ++e)
      store(x.data, x.spec.dtype, row * int64_t(values.size()) + int64_t(e),
            change ? change(role, values[e]) : values[e]);
  };
}

}  // namespace attest::core::testing
