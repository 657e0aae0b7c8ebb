// What one row has, computed from the bytes of the inputs.
#include <cmath>
#include <limits>

#include "core/operations/softmax_backward/events/events.hpp"
#include "core/operations/softmax_backward/row_edge.hpp"

namespace attest::core::backward {

double EventInputs::lse(int64_t b, const RowPlace& place) const {
  const Cell cell = geometry.query(b, place.i);
  return stored[ATTEST_LSE].at({cell.outer, place.h, cell.row});
}

bool EventInputs::is_nan(int32_t role, Cell cell, int64_t head) const {
  const Tensor& tensor = numbers[size_t(role)];
  for (int64_t c = 0; c < tensor.spec.dim[3]; ++c)
    if (std::isnan(tensor.at({cell.outer, head, cell.row, c}))) return true;
  return false;
}

TopKEdge EventInputs::edge_of(const Row& row) const {
  if (p.top_k == 0) return {};
  std::vector<double> logits(size_t(p.seq_len_kv), -std::numeric_limits<double>::infinity());
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) logits[size_t(j)] = row.logit(j);
  return find_edge(p, logits);
}

double slope_of(const Unit& unit, const RowPlace& place, int64_t j) {
  const auto softcap = double(unit.params().softcap);
  if (softcap <= 0) return 1;
  const double t = std::tanh(double(unit.plain_score(place, j)) / softcap);
  return 1 - t * t;
}

RowGradients row_gradients(const EventInputs& inputs, const Unit& unit, const RowPlace& place,
                           const Row& row) {
  const Cell cell = inputs.geometry.query(unit.b(), place.i);
  const auto width = size_t(inputs.p.head_dim_v);
  std::vector<double> d_o(width);
  RowGradients of{.p = std::vector<double>(row.logits.size()),
                  .ds = std::vector<double>(row.logits.size())};
  of.lse = inputs.lse(unit.b(), place);
  for (size_t c = 0; c < width; ++c) {
    d_o[c] = inputs.stored[ATTEST_DO].at({cell.outer, place.h, cell.row, int64_t(c)});
    of.delta += d_o[c] * inputs.stored[ATTEST_O].at({cell.outer, place.h, cell.row, int64_t(c)});
  }
  const TopKEdge edge = inputs.edge_of(row);
  for (const int64_t j : unit.wild_values())
    of.nan_below |= row.keys.contains(j) && row.sees(j) && !edge.keeps(row.logit(j), j);
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    if (!row.sees(j) || !edge.keeps(row.logit(j), j)) continue;
    const auto n = size_t(j - row.keys.begin);
    const float* const v = unit.value(j);
    double dot = 0;
    for (size_t c = 0; c < width; ++c) dot += d_o[c] * double(v[c]);
    of.p[n] = std::exp(double(row.logit(j)) - of.lse);
    of.ds[n] = of.p[n] * (dot - of.delta) * slope_of(unit, place, j);
    of.weight += of.p[n];
    of.top = std::max(of.top, of.p[n]);
    of.mean_g += of.p[n] * std::fabs(dot - of.delta);
    of.largest_ds = std::max(of.largest_ds, std::fabs(of.ds[n]));
    ++of.visible;
  }
  return of;
}

}  // namespace attest::core::backward
