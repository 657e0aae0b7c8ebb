#include "core/operations/softmax/closed_form/masks_and_biases/levels.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kValues[] = {0, 1, -1.5, 2.5};  // of BIAS and REL_BIAS; every dtype holds them
constexpr int64_t kCount = std::size(kValues), kRegions = 4, kMostLevels = 16, kMostWindow = 256;

bool shifted(const attest_softmax_params& p) {
  return p.grid_height > 0 && p.shift_bias != 0 && (p.shift_y != 0 || p.shift_x != 0);
}
bool of_pairs(const TensorSpec& spec) { return present(spec) && spec.dim[2] > 1; }

int64_t index_of(double value) {
  return std::find(std::begin(kValues), std::end(kValues), value) - std::begin(kValues);
}

// REL_BIAS makes levels of pairs, where it is enough to know whether the regions differ.
int64_t count_levels(bool bias, bool rel_bias, bool regions) {
  return (bias ? kCount : 1) * (rel_bias ? kCount : 1) * (!regions ? 1 : rel_bias ? 2 : kRegions);
}

}  // namespace

ScoreLevels::ScoreLevels(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                         double unit)
    : geometry_(geometry),
      bias_(tensors[ATTEST_BIAS]),
      mask_(tensors[ATTEST_MASK]),
      rel_bias_(tensors[ATTEST_REL_BIAS]),
      block_mask_(tensors[ATTEST_BLOCK_MASK]),
      unit_(unit),
      shifted_(shifted(problem.as<attest_softmax_params>())),
      shift_bias_(double(problem.as<attest_softmax_params>().shift_bias)),
      key_levels_(fit(problem) ? count_levels(bool(bias_), bool(rel_bias_), shifted_) : 1),
      query_levels_(fit(problem) && shifted_ && !rel_bias_ ? kRegions : 1),
      heads_(problem.as<attest_softmax_params>().num_heads),
      by_row_(of_pairs(mask_.spec) || of_pairs(bias_.spec) || of_pairs(block_mask_.spec)) {
  if (by_row_) find_patterns();
}

void ScoreLevels::find_patterns() {
  const RowClasses mask = of_pairs(mask_.spec) ? RowClasses(mask_) : RowClasses(),
                   bias = of_pairs(bias_.spec) ? RowClasses(bias_) : RowClasses(),
                   blocks = of_pairs(block_mask_.spec) ? RowClasses(block_mask_) : RowClasses();
  patterns_.resize(size_t(geometry_.batch() * heads_));
#pragma omp parallel for schedule(static)
  for (size_t n = 0; n < patterns_.size(); ++n) {
    const int64_t b = int64_t(n) / heads_, h = int64_t(n) % heads_;
    Patterns& of = patterns_[n];
    std::map<std::array<int64_t, 3>, int32_t> found;
    for (int64_t i = 0; i < geometry_.length_q(b); ++i) {
      const int64_t row = geometry_.token(i);
      const int64_t block = geometry_.block_row(i);
      const auto [at, is_new] =
          found.try_emplace({mask.of(b, h, row), bias.of(b, h, row), blocks.of(b, h, block)},
                            int32_t(of.first_place.size()));
      if (is_new) of.first_place.push_back(i);
      of.pattern.push_back(at->second);
    }
  }
}

bool ScoreLevels::fit(const Problem& problem) {
  const auto& p = problem.as<attest_softmax_params>();
  const TensorSpec &bias = problem.tensor[ATTEST_BIAS], &mask = problem.tensor[ATTEST_MASK];
  const bool rel_bias = present(problem.tensor[ATTEST_REL_BIAS]),
             alibi = present(problem.tensor[ATTEST_ALIBI_SLOPES]);
  const bool by_row =
      of_pairs(bias) || of_pairs(mask) || of_pairs(problem.tensor[ATTEST_BLOCK_MASK]);
  if (by_row && (alibi || p.grid_height > 0)) return false;
  if (p.top_k > 0) return false;          // which keys of a code count, their places may say
  if (p.global_tokens > 0) return false;  // each row sees keys of its own, in two pieces
  // One number for all keys of a row errs alike in all of their scores, which the closed form's
  // sigma does not know.
  if (of_pairs(bias) && bias.dim[3] == 1) return false;
  return (!rel_bias || p.window_height * p.window_width <= kMostWindow) &&
         count_levels(present(bias), rel_bias, shifted(p)) <= kMostLevels;
}

double ScoreLevels::any_value(uint64_t seed, uint64_t index) {
  return kValues[random_below(seed, index, kCount)];
}

bool ScoreLevels::hidden(int64_t b, int64_t h, int64_t i, int64_t j) const {
  const int64_t query = geometry_.token(i), key = geometry_.token(j);
  return (mask_ && mask_.at({b, h, query, key}) == 0) ||
         (bias_ && bias_.at({b, h, query, key}) == kHidden) || geometry_.block_hidden(b, h, i, j);
}

int64_t ScoreLevels::of_key(int64_t b, int64_t h, int64_t i, int64_t j) const {
  if (may_hide() && hidden(b, h, i, j)) return -1;
  int64_t level =
      bias_ ? index_of(bias_.at({b, h, geometry_.token(i), geometry_.token(j)}) / unit_) : 0;
  if (rel_bias_) level = level * kCount + index_of(geometry_.rel_bias(h, i, j) / unit_);
  if (!shifted_) return level;
  return rel_bias_ ? level * 2 + (geometry_.region(i) != geometry_.region(j))
                   : level * kRegions + geometry_.region(j);
}

double ScoreLevels::term(int64_t query_level, int64_t key_level) const {
  double term = 0;
  if (shifted_) {
    const int64_t regions = rel_bias_ ? 2 : kRegions;
    if (rel_bias_ ? key_level % 2 == 1 : key_level % kRegions != query_level) term += shift_bias_;
    key_level /= regions;
  }
  if (rel_bias_) {
    term += unit_ * kValues[key_level % kCount];
    key_level /= kCount;
  }
  if (bias_) term += unit_ * kValues[key_level % kCount];
  return term;
}

}  // namespace attest::core
