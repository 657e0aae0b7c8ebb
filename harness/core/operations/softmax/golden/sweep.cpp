#include "core/operations/softmax/golden/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/operations/softmax/sigma/sigma.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kSweptRows = 32768;

bool all_finite(const std::vector<double>& row) {
  return std::all_of(row.begin(), row.end(), [](double x) { return std::isfinite(x); });
}

constexpr double kLargestLse = 0x1p17;  // that fills make: logits of "wide" reach 120,000

// What computed weights that do not quite sum to 1 may add to an average of values up to `largest`:
// at worst every rounding of P goes the same way; the accumulator's are independent, six standard
// deviations of them.
double slack(const SigmaModel& model, int64_t keys, double largest) {
  const double sum = 12 * model.u_acc * std::sqrt(model.chain(keys) / 3);
  const double weights = 2 * model.u_lse * kLargestLse;
  return largest * (model.u_out + 2 * model.u_p + 2 * model.u_v + double(keys) * model.eta_p + sum +
                    weights) +
         6 * model.eta_out;
}

void send(const Golden::Sink& sink, const Expected& expected, const std::vector<int64_t>& rows) {
  for (size_t begin = 0; begin < rows.size(); begin += kSweptRows) {
    Expected chunk = expected;
    chunk.rows = std::span(rows).subspan(begin, std::min(kSweptRows, rows.size() - begin));
    sink(chunk);
  }
}

}  // namespace

std::vector<ValueBounds::BiasRow> ValueBounds::bias_rows(const Tensor& bias) {
  if (!bias || bias.spec.dim[2] == 1) return {};
  const TensorSpec& spec = bias.spec;
  const int64_t rows = spec.dim[0] * spec.dim[1] * spec.dim[2];
  // Scores that f16 holds do not lift what is below this into its range.
  const double below = -2 * largest_finite(ATTEST_F16);
  std::vector<BiasRow> found(static_cast<size_t>(rows));
#pragma omp parallel if (rows * spec.dim[3] > kThreadedElements)
  {
    std::vector<double> row(static_cast<size_t>(spec.dim[3]));
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
      load_row(bias.data, spec.dtype, row_offset(spec, 3, r), spec.dim[3], spec.stride[3],
               row.data());
      found[size_t(r)] = {
          std::ranges::any_of(row, [](double x) { return std::isnan(x) || x == kInfinity; }),
          std::ranges::all_of(row, [=](double x) { return x <= below; })};
    }
  }
  return found;
}

ValueBounds::ValueBounds(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                         bool swept, bool scores_spread)
    : params_(problem.as<attest_softmax_params>()),
      q_(tensors[ATTEST_Q]),
      bias_(tensors[ATTEST_BIAS].spec),
      bias_rows_(swept ? bias_rows(tensors[ATTEST_BIAS]) : std::vector<BiasRow>()),
      scores_spread_(scores_spread),
      lse_(present(problem.tensor[ATTEST_LSE])),
      storage_(tensors[ATTEST_V].spec.dtype) {
  const int64_t heads = params_.num_kv_heads, dim_v = params_.head_dim_v,
                units = params_.batch * heads;
  low_.assign(size_t(units * dim_v), kInfinity);
  high_.assign(low_.size(), -kInfinity);
  const Tensor &k = tensors[ATTEST_K], &v = tensors[ATTEST_V];
  const bool large = units * params_.seq_len_kv * (params_.head_dim + dim_v) > kThreadedElements;
#pragma omp parallel for schedule(dynamic, 1) if (large)
  for (int64_t unit = 0; unit < units; ++unit) {
    const int64_t b = unit / heads, head = unit % heads;
    std::vector<double> key(static_cast<size_t>(params_.head_dim)),
        value(static_cast<size_t>(dim_v));
    double *low = low_.data() + unit * dim_v, *high = high_.data() + unit * dim_v;
    auto load_cell = [head](const Tensor& tensor, const Cell& cell, std::vector<double>& row) {
      const TensorSpec& spec = tensor.spec;
      load_row(tensor.data, spec.dtype,
               cell.outer * spec.stride[0] + head * spec.stride[1] + cell.row * spec.stride[2],
               int64_t(row.size()), spec.stride[3], row.data());
    };
    bool wild_key = false;
    std::vector<char> wild(static_cast<size_t>(dim_v), 0);
    for (int64_t j = 0; j < geometry.length_kv(b); ++j) {
      const Cell cell = geometry.key(b, j);
      load_cell(k, cell, key);
      load_cell(v, cell, value);
      wild_key |= !all_finite(key);
      for (size_t d = 0; d < value.size(); ++d) {
        low[d] = std::min(low[d], value[d]);
        high[d] = std::max(high[d], value[d]);
        wild[d] |= !std::isfinite(value[d]);
      }
    }
    for (size_t d = 0; d < wild.size(); ++d)
      if (wild_key || wild[d]) low[d] = high[d] = kNaN;
  }
  unbounded_ = std::count_if(low_.begin(), low_.end(), [](double x) { return std::isnan(x); });
}

bool ValueBounds::is_wild(int64_t b, int64_t h, const Geometry& geometry, int64_t i,
                          const SoftmaxArithmetic& arithmetic, std::vector<double>& row) const {
  const Cell cell = geometry.query(b, i);
  const TensorSpec& spec = q_.spec;
  load_row(q_.data, spec.dtype,
           cell.outer * spec.stride[0] + h * spec.stride[1] + cell.row * spec.stride[2],
           int64_t(row.size()), spec.stride[3], row.data());
  const bool holds = largest_finite(arithmetic.score) > largest_finite(ATTEST_F16);
  if (!all_finite(row) || (scores_spread_ && !holds)) return true;
  if (bias_rows_.empty()) return false;
  const auto& dim = bias_.dim;
  const int64_t outer = dim[0] > 1 ? b : 0, head = dim[1] > 1 ? h : 0;
  const BiasRow& bias = bias_rows_[size_t((outer * dim[1] + head) * dim[2] + geometry.token(i))];
  return bias.wild || (bias.far && (!holds || arithmetic.has(ATTEST_WEIGHS_BY_LSE)));
}

