#include "core/operations/softmax/codebook_levels.hpp"

#include <algorithm>
#include <limits>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kValues[] = {0, 1, -1.5, 2.5};  // of BIAS and REL_BIAS; every dtype holds them
constexpr int64_t kCount = std::size(kValues), kRegions = 4, kMostLevels = 16, kMostWindow = 256;
constexpr float kHidden = -std::numeric_limits<float>::infinity();

bool shifted(const attest_softmax_params& p) {
  return p.grid_height > 0 && p.shift_bias != 0 && (p.shift_y != 0 || p.shift_x != 0);
}
bool of_keys(const TensorSpec& spec) { return !present(spec) || spec.dim[2] == 1; }

int64_t index_of(double value) { return std::find(std::begin(kValues), std::end(kValues), value) - std::begin(kValues); }

// Calls value(index) for every element.
template <class Value>
void fill_elements(const Tensor& tensor, const Value& value) {
  for (int64_t n = 0; n < element_count(tensor.spec); ++n)
    store(tensor.data, tensor.spec.dtype, row_offset(tensor.spec, tensor.spec.rank, n), double(value(uint64_t(n))));
}

// REL_BIAS makes levels of pairs, where it is enough to know whether the regions differ.
int64_t count_levels(bool bias, bool rel_bias, bool regions) {
  return (bias ? kCount : 1) * (rel_bias ? kCount : 1) * (!regions ? 1 : rel_bias ? 2 : kRegions);
}

}  // namespace

ScoreLevels::ScoreLevels(const Problem& problem, const Tensors& tensors, const Geometry& geometry, double unit)
    : geometry_(geometry),
      bias_(tensors[ATTEST_BIAS]),
      mask_(tensors[ATTEST_MASK]),
      rel_bias_(tensors[ATTEST_REL_BIAS]),
      unit_(unit),
      shifted_(shifted(problem.as<attest_softmax_params>())),
      shift_bias_(double(problem.as<attest_softmax_params>().shift_bias)),
      key_levels_(count_levels(bool(bias_), bool(rel_bias_), shifted_)),
      query_levels_(shifted_ && !rel_bias_ ? kRegions : 1) {}

bool ScoreLevels::fit(const Problem& problem) {
  const auto& p = problem.as<attest_softmax_params>();
  const bool bias = present(problem.tensor[ATTEST_BIAS]), rel_bias = present(problem.tensor[ATTEST_REL_BIAS]);
  return of_keys(problem.tensor[ATTEST_BIAS]) && of_keys(problem.tensor[ATTEST_MASK]) &&
         (!rel_bias || p.window_height * p.window_width <= kMostWindow) &&
         count_levels(bias, rel_bias, shifted(p)) <= kMostLevels;
}

void ScoreLevels::fill(const Problem&, uint64_t seed, const Tensors& tensors, double unit) {
  auto stream = [seed](int32_t role) { return random_bits(seed, uint64_t(role)); };
  auto any = [unit](uint64_t from, uint64_t n) { return float(unit * kValues[random_below(from, n, kCount)]); };
  if (tensors[ATTEST_BIAS])
    fill_elements(tensors[ATTEST_BIAS], [&, from = stream(ATTEST_BIAS)](uint64_t n) {
      return random_below(random_bits(from, 1), n, 64) == 0 ? kHidden : any(from, n);
    });
  if (tensors[ATTEST_MASK])
    fill_elements(tensors[ATTEST_MASK],
                  [from = stream(ATTEST_MASK)](uint64_t n) { return random_below(from, n, 5) != 0 ? 1.0f : 0.0f; });
  if (tensors[ATTEST_REL_BIAS])
    fill_elements(tensors[ATTEST_REL_BIAS], [&, from = stream(ATTEST_REL_BIAS)](uint64_t n) { return any(from, n); });
}

bool ScoreLevels::hidden(int64_t b, int64_t h, int64_t j) const {
  const int64_t token = geometry_.token(j);
  return (mask_ && mask_.at({b, h, 0, token}) == 0) || (bias_ && bias_.at({b, h, 0, token}) == double(kHidden));
}

int64_t ScoreLevels::of_key(int64_t b, int64_t h, int64_t i, int64_t j) const {
  if (may_hide() && hidden(b, h, j)) return -1;
  int64_t level = bias_ ? index_of(bias_.at({b, h, 0, geometry_.token(j)}) / unit_) : 0;
  if (rel_bias_) level = level * kCount + index_of(geometry_.rel_bias(h, i, j) / unit_);
  if (!shifted_) return level;
  return rel_bias_ ? level * 2 + (geometry_.region(i) != geometry_.region(j)) : level * kRegions + geometry_.region(j);
}

double ScoreLevels::term(int64_t query_level, int64_t key_level) const {
  double term = 0;
  if (shifted_) {
    const int64_t regions = rel_bias_ ? 2 : kRegions;
    if (rel_bias_ ? key_level % 2 == 1 : key_level % kRegions != query_level) term += shift_bias_;
    key_level /= regions;
  }
  if (rel_bias_) term += unit_ * kValues[key_level % kCount], key_level /= kCount;
  if (bias_) term += unit_ * kValues[key_level % kCount];
  return term;
}

}  // namespace attest::core
