// Relations of deformable attention, and variants: what a cache of plans has to have in its keys.
#include <algorithm>
#include <cmath>

#include "core/operations/deformable/deformable.hpp"
#include "core/operations/deformable/sampling.hpp"
#include "core/operations/relation.hpp"
#include "core/operations/variant.hpp"

namespace attest::core {
namespace {

using deformable::Params;

/// What a sum over points reaches at most: the largest sum of the magnitudes of weights.
double largest_weight(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<Params>();
  const deformable::Points reader(problem, inputs);
  std::vector<deformable::Point> points;
  double largest = 0;
  for (int64_t row = 0; row < p.batch * p.num_heads * p.seq_len_q; ++row) {
    const int64_t head = row / p.seq_len_q;
    reader.read(head / p.num_heads, head % p.num_heads, row % p.seq_len_q, points);
    double sum = 0;
    for (const deformable::Point& point : points)
      if (std::isfinite(point.weight)) sum += std::fabs(point.weight);
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

std::vector<std::unique_ptr<Relation>> deformable_relations(const Problem& problem,
                                                            const Tensors& inputs) {
  const auto& p = problem.as<Params>();
  std::vector<std::unique_ptr<Relation>> list;
  const auto add = [&](std::unique_ptr<Relation> relation) {
    if (relation) list.push_back(std::move(relation));
  };
  const auto more = [&](std::string_view name, const std::function<void(Params&)>& grow) {
    add(repeated(name, inputs,
                 resized(problem, [&](Problem& larger) { grow(larger.as<Params>()); })));
  };
  const std::vector<int64_t> points = shuffled_places(p.num_points, 4),
                             queries = shuffled_places(p.seq_len_q, 2);
  // Points are what keys are elsewhere.
  if (p.num_points > 1)
    add(rearranged("key-permutation", problem, inputs,
                   {{ATTEST_LOCATIONS, -1, 4, points}, {ATTEST_WEIGHTS, -1, 4, points}}));
  add(rearranged("query-permutation", problem, inputs,
                 {{ATTEST_LOCATIONS, -1, 2, queries},
                  {ATTEST_WEIGHTS, -1, 2, queries},
                  {ATTEST_O, -1, 2, queries}}));
  more("batch-repetition", [](Params& larger) { larger.batch *= larger.batch == 1 ? 3 : 2; });
  more("head-repetition", [](Params& larger) { larger.num_heads *= 2; });
  const auto sum = [&problem, &inputs] {
    return largest_value(inputs[ATTEST_V]) * std::max(1.0, largest_weight(problem, inputs));
  };
  // Where a kernel interpolates as a + f (b - a), the difference of two pixels has up to twice the
  // largest magnitude.
  const auto product = [&inputs, sum] {
    return std::max(2 * largest_value(inputs[ATTEST_V]), sum());
  };
  for (auto& relation :
       value_scales(problem, inputs,
                    {{ATTEST_DEFORMABLE_PRODUCT, product}, {ATTEST_DEFORMABLE_ACCUMULATOR, sum}}))
    add(std::move(relation));
  return list;
}

std::vector<Variant> deformable_variants(const Problem& problem) {
  std::vector<Variant> variants = common_variants(problem);
  const auto& p = problem.as<Params>();
  add_variant(variants, "align_corners", problem,
              [&](Problem& other) { other.as<Params>().align_corners = 1 - p.align_corners; });
  for (int level = 0; level < p.num_levels; ++level)
    if (p.level_height[level] != p.level_width[level]) {
      add_variant(variants, "turned level", problem, [&](Problem& other) {
        auto& params = other.as<Params>();
        std::swap(params.level_height[level], params.level_width[level]);
      });
      break;
    }
  return variants;
}

}  // namespace attest::core
