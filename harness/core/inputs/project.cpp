// The seeded matrix product from features to Q, K, V.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/inputs/features.hpp"
#include "core/inputs/tokens.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr int64_t kPanel = 8;  // columns that a block's accumulators span
constexpr int64_t kRows = 4;   // rows of a block

/// The matrix in panels: [panel][feature][kPanel], columns past heads * dim are 0.
std::vector<float> seeded_panels(int64_t features, int64_t columns, uint64_t seed,
                                 std::optional<uint64_t> shared_seed) {
  const int64_t panels = (columns + kPanel - 1) / kPanel;
  const float scale = float(1 / std::sqrt(double(features)));
  std::vector<float> matrix(size_t(panels * features * kPanel), 0.0f);
#pragma omp parallel for schedule(static)
  for (int64_t panel = 0; panel < panels; ++panel)
    for (int64_t f = 0; f < features; ++f)
      for (int64_t c = panel * kPanel; c < std::min(columns, (panel + 1) * kPanel); ++c) {
        const uint64_t index = uint64_t(f * columns + c);
        float value = random_normal(seed, index);
        if (shared_seed)
          value = 0.8f * random_normal(*shared_seed ^ 0x736861726564u, index) + 0.6f * value;
        matrix[(panel * features + f) * kPanel + c % kPanel] = value * scale;
      }
  return matrix;
}

/// Four lanes, which every machine has; GCC and Clang both know the attribute.
using Float4 __attribute__((vector_size(16))) = float;

Float4 load_four(const float* from) {
  Float4 four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

/// acc[r][c] = sum over f of x[r][f] * w[f][c], the terms in order: any vector width gives the same
/// sums.
void multiply_block(const float* const (&x)[kRows], const float* w, int64_t features,
                    float (&acc)[kRows][kPanel]) {
  Float4 low[kRows] = {}, high[kRows] = {};
  for (int64_t f = 0; f < features; ++f, w += kPanel) {
    const Float4 w_low = load_four(w), w_high = load_four(w + 4);
    for (int64_t r = 0; r < kRows; ++r) {
      const float value = x[r][f];
      const Float4 four = {value, value, value, value};
      low[r] += four * w_low;
      high[r] += four * w_high;
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    std::memcpy(acc[r], &low[r], sizeof low[r]);
    std::memcpy(acc[r] + 4, &high[r], sizeof high[r]);
  }
}

struct Shape {
  int64_t rows, heads, dim;
};

void multiply_rows(const Tokens& tokens, std::span<const int32_t> rows, int64_t first,
                   const std::vector<float>& matrix, const Shape& shape, float* out) {
  const int64_t columns = shape.heads * shape.dim, features = tokens.feature_dim,
                count = std::min(kRows, shape.rows - first);
  const float* x[kRows];
  for (int64_t r = 0; r < kRows; ++r)
    x[r] = tokens.features.data() + rows[first + std::min(r, count - 1)] * features;
  float acc[kRows][kPanel];
  for (int64_t column = 0; column < columns; column += kPanel) {
    multiply_block(x, matrix.data() + column * features, features, acc);
    for (int64_t c = column; c < std::min(columns, column + kPanel); ++c)
      for (int64_t r = 0; r < count; ++r)
        out[((c / shape.dim) * shape.rows + first + r) * shape.dim + c % shape.dim] =
            acc[r][c - column];
  }
}

void centre_channels(std::span<float> out, const Shape& shape) {
  for (int64_t h = 0; h < shape.heads; ++h) {
    const std::span<float> head =
        out.subspan(size_t(h * shape.rows * shape.dim), size_t(shape.rows * shape.dim));
    const std::vector<double> sums = column_sums(head, shape.dim);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < shape.rows; ++i)
      for (int64_t d = 0; d < shape.dim; ++d) {
        float& value = head[i * shape.dim + d];
        value = float(double(value) - sums[d] / double(shape.rows));
      }
  }
}

}  // namespace

void project_tokens(const Tokens& tokens, std::span<const int32_t> rows, uint64_t seed,
                    int64_t heads, int64_t dim, bool centre, std::span<float> out,
                    std::optional<uint64_t> shared_seed) {
  const Shape shape{int64_t(rows.size()), heads, dim};
  if (rows.empty() || heads < 1 || dim < 1)
    throw Error(fmt::format("cannot project {} rows to {} heads of {}: each is at least 1",
                            rows.size(), heads, dim));
  if (int64_t(out.size()) != shape.rows * heads * dim)
    throw Error(fmt::format("room for {} values, {} heads x {} rows x {} are projected", out.size(),
                            heads, shape.rows, dim));
  for (const int32_t row : rows)
    if (row < 0 || row >= tokens.count)
      throw Error(
          fmt::format("{}: row {} asked for, it has {} tokens", tokens.source, row, tokens.count));
  const std::vector<float> matrix =
      seeded_panels(tokens.feature_dim, heads * dim, seed, shared_seed);
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < shape.rows; first += kRows)
    multiply_rows(tokens, rows, first, matrix, shape, out.data());
  if (centre) centre_channels(out, shape);
}

}  // namespace attest::core
