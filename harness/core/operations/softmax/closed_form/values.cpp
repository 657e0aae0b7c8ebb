#include "core/operations/softmax/closed_form/values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/operations/fill_rows.hpp"
#include "core/operations/numerics/portable_math.hpp"
#include "core/operations/softmax/closed_form/golden/rows.hpp"
#include "core/operations/softmax/closed_form/value_sizes.hpp"
#include "core/tensor/constants.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr float kHeavy = 4;
constexpr int64_t kBlock = Codebook::kBlock;

// Nearly normal (the sum of four 16-bit numbers, standard deviation 1.15) and multiples of 2^-15
// below 4, which rounding to any dtype keeps them: sums of up to 2^18 of them, and of as many
// squares, are exact in float64, so that running sums cannot drift.
float random_value(uint64_t seed, uint64_t index) {
  uint64_t bits = random_bits(seed, index);
  int sum = 0;
  for (int i = 0; i < 4; ++i, bits >>= 16) sum += int(bits & 0xffff);
  return float(sum - 131070) * 0x1p-15f;
}

// What makes eight random values orthogonal to the weights that every query code of a head gives
// the codes of one pattern.
class Projection {
 public:
  Projection(const codebook::HeadScores& scores, const Codebook& book, double softcap,
             int64_t pattern) {
    // All keys of a block have one level, which multiplies their weights alike.
    const int64_t levels = book.levels().key_levels();
    for (int64_t h = 0; h < book.query_codes(); ++h) {
      std::array<double, kBlock> s, row;
      for (int64_t k = 0; k < kBlock; ++k) {
        const auto at = size_t(h * book.key_groups() + (pattern * kBlock + k) * levels);
        // The scores have the library's tanh, which is not the same everywhere.
        s[size_t(k)] =
            softcap > 0 ? softcap * portable_tanh(scores.uncapped[at] / softcap) : scores.score[at];
      }
      const double top = *std::max_element(s.begin(), s.end());
      for (size_t k = 0; k < row.size(); ++k) row[k] = double(float(portable_exp(s[k] - top)));
      add(row);
    }
  }
  /// The part of `values`, in the order of the codes, that is left for code `k`.
  double project(const std::array<float, kBlock>& values, size_t k) const {
    double rest = double(values[k]);
    for (size_t r = 0; r < rows_; ++r) {
      double along = 0;
      for (size_t n = 0; n < values.size(); ++n) along += basis_[r][n] * double(values[n]);
      rest -= along * basis_[r][k];
    }
    return rest;
  }

 private:
  // Gram and Schmidt; a row that the others span already adds nothing.
  void add(std::array<double, kBlock> row) {
    for (int round = 0; round < 2; ++round)
      for (size_t r = 0; r < rows_; ++r) {
        double along = 0;
        for (size_t k = 0; k < row.size(); ++k) along += row[k] * basis_[r][k];
        for (size_t k = 0; k < row.size(); ++k) row[k] -= along * basis_[r][k];
      }
    double squares = 0;
    for (const double x : row) squares += x * x;
    if (squares < 1e-8) return;
    for (double& x : row) x /= std::sqrt(squares);
    basis_[rows_++] = row;
  }

  std::array<std::array<double, kBlock>, Codebook::kCancellingQueries> basis_;
  size_t rows_ = 0;
};

// Of one key head; empty where values do not cancel.
std::vector<Projection> projections(const Problem& problem, const Codebook& book,
                                    const Tensors& tensors, int64_t kv_head) {
  std::vector<Projection> found;
  if (book.kind() != Codebook::Kind::kCancelling) return found;
  const auto& p = problem.as<attest_softmax_params>();
  const codebook::HeadScores scores(book, p, kv_head * (p.num_heads / p.num_kv_heads),
                                    tensors[ATTEST_Q].spec.dtype, tensors[ATTEST_K].spec.dtype);
  for (int64_t pattern = 0; pattern < book.key_codes() / kBlock; ++pattern)
    found.emplace_back(scores, book, double(p.softcap), pattern);
  return found;
}

// The values of keys whose blocks cancel. The keys of a block follow one another, so its random
// numbers are kept for the next key.
class CancellingRows {
 public:
  explicit CancellingRows(int64_t width) : random_(static_cast<size_t>(width)) {}
  void write(const Projection& projection, const Codebook::BlockPlace& at, uint64_t seed,
             std::vector<float>& values) {
    if (seed != seed_ || at.block != block_) draw(seed, at.block);
    const auto mine = size_t(at.code(at.place) % kBlock);
    for (size_t c = 0; c < values.size(); ++c)
      values[c] = float(std::nearbyint(projection.project(random_[c], mine) * 0x1p15)) * 0x1p-15f;
  }