ValueBounds::Bounds ValueBounds::average(const Geometry& geometry,
                                         const SoftmaxArithmetic& arithmetic, int64_t b,
                                         int64_t h) const {
  const SigmaModel model(arithmetic, storage_, params_.head_dim);
  const int64_t dim_v = params_.head_dim_v,
                unit = b * params_.num_kv_heads + h / (params_.num_heads / params_.num_kv_heads);
  Bounds bounds{{low_.begin() + unit * dim_v, low_.begin() + (unit + 1) * dim_v},
                {high_.begin() + unit * dim_v, high_.begin() + (unit + 1) * dim_v}};
  for (size_t d = 0; d < bounds.low.size(); ++d) {
    const double extra = slack(model, geometry.length_kv(b),
                               std::max(std::fabs(bounds.low[d]), std::fabs(bounds.high[d])));
    bounds.low[d] -= extra;
    bounds.high[d] += extra;
  }
  return bounds;
}

void ValueBounds::sweep_head(const Geometry& geometry, const SoftmaxArithmetic& arithmetic,
                             int64_t b, int64_t h, const Golden::Sink& sink) const {
  std::vector<int64_t> bounded, unbounded;
  std::vector<double> row(static_cast<size_t>(params_.head_dim));
  for (int64_t i = 0; i < geometry.length_q(b); ++i)
    if (geometry.keys(b, i).size() > 0) {
      auto& rows = is_wild(b, h, geometry, i, arithmetic, row) ? unbounded : bounded;
      rows.push_back(geometry.output_row(b, h, i));
    }

  auto [low, high] = average(geometry, arithmetic, b, h);
  for (size_t d = 0; d < low.size(); ++d)
    if (geometry.may_hide() || geometry.has_sinks()) {
      low[d] = low[d] > 0 ? 0 : low[d];
      high[d] = high[d] < 0 ? 0 : high[d];
    }
  const std::vector<double> nothing(low.size(), kNaN);
  send(sink,
       {.role = ATTEST_O,
        .leading = 3,
        .width = params_.head_dim_v,
        .rows = {},
        .shared = true,
        .low = low.data(),
        .high = high.data()},
       bounded);
  send(sink,
       {.role = ATTEST_O,
        .leading = 3,
        .width = params_.head_dim_v,
        .rows = {},
        .shared = true,
        .low = nothing.data(),
        .high = nothing.data()},
       unbounded);
  if (!lse_) return;
  const bool wild = std::any_of(low.begin(), low.end(), [](double x) { return std::isnan(x); });
  const double least = wild                  ? kNaN
                       : geometry.may_hide() ? -kInfinity
                                             : -largest_finite(ATTEST_F32),
               most = wild ? kNaN : largest_finite(ATTEST_F32);
  send(sink,
       {.role = ATTEST_LSE,
        .leading = 3,
        .width = 1,
        .rows = {},
        .shared = true,
        .low = &least,
        .high = &most},
       bounded);
  send(sink,
       {.role = ATTEST_LSE,
        .leading = 3,
        .width = 1,
        .rows = {},
        .shared = true,
        .low = nothing.data(),
        .high = nothing.data()},
       unbounded);
}

void ValueBounds::sweep(const Geometry& geometry, const SoftmaxArithmetic& arithmetic,
                        const Golden::Sink& sink) const {
  sweep_empty(geometry, arithmetic, sink);
  const int64_t units = params_.batch * params_.num_heads;
#pragma omp parallel for schedule( \
        dynamic, 1) if (units * params_.seq_len_q * params_.head_dim > kThreadedElements)
  for (int64_t unit = 0; unit < units; ++unit)
    sweep_head(geometry, arithmetic, unit / params_.num_heads, unit % params_.num_heads, sink);
}

std::vector<int64_t> ValueBounds::empty_rows(const Geometry& geometry) const {
  std::vector<int64_t> rows = geometry.idle_rows();
  for (int64_t b = 0; b < geometry.batch(); ++b)
    for (int64_t i = 0; i < geometry.length_q(b); ++i)
      for (int64_t h = 0; geometry.keys(b, i).size() == 0 && h < params_.num_heads; ++h)
        rows.push_back(geometry.output_row(b, h, i));
  return rows;
}

void ValueBounds::sweep_empty(const Geometry& geometry, const SoftmaxArithmetic& arithmetic,
                              const Golden::Sink& sink) const {
  const std::vector<int64_t> rows = empty_rows(geometry);
  const SigmaModel model(arithmetic, storage_, params_.head_dim);
  const std::vector<double> zero(size_t(params_.head_dim_v), 0.0),
      sigma(zero.size(), model.element_sigma({}, 0));
  const double no_lse = -kInfinity, exact = 0;
  send(sink,
       {.role = ATTEST_O,
        .leading = 3,
        .width = params_.head_dim_v,
        .rows = {},
        .shared = true,
        .value = zero.data(),
        .sigma = sigma.data()},
       rows);
  if (lse_)
    send(sink,
         {.role = ATTEST_LSE,
          .leading = 3,
          .width = 1,
          .rows = {},
          .shared = true,
          .value = &no_lse,
          .sigma = &exact},
         rows);
}

}  // namespace attest::core
