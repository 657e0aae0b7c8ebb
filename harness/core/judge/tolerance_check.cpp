#include "core/judge/tolerance_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/judge/gates.hpp"

namespace attest::core {
namespace {

// Of an emulation, beyond its first row: a few hundredths of a second
constexpr double kMostFlops = 4e6;

size_t affordable_rows(const Problem& problem, const ExpectedRow& first) {
  double rows = 1;
  const TensorSpec& spec = problem.tensor[size_t(first.role)];
  for (int axis = 0; axis < spec.rank - (first.value.size() > 1 ? 1 : 0); ++axis)
    rows *= double(spec.dim[axis]);
  const double row_flops = problem.operation->flops(problem) / std::max(rows, 1.0);
  return size_t(
      std::clamp(kMostFlops / std::max(row_flops, 1.0), 1.0, double(RowSample::kMost + 1)));
}

// Of one of the kernels that the declaration stands for.
Emulated kernel_errors(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic,
                       const Tensors& inputs, const std::vector<ExpectedRow>& rows,
                       std::span<const int64_t> numbers, int kernel) {
  double largest = 0, squares = 0, elements = 0;
  std::string where;
  problem.operation->emulate(
      problem, inputs, arithmetic, kernel, numbers,
      [&](int32_t role, int64_t row, std::span<const double> values) {
        const auto known = std::find_if(rows.begin(), rows.end(), [&](const ExpectedRow& r) {
          return r.role == role && r.row == row;
        });
        if (known == rows.end()) return;
        for (size_t e = 0; e < values.size(); ++e) {
          const double ratio = std::fabs(values[e] - known->value[e]) / known->sigma[e];
          if (!std::isfinite(ratio))
            continue;  // left out, or a matter of NaN and infinity, which has no tolerance
          squares += ratio * ratio;
          ++elements;
          if (ratio <= largest) continue;
          largest = ratio;
          where = fmt::format("element {} of row {} of {} is {:.9g}, expected {:.9g} +- {:.2g}", e,
                              row, find_role(*problem.operation, role)->name, values[e],
                              known->value[e], known->sigma[e]);
        }
      });
  if (elements == 0) return {};
  const double rms = std::sqrt(squares / elements) /
                     Gates::rms(std::min(int64_t(numbers.size()),
                                         golden.independent_rows(arithmetic, rows.front().role)));
  return {largest / Gates::kLargest, rms, std::move(where)};
}

}  // namespace

ExpectedRow expected_row(const Expected& chunk, size_t index) {
  const auto width = size_t(chunk.width), at = chunk.shared ? 0 : index * width;
  return {chunk.role,
          chunk.rows[index],
          {chunk.value + at, chunk.value + at + width},
          {chunk.sigma + at, chunk.sigma + at + width}};
}

void RowSample::add(const Expected& chunk) {
  if (!chunk.value || chunk.rows.empty()) return;
  const int64_t key[] = {chunk.role, chunk.rows[0]};
  const uint64_t hash = hash_bytes(key, sizeof(key));
  if (rows_.size() == kMost && hash > rows_.rbegin()->first) return;
  rows_.emplace(hash, expected_row(chunk, 0));
  cut();
}

void RowSample::merge(const RowSample& other) {
  rows_.insert(other.rows_.begin(), other.rows_.end());
  cut();
}

void RowSample::cut() {
  while (rows_.size() > kMost) rows_.erase(std::prev(rows_.end()));
}

Emulated emulated_errors(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic,
                         const Tensors& inputs, const std::vector<ExpectedRow>& rows) {
  const size_t count = std::min(rows.size(), affordable_rows(problem, rows.front()));
  std::vector<int64_t> numbers;
  for (size_t n = 0; n < count; ++n) numbers.push_back(rows[n].row);
  Emulated worst;
  for (int kernel = 0; kernel < problem.operation->kernels(problem, arithmetic); ++kernel)
    if (Emulated one = kernel_errors(problem, golden, arithmetic, inputs, rows, numbers, kernel);
        one.ratio() > worst.ratio())
      worst = std::move(one);
  return worst;
}

}  // namespace attest::core
