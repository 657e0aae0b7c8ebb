#include "core/operations/softmax/golden/passes/operands.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace attest::core::passes {
namespace {

// A cache line of Keys::transposed is written at once.
constexpr int64_t kKeysTogether = 8;

bool is_finite(double x) {
  return (std::bit_cast<uint64_t>(x) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}

bool are_finite(const double* row, int64_t count) {
  int others = 0;
#pragma omp simd reduction(| : others)
  for (int64_t n = 0; n < count; ++n) others |= is_finite(row[n]) ? 0 : 1;
  return others == 0;
}

/// Writes the square of each element. Returns the largest magnitude.
double square_row(const double* row, int64_t count, double* squares) {
  double largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t n = 0; n < count; ++n) {
    squares[n] = row[n] * row[n];
    largest = std::max(largest, std::fabs(row[n]));
  }
  return largest;
}

void load_cell(const Tensor& from, const Cell& cell, int64_t head, int64_t count, double* to) {
  const TensorSpec& spec = from.spec;
  load_row(from.data, spec.dtype,
           cell.outer * spec.stride[0] + head * spec.stride[1] + cell.row * spec.stride[2], count,
           spec.stride[3], to);
}

void write_magnitudes(std::span<const double> from, bool squared, std::span<double> to) {
  for (size_t n = 0; n < from.size(); ++n) to[n] = squared ? from[n] * from[n] : std::fabs(from[n]);
}

}  // namespace

Queries::Queries(const Tensor& q, const Geometry& geometry, const attest_softmax_params& params)
    : scaled(kTaskRows, params.head_dim),
      magnitudes(kTaskRows, params.head_dim),
      q_(q),
      geometry_(geometry),
      softmax_scale_(double(params.softmax_scale)) {}

void Queries::load(std::span<const JudgedRow> rows) {
  const int64_t head_dim = scaled.stride();
  for (size_t r = 0; r < rows.size(); ++r) {
    double* query = scaled.row(int64_t(r));
    load_cell(q_, geometry_.query(rows[r].b, rows[r].i), rows[r].h, head_dim, query);
    for (int64_t d = 0; d < head_dim; ++d) query[d] *= softmax_scale_;
  }
}

void Queries::find_magnitudes(int64_t rows, bool squared, bool common_channel) {
  write_magnitudes(scaled.numbers().first(size_t(rows * scaled.stride())), squared,
                   magnitudes.numbers());
  for (int64_t r = 0; r < rows && squared && common_channel; ++r) magnitudes.row(r)[0] = 0;
}

Keys::Keys(const Tensor& k, const Geometry& geometry, const BlockShape& shape)
    : transposed(shape.head_dim, shape.key_stride),
      magnitudes(shape.head_dim, shape.key_stride),
      k_(k),
      geometry_(geometry),
      some_rows_(kKeysTogether, shape.head_dim) {}

void Keys::load(const RowTask& task, const KeyBlock& block) {
  const int64_t head_dim = some_rows_.stride(), columns = round_up(block.count(), kColumns);
  for (int64_t first = 0; first < columns; first += kKeysTogether) {
    for (int64_t n = 0; n < kKeysTogether; ++n) {
      if (first + n < block.count())
        load_cell(k_, geometry_.key(task.b, block.place(first + n)), task.kv_head, head_dim,
                  some_rows_.row(n));
      else
        std::fill_n(some_rows_.row(n), head_dim, 0.0);
    }
    const double* rows = some_rows_.row(0);
    for (int64_t d = 0; d < head_dim; ++d) {
      double* columns_of_channel = transposed.row(d) + first;
      for (int64_t n = 0; n < kKeysTogether; ++n) columns_of_channel[n] = rows[n * head_dim + d];
    }
  }
}

void Keys::find_magnitudes(bool squared, int64_t keys) {
  const int64_t head_dim = some_rows_.stride();
  const auto columns = size_t(round_up(keys, kColumns));
  for (int64_t d = 0; d < head_dim; ++d)
    write_magnitudes({transposed.row(d), columns}, squared, {magnitudes.row(d), columns});
}

double Keys::first_finite(const RowTask& task, int64_t channel) const {
  const TensorSpec& spec = k_.spec;
  for (int64_t j = task.keys.begin; j < task.keys.end; ++j) {
    const Cell cell = geometry_.key(task.b, j);
    const double value = core::load(k_.data, spec.dtype,
                                    cell.outer * spec.stride[0] + task.kv_head * spec.stride[1] +
                                        cell.row * spec.stride[2] + channel * spec.stride[3]);
    if (is_finite(value)) return value;
  }
  return 0;
}

Values::Values(const Tensor& v, const Geometry& geometry, const BlockShape& shape)
    : values(shape.keys, shape.value_stride),
      squares(shape.keys, shape.value_stride),
      v_(v),
      geometry_(geometry),
      head_dim_v_(shape.head_dim_v) {}

void Values::load(const RowTask& task, const KeyBlock& block) {
  non_finite.clear();
  for (int64_t key = 0; key < block.count(); ++key) {
    double *value = values.row(key), *square = squares.row(key);
    load_cell(v_, geometry_.key(task.b, block.place(key)), task.kv_head, head_dim_v_, value);
    const bool all_finite = are_finite(value, head_dim_v_);
    for (int64_t d = 0; !all_finite && d < head_dim_v_; ++d) {
      if (is_finite(value[d])) continue;
      non_finite.push_back({key, d, value[d]});
      value[d] = 0;
    }
    largest = std::max(largest, square_row(value, head_dim_v_, square));
  }
}

}  // namespace attest::core::passes
