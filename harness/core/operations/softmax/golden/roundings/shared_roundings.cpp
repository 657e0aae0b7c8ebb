#include "core/operations/softmax/golden/roundings/shared_roundings.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/tensor/random.hpp"

namespace attest::core::passes {
namespace {

constexpr uint64_t kSigns = 0x51;  // the seed of the signs

int64_t groups_of(const BlockShape& shape) {
  return std::min(shape.head_dim, SharedRoundings::kGroups);
}

// rounded() for many numbers of one dtype.
class Rounding {
 public:
  explicit Rounding(DType dtype)
      : is_float_(dtype == ATTEST_F32),
        is_exact_(dtype == ATTEST_F64),
        normal_(smallest_normal(dtype)),
        step_(2 * half_subnormal(dtype)),
        splitter_(0x1p53 * unit_roundoff(dtype) + 1),
        largest_(largest_finite(dtype)) {}

  double operator()(double x) const {
    if (is_float_) return double(float(x));
    if (is_exact_) return x;
    if (std::fabs(x) < normal_) return std::nearbyint(x / step_) * step_;
    const double t = splitter_ * x, y = t - (t - x);
    return std::fabs(y) > largest_ ? std::copysign(INFINITY, x) : y;
  }

 private:
  bool is_float_, is_exact_;
  double normal_, step_, splitter_, largest_;
};

// Writes what rounding adds to each number; NaN and infinities do not err. Returns whether any do.
bool find_errors(std::span<const double> from, const Rounding& rounding, double* to) {
  bool any = false;
  for (size_t n = 0; n < from.size(); ++n) {
    const double error = rounding(from[n]) - from[n];
    to[n] = std::isfinite(error) ? error : 0;
    any |= to[n] != 0;
  }
  return any;
}

}  // namespace

void SharedRoundings::Moved::clear() {
  with_v.clear();
  std::fill(alone.begin(), alone.end(), 0.0);
}

SharedRoundings::SharedRoundings(const BlockShape& shape)
    : head_dim_(shape.head_dim),
      head_dim_v_(shape.head_dim_v),
      signs_(size_t(shape.head_dim)),
      signed_queries_(kTaskRows, shape.head_dim),
      key_errors_(shape.head_dim, shape.key_stride),
      value_errors_(shape.keys, shape.value_stride),
      weights_(kTileRows, shape.key_stride),
      by_query_(size_t(groups_of(shape)), Moved(shape)),
      by_keys_(shape),
      by_values_(kTaskRows, shape.value_stride) {
  for (size_t c = 0; c < signs_.size(); ++c) signs_[c] = random_bits(kSigns, c) % 2 == 0 ? 1 : -1;
}

void SharedRoundings::start(const Queries& queries, int64_t rows, const SigmaModel& model) {
  model_ = model;
  query_square_ = model.u_qk * model.u_qk / 3;
  for (Moved& moved : by_query_) moved.clear();
  by_keys_.clear();
  by_values_.clear();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < head_dim_; ++c)
      signed_queries_.row(r)[c] = signs_[size_t(c)] * queries.scaled.row(r)[c];
}

void SharedRoundings::load(const Keys& keys, const Values& values, const KeyBlock& block) {
  const auto columns = size_t(round_up(block.count(), kColumns));
  const Rounding qk(model_->qk), pv(model_->pv);
  keys_err_ = values_err_ = false;
  for (int64_t c = 0; c < head_dim_; ++c)
    keys_err_ |= find_errors({keys.transposed.row(c), columns}, qk, key_errors_.row(c));
  for (int64_t key = 0; key < block.count(); ++key)
    values_err_ |=
        find_errors({values.values.row(key), size_t(head_dim_v_)}, pv, value_errors_.row(key));
}

void SharedRoundings::add(const TileScores& scores, const Matrix& probabilities,
                          const Queries& queries, const Keys& keys, const Values& values,
                          const KeyBlock& block, const Tile& tile) {
  const int64_t rows = padded_rows(tile.count()), columns = round_up(block.count(), kColumns),
                groups = int64_t(by_query_.size());
  const auto multiply = [&](const Matrix& of_queries, const Matrix& of_keys, int64_t begin,
                            int64_t end) {
    weights_.clear(rows);
    add_product(of_queries.left(tile.first, begin), of_keys.right(begin), weights_.sum(0),
                {.rows = rows, .inner = end - begin, .columns = columns});
  };
  for (int64_t group = 0; group < groups && query_square_ > 0; ++group) {
    multiply(signed_queries_, keys.transposed, group * head_dim_ / groups,
             (group + 1) * head_dim_ / groups);
    add_moved(scores, probabilities, values, block, tile, by_query_[size_t(group)]);
  }
  if (keys_err_) {
    multiply(queries.scaled, key_errors_, 0, head_dim_);
    add_moved(scores, probabilities, values, block, tile, by_keys_);
  }
  if (values_err_) add_weighted(probabilities, value_errors_, block.count(), tile, by_values_);
}

void SharedRoundings::add_moved(const TileScores& scores, const Matrix& probabilities,
                                const Values& values, const KeyBlock& block, const Tile& tile,
                                Moved& to) {
  for (int64_t r = 0; r < tile.count(); ++r) {
    const double *p = probabilities.row(r),
                 *slope = scores.has_softcap() ? scores.slopes.row(r) : nullptr;
    double *weight = weights_.row(r), sum = 0;
    for (int64_t key = 0; slope && key < block.count(); ++key)
      weight[key] = slope[key] == 0 ? 0 : weight[key] * slope[key];
    for (int64_t key = 0; key < block.count(); ++key) {
      weight[key] = p[key] > 0 ? p[key] * weight[key] : 0;  // a hidden key may be NaN
      sum += weight[key];
    }
    to.alone[size_t(tile.first + r)] += sum;
  }
  add_weighted(weights_, values.values, block.count(), tile, to.with_v);
}

SharedRoundings::Variances SharedRoundings::find(int64_t row, const double* o) const {
  const auto width = size_t(head_dim_v_);
  Variances found{std::vector<double>(width), std::vector<double>(width)};
  const auto add_squares = [&](const Moved& moved, double factor) {
    const double *with_v = moved.with_v.row(row), alone = moved.alone[size_t(row)];
    for (size_t d = 0; d < width; ++d) {
      const double term = with_v[d] - o[d] * alone;
      found.scores[d] += factor * term * term;
    }
  };
  for (const Moved& moved : by_query_) add_squares(moved, query_square_);
  add_squares(by_keys_, 1);
  for (size_t d = 0; d < width; ++d)
    found.values[d] = by_values_.row(row)[d] * by_values_.row(row)[d];
  return found;
}

int64_t SharedRoundings::bytes(const BlockShape& shape) {
  const int64_t numbers = kTaskRows * shape.head_dim + shape.head_dim * shape.key_stride +
                          shape.keys * shape.value_stride + kTileRows * shape.key_stride +
                          (groups_of(shape) + 2) * kTaskRows * (shape.value_stride + 1);
  return numbers * int64_t(sizeof(double));
}

}  // namespace attest::core::passes
