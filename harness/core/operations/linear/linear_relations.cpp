// Relations of linear attention. Its rows do not sum to 1 (eps), and no two parts of the keys can
// be merged without the normaliser.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/operations/linear/feature_map.hpp"
#include "core/operations/linear/linear.hpp"
#include "core/operations/linear/rows.hpp"
#include "core/operations/relation.hpp"

namespace attest::core {
namespace {

using LinearParams = attest_linear_params;

// A permutation of the rows of dims 0 and 2 that is the same in every sequence, and of a mask along
// `axis`.
std::vector<Rearrangement> shuffled(const Problem& problem, std::initializer_list<int32_t> roles,
                                    int32_t mask, int axis) {
  const TensorSpec& spec = problem.tensor[size_t(*roles.begin())];
  const int64_t rows = spec.dim[2];
  const std::vector<int64_t> places = shuffled_places(rows, uint64_t(axis));
  std::vector<int64_t> cells;
  for (int64_t b = 0; b < spec.dim[0]; ++b)
    for (const int64_t place : places) cells.push_back(b * rows + place);
  std::vector<Rearrangement> moved;
  for (const int32_t role : roles) moved.push_back({role, 0, 2, cells});
  if (problem.has(mask)) moved.push_back({mask, -1, axis, places});
  return moved;
}

// Masked keys and queries hold NaN and infinities, or large numbers; nothing changes.
class HiddenByMask final : public SamePlaces {
 public:
  HiddenByMask(const Problem& problem, const Tensors& inputs, bool wild)
      : SamePlaces(problem, inputs), wild_(wild) {}
  std::string_view name() const override { return wild_ ? "hidden-nan" : "hidden-values"; }
  bool bitwise() const override { return !wild_; }

 protected:
  void change(const Tensors& to) const override {
    change(to[ATTEST_Q], inputs()[ATTEST_QUERY_MASK], 2);
    change(to[ATTEST_K], inputs()[ATTEST_MASK], 3);
    change(to[ATTEST_V], inputs()[ATTEST_MASK], 3);
  }

 private:
  void change(const Tensor& tensor, const Tensor& mask, int axis) const {
    if (!mask) return;
    constexpr double kHiddenNumber = 1000;
    const TensorSpec& spec = tensor.spec;
    for (int64_t row = 0; row < row_count(spec, 3); ++row) {
      const int64_t b = row / (spec.dim[1] * spec.dim[2]), place = row % spec.dim[2];
      if (load(mask.data, ATTEST_BOOL, b * mask.spec.stride[0] + place * mask.spec.stride[axis]) !=
          0)
        continue;
      for (int64_t d = 0; d < spec.dim[3]; ++d) {
        const double wild = (row + d) % 3 == 0 ? std::numeric_limits<double>::infinity()
                                               : std::numeric_limits<double>::quiet_NaN();
        store(tensor.data, spec.dtype, row_offset(spec, 3, row) + d * spec.stride[3],
              wild_ ? wild : kHiddenNumber);
      }
    }
  }

  bool wild_;
};

// phi [rows, head_dim] of one head of Q or K.
std::vector<double> features(const Tensor& x, int64_t b, int64_t head) {
  const int64_t rows = x.spec.dim[2], dim = x.spec.dim[3];
  std::vector<double> phi(size_t(rows * dim));
  for (int64_t r = 0; r < rows; ++r) linear::load_one(x, b, head, r, phi.data() + r * dim);
  for (double& value : phi) value = linear::feature(value);
  return phi;
}

// What an accumulator reaches: the largest partial sum of the state, in the order of the keys or
// against it, and of its product with any query's features. Masks only leave addends out.
double largest_sum(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<LinearParams>();
  const Tensor& v = inputs[ATTEST_V];
  const auto d = size_t(p.head_dim), width = size_t(p.head_dim_v);
  double largest = 0;
  std::vector<double> value(width), sum(d * width), reach(d * width);
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t head = 0; head < p.num_kv_heads; ++head) {
      const std::vector<double> k = features(inputs[ATTEST_K], b, head);
      std::fill(sum.begin(), sum.end(), 0.0);
      std::fill(reach.begin(), reach.end(), 0.0);
      for (int64_t j = 0; j < p.seq_len_kv; ++j) {
        linear::load_one(v, b, head, j, value.data());
        for (size_t c = 0; c < d; ++c)
          for (size_t e = 0; e < width; ++e) {
            double& state = sum[c * width + e];
            const double added = k[size_t(j) * d + c] * value[e];
            if (std::isfinite(added)) state += added;
            reach[c * width + e] = std::max(reach[c * width + e], std::fabs(state));
          }
      }
      for (double& of_either_order : reach) of_either_order *= 2;
      largest = std::max(largest, *std::max_element(reach.begin(), reach.end()));
      const int64_t group = p.num_heads / p.num_kv_heads;
      for (int64_t h = head * group; h < (head + 1) * group; ++h) {
        const std::vector<double> q = features(inputs[ATTEST_Q], b, h);
        for (size_t i = 0; i < size_t(p.seq_len_q); ++i)
          for (size_t e = 0; e < width; ++e) {
            double product = 0;
            for (size_t c = 0; c < d; ++c) product += q[i * d + c] * reach[c * width + e];
            largest = std::max(largest, product);
          }
      }
    }
  return largest;
}

}  // namespace

std::vector<std::unique_ptr<Relation>> linear_relations(const Problem& problem,
                                                        const Tensors& inputs) {
  std::vector<std::unique_ptr<Relation>> list;
  auto add = [&](std::unique_ptr<Relation> relation) {
    if (relation) list.push_back(std::move(relation));
  };
  auto more = [&](std::string_view name, const std::function<void(LinearParams&)>& grow) {
    add(repeated(name, inputs,
                 resized(problem, [&](Problem& larger) { grow(larger.as<LinearParams>()); })));
  };
  add(rearranged("key-permutation", problem, inputs,
                 shuffled(problem, {ATTEST_K, ATTEST_V}, ATTEST_MASK, 3)));
  add(rearranged("query-permutation", problem, inputs,
                 shuffled(problem, {ATTEST_Q, ATTEST_O}, ATTEST_QUERY_MASK, 2)));
  more("batch-repetition", [](LinearParams& p) { p.batch *= p.batch == 1 ? 3 : 2; });
  more("head-repetition", [](LinearParams& p) {
    p.num_heads *= 2;
    p.num_kv_heads *= 2;
  });
  const auto largest = [&problem, &inputs] { return largest_sum(problem, inputs); };
  for (auto& relation : value_scales(
           problem, inputs, {{ATTEST_LINEAR_STATE, largest}, {ATTEST_LINEAR_ACCUMULATOR, largest}}))
    add(std::move(relation));
  if (present(problem.tensor[ATTEST_MASK]) || present(problem.tensor[ATTEST_QUERY_MASK]))
    for (const bool wild : {false, true})
      add(std::make_unique<HiddenByMask>(problem, inputs, wild));
  return list;
}

}  // namespace attest::core
