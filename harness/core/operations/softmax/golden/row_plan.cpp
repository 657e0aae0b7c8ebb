#include "core/operations/softmax/golden/row_plan.hpp"

#include <algorithm>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

constexpr int64_t kLeastRows = 16;
constexpr uint64_t kSampleSeed = 0x726f7773;

double work_a_pair(const Params& p) { return double(p.head_dim + p.head_dim_v); }

struct Cost {
  double rows = 0, pairs = 0;  // of all query heads
};
Cost cost(const Params& p, const Geometry& geometry) {
  Cost sum;
  for (int64_t b = 0; b < geometry.batch(); ++b) {
    sum.rows += double(geometry.length_q(b)) * double(p.num_heads);
    sum.pairs +=
        visible_pairs(p, geometry.length_q(b), geometry.length_kv(b)) * double(p.num_heads);
  }
  return sum;
}

// Converting a key for a task costs about as much as this many rows of products with it.
constexpr double kConversionRows = 8;

// A row joins the task before it where that is cheaper than a task of its own: both pay for the
// union of their keys.
bool joins(const RowTask& task, const Interval& keys) {
  const auto rows = double(task.end - task.begin);
  if (rows >= double(kTaskRows)) return false;
  const auto merged = double(
      Interval{std::min(task.keys.begin, keys.begin), std::max(task.keys.end, keys.end)}.size());
  return merged * (rows + 1 + kConversionRows) <=
         double(task.keys.size()) * (rows + kConversionRows) +
             double(keys.size()) * (1 + kConversionRows);
}

void add_task_rows(RowPlan& plan, const Geometry& geometry, int64_t b, int64_t kv_head,
                   const std::vector<std::pair<int64_t, int64_t>>& place_and_head) {
  const size_t first = plan.tasks.size();
  for (const auto& [i, h] : place_and_head) {
    const Interval keys = geometry.keys(b, i);
    if (keys.size() == 0) continue;
    const size_t row = plan.rows.size();
    plan.rows.push_back({b, h, i, geometry.output_row(b, h, i), keys});
    if (plan.tasks.size() == first || !joins(plan.tasks.back(), keys))
      plan.tasks.push_back({b, kv_head, row, row, keys});
    RowTask& task = plan.tasks.back();
    task.end = row + 1;
    task.keys = {std::min(task.keys.begin, keys.begin), std::max(task.keys.end, keys.end)};
  }
}

}  // namespace

double multiply_adds(const Problem& problem, const Geometry& geometry) {
  const Params& p = problem.as<Params>();
  return cost(p, geometry).pairs * work_a_pair(p);
}

RowPlan plan_rows(const Problem& problem, const Geometry& geometry, const RowBudget& budget,
                  const WantedPlaces& wanted) {
  const Params& p = problem.as<Params>();
  const Cost total = cost(p, geometry);
  RowPlan plan;
  plan.all = total.pairs * work_a_pair(p) <= budget.all &&
             total.rows * double(p.head_dim_v) <= double(budget.elements);
  if (!plan.all) {
    const double heads = double(p.batch) * double(p.num_heads),
                 a_row = total.pairs / total.rows * work_a_pair(p);
    const double affordable =
        std::min(budget.sampled / a_row, double(budget.elements) / double(p.head_dim_v)) / heads;
    plan.rows_a_head = std::clamp(int64_t(affordable), kLeastRows, budget.rows_a_head);
  }
  const int64_t block = p.patch_size > 0 ? p.patch_size : p.window_height * p.window_width;
  const int64_t group = p.num_heads / p.num_kv_heads;
  for (int64_t b = 0; b < geometry.batch(); ++b)
    for (int64_t kv_head = 0; kv_head < p.num_kv_heads; ++kv_head) {
      std::vector<std::pair<int64_t, int64_t>> place_and_head;
      const int64_t length = geometry.length_q(b);
      for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        const uint64_t seed = random_bits(kSampleSeed, uint64_t(b * p.num_heads + h));
        const bool all = plan.all || plan.rows_a_head >= length;
        const std::vector<int64_t> places = all || !wanted ? std::vector<int64_t>() : wanted(b, h);
        for (const int64_t i :
             sample_places(length, all ? length : plan.rows_a_head, block, seed, places))
          place_and_head.emplace_back(i, h);
      }
      std::sort(place_and_head.begin(), place_and_head.end());
      add_task_rows(plan, geometry, b, kv_head, place_and_head);
    }
  return plan;
}

}  // namespace attest::core