 private:
  void draw(uint64_t seed, int64_t block) {
    const uint64_t width = random_.size();
    for (uint64_t c = 0; c < width; ++c)
      for (uint64_t code = 0; code < uint64_t(kBlock); ++code)
        random_[c][code] = random_value(seed, (uint64_t(block) * kBlock + code) * width + c);
    seed_ = seed;
    block_ = block;
  }

  std::vector<std::array<float, kBlock>> random_;  // [width]
  uint64_t seed_ = 0;
  int64_t block_ = -1;  // that random_ belongs to; none before the first key
};

// Of "edges": four times the values at edges, the key's place in channel 0 and 1 in the last one.
void mark_edges(const Codebook& book, int64_t head, Cell cell, std::vector<float>& values) {
  if (book.key_code(head, cell) < book.edge_codes())
    for (float& x : values) x *= kHeavy;
  if (values.size() < 3) return;
  const Codebook::KeyPlace at = book.key_place(cell);
  values.front() = float(std::nearbyint(double(at.place) / double(at.length) * 0x1p15)) * 0x1p-15f;
  values.back() = 1;
}

// Of "rising". In even channels marks have 0 and all other keys are positive and large, so that
// faint weights show. In odd channels the values grow from mark to mark; the first mark, which most
// rows see, has the largest.
void raise_marks(const Codebook& book, int64_t head, Cell cell, std::vector<float>& values) {
  const uint8_t code = book.key_code(head, cell);
  const bool mark = code < book.edge_codes();
  const float others = others_factor(book);
  for (size_t c = 0; c < values.size(); ++c) {
    if (c % 2 == 0)
      values[c] = mark ? 0 : others * std::fabs(values[c]);
    else if (mark)
      values[c] = std::ldexp(values[c], mark_exponent(code));
  }
}

}  // namespace

float wild_value(uint64_t seed, uint64_t index) {
  constexpr double kWild[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
  return float(kWild[random_below(seed, index, 3)]);
}

void store_vector(const Tensor& tensor, int64_t head, Cell cell, const float* values) {
  const TensorSpec& spec = tensor.spec;
  store_row(tensor.data, spec.dtype,
            cell.outer * spec.stride[0] + head * spec.stride[1] + cell.row * spec.stride[2],
            spec.dim[3], spec.stride[3], values);
}

void fill_values(const Problem& problem, const Codebook& book, const Tensors& tensors,
                 uint64_t seed) {
  const Tensor& v = tensors[ATTEST_V];
  const int64_t heads = v.spec.dim[1], rows = v.spec.dim[2], width = v.spec.dim[3],
                cells = v.spec.dim[0] * rows;
  std::vector<std::vector<Projection>> cancelling;
  for (int64_t head = 0; head < heads; ++head)
    cancelling.push_back(projections(problem, book, tensors, head));
#pragma omp parallel
  {
    std::vector<float> values(static_cast<size_t>(width));
    CancellingRows cancelling_rows(width);
#pragma omp for schedule(static)
    for (int64_t r = 0; r < heads * cells; ++r) {  // counts [outer, head, row]
      const Cell cell{r / rows / heads, r % rows};
      const int64_t head = r / rows % heads;
      const std::vector<Projection>& patterns = cancelling[size_t(head)];
      if (book.key_code(head, cell) == Codebook::kUnseen) {
        std::fill(
            values.begin(), values.end(),
            book.kind() == Codebook::Kind::kHuge ? wild_value(seed, uint64_t(r)) : kDecoyValue);
      } else if (patterns.empty()) {
        for (int64_t c = 0; c < width; ++c)
          values[size_t(c)] = random_value(seed, uint64_t(r * width + c));
        if (book.kind() == Codebook::Kind::kEdges) mark_edges(book, head, cell, values);
        if (book.kind() == Codebook::Kind::kRising) raise_marks(book, head, cell, values);
        if (book.kind() == Codebook::Kind::kTiny)
          for (size_t c = 0; c < values.size(); c += 2)
            values[c] *= float(smallest_normal(v.spec.dtype) / 4);
      } else {
        const Codebook::BlockPlace at = book.block_place(head, cell);
        cancelling_rows.write(patterns[size_t(at.pattern)], at, random_bits(seed, uint64_t(head)),
                              values);
      }
      store_vector(v, head, cell, values.data());
    }
  }
}

}  // namespace attest::core
