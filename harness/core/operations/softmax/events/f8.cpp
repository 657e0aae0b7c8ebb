// Events of Q and K in 8 bits with factors: products of what is stored, before factors multiply
// them.
#include <algorithm>
#include <cmath>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"

namespace attest::core::events {
namespace {

using Params = attest_softmax_params;

constexpr double kBudget = 2e9;       // multiply-adds, or what takes as long, of all rows
constexpr float kLargestF16 = 65504;  // a product beyond it overflows f16
constexpr double kMask = -10000;      // what kernels write in place of a hidden product
// A hidden key shows if its score is at most so far below the largest.
constexpr double kHiddenShows = 8;

// The rows of one query head.
class Rows {
 public:
  Rows(const Unit& unit, const Tensors& tensors, Found& found)
      : unit_(unit),
        geometry_(unit.geometry()),
        q_factors_(tensors[ATTEST_Q_DESCALE]),
        k_factors_(tensors[ATTEST_K_DESCALE]),
        found_(found) {}

  void look_at(const RowPlace& place) {
    const Row row = unit_.row(place, buffer_);
    const Params& p = unit_.params();
    const double of_query =
        double(p.softmax_scale) * factor(q_factors_, unit_.head(), place.i, p.descale_block_q);
    // The largest score of the keys that are seen, and of the hidden ones, with kMask as their
    // product
    double top = kHidden, nearest = kHidden;
    for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
      const double factors = of_query * factor(k_factors_, unit_.kv_head(), j, p.descale_block_kv);
      if (!row.sees(j) && !geometry_.visible(unit_.b(), unit_.head(), place.i, j)) {
        nearest = std::max(nearest, kMask * factors);
        continue;
      }
      const float product = unit_.plain_score(place, j) / p.softmax_scale;
      if (!std::isfinite(product)) continue;
      top = std::max(top, factors * double(product));
      if (product > kLargestF16) found_.insert("f8/product/+65504");
      if (product < -kLargestF16) found_.insert("f8/product/-65504");
    }
    if (top > kHidden && nearest > top - kHiddenShows) found_.insert("f8/hidden/-10000");
  }

 private:
  double factor(const Tensor& factors, int64_t head, int64_t place, int64_t block) const {
    return factors.at({unit_.b(), head, block > 0 ? geometry_.token(place) / block : 0});
  }

  const Unit& unit_;
  const Geometry& geometry_;
  const Tensor q_factors_, k_factors_;
  Found& found_;
  Unit::Buffer buffer_;
};

bool has_both_factors(const Problem& problem) {
  return problem.has(ATTEST_Q_DESCALE) && problem.has(ATTEST_K_DESCALE);
}

}  // namespace

std::vector<NumericEvent> f8_events(const Problem& problem) {
  if (!has_both_factors(problem)) return {};
  const bool hides = problem.has(ATTEST_MASK) || problem.has(ATTEST_BIAS) ||
                     problem.has(ATTEST_REL_BIAS) || problem.has(ATTEST_BLOCK_MASK) ||
                     problem.as<Params>().global_tokens > 0;
  return {{"f8/product/+65504", ""},
          {"f8/product/-65504", ""},
          {"f8/hidden/-10000", hides ? "" : "nothing hides single keys"}};
}

Found find_f8(const Problem& problem, const Tensors& tensors, const std::vector<bool>& judged) {
  Found found;
  if (!has_both_factors(problem)) return found;
  const auto& p = problem.as<Params>();
  const Geometry geometry(problem, tensors);
  for (int64_t b = 0; b < geometry.batch(); ++b)
    for (int64_t kv_head = 0; kv_head < p.num_kv_heads; ++kv_head) {
      if (geometry.length_q(b) == 0 || geometry.length_kv(b) == 0) continue;
      Unit unit(problem, tensors, geometry, b, kv_head);
      const int64_t group = p.num_heads / p.num_kv_heads;
      for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        unit.load_head(h);
        Rows rows(unit, tensors, found);
        for (const RowPlace& place :
             choose_rows(unit, judged, kBudget / double(p.batch * p.num_heads)).places)
          rows.look_at(place);
      }
    }
  return found;
}

}  // namespace attest::core::events
