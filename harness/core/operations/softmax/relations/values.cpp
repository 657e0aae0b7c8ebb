// Relations on what stands in Q, K and V: a shift common to all logits of a row, probabilities that
// sum to 1.
#include <algorithm>
#include <cmath>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/relations/relations.hpp"

namespace attest::core {
namespace {

constexpr double kShift = 128;         // of logits, or near it: float32's exp ends at 88
constexpr double kMostChannel = 1024;  // what every dtype holds beside its random numbers

class CommonShift final : public Relation {
 public:
  CommonShift(const Problem& problem, const Tensors& inputs, double channel)
      : problems_{problem, problem}, inputs_(inputs), channel_(channel) {}
  std::string_view name() const override { return "common-shift"; }
  const std::vector<Problem>& problems() const override { return problems_; }
  bool own_sigmas() const override { return true; }

  // The last channel is channel_ in K and +-channel_ in Q; in the first run it is 0 in K. All of
  // these are powers of two.
  void fill(size_t run, const Tensors& to) const override {
    for (const Role& role : problems_[0].operation->roles())
      if (to[size_t(role.index)])
        copy_elements(inputs_[size_t(role.index)], to[size_t(role.index)]);
    set_last(to[ATTEST_K], [&](int64_t) { return run == 0 ? 0 : channel_; });
    set_last(to[ATTEST_Q], [&](int64_t row) { return sign(row) * channel_; });
  }

  void compare(const RelationRun& base, std::span<const RelationRun> runs,
               const Sink& sink) const override {
    const auto& p = problems_[0].as<attest_softmax_params>();
    for (const int32_t role : {ATTEST_O, ATTEST_LSE}) {
      const TensorSpec& spec = problems_[0].tensor[size_t(role)];
      if (!present(spec)) continue;
      const int64_t width = role == ATTEST_O ? p.head_dim_v : 1;
      std::vector<double> first(static_cast<size_t>(width)), second(first), sigma(first);
      for (int64_t row = 0; row < row_count(spec, 3); ++row) {
        read_elements(runs[0].outputs[size_t(role)], row * width, width, first.data());
        read_elements(runs[1].outputs[size_t(role)], row * width, width, second.data());
        const double *of_first = runs[0].sigmas->at(role, row * width),
                     *of_second = runs[1].sigmas->at(role, row * width);
        for (size_t e = 0; e < size_t(width); ++e) sigma[e] = of_first[e] + of_second[e];
        if (role == ATTEST_LSE)
          second[0] -= double(p.softmax_scale) * sign(row) * channel_ * channel_;
        sink({role, 3, row, first, second, sigma});
      }
    }
    (void)base;
  }

 private:
  double sign(int64_t row) const {
    return row % problems_[0].tensor[ATTEST_Q].dim[2] % 2 == 0 ? 1 : -1;
  }
  template <class Value>
  static void set_last(const Tensor& tensor, const Value& value) {
    const TensorSpec& spec = tensor.spec;
    for (int64_t row = 0; row < row_count(spec, 3); ++row)
      store(tensor.data, spec.dtype, row_offset(spec, 3, row) + (spec.dim[3] - 1) * spec.stride[3],
            value(row));
  }

  std::vector<Problem> problems_;
  Tensors inputs_;
  double channel_;
};

class RowSum final : public Relation {
 public:
  RowSum(const Problem& problem, const Tensors& inputs)
      : problems_{problem}, inputs_(inputs), geometry_(problem, inputs) {}
  std::string_view name() const override { return "row-sum"; }
  const std::vector<Problem>& problems() const override { return problems_; }
  bool own_sigmas() const override { return true; }

  void fill(size_t, const Tensors& to) const override {
    for (const Role& role : problems_[0].operation->roles())
      if (to[size_t(role.index)])
        copy_elements(inputs_[size_t(role.index)], to[size_t(role.index)]);
    const TensorSpec& spec = to[ATTEST_V].spec;
    for (int64_t row = 0; row < row_count(spec, 3); ++row)
      store(to[ATTEST_V].data, spec.dtype,
            row_offset(spec, 3, row) + (spec.dim[3] - 1) * spec.stride[3], 1);
  }

  // The constant channel alone: an error that all rows share then shows in the root mean square.
  // Rows that see nothing are 0.
  void compare(const RelationRun&, std::span<const RelationRun> runs,
               const Sink& sink) const override {
    const auto& p = problems_[0].as<attest_softmax_params>();
    const double one = 1;
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t i = 0; i < geometry_.length_q(b); ++i)
        for (int64_t h = 0; h < p.num_heads; ++h) {
          if (!sees_any(b, h, i)) continue;
          const int64_t row = geometry_.output_row(b, h, i), at = (row + 1) * p.head_dim_v - 1;
          double got = 0;
          read_elements(runs[0].outputs[ATTEST_O], at, 1, &got);
          sink({ATTEST_O, 4, at, {&one, 1}, {&got, 1}, {runs[0].sigmas->at(ATTEST_O, at), 1}});
        }
  }

 private:
  bool sees_any(int64_t b, int64_t h, int64_t i) const {
    for (Interval keys = geometry_.keys(b, i); keys.begin < keys.end; ++keys.begin)
      if (!geometry_.may_hide() || geometry_.visible(b, h, i, keys.begin)) return true;
    return false;
  }

  std::vector<Problem> problems_;
  Tensors inputs_;
  Geometry geometry_;
};

// The largest sum of values of one sign: what any prefix of any row's weighted sum can reach, in
// any order of the keys, with weights up to 1.
double largest_value_sum(const Problem& problem, const Tensor& v) {
  const auto& dim = v.spec.dim;
  const bool pages = (problem.features & ATTEST_WITH_PAGES) != 0;  // then dim 0 counts them
  double largest = 0;
  std::vector<double> above(static_cast<size_t>(dim[1] * dim[3])), below(above),
      row(static_cast<size_t>(dim[3]));
  for (int64_t r = 0; r < row_count(v.spec, 3); ++r) {
    if (!pages && r % (dim[1] * dim[2]) == 0) {
      std::fill(above.begin(), above.end(), 0.0);
      std::fill(below.begin(), below.end(), 0.0);
    }
    load_row(v.data, v.spec.dtype, row_offset(v.spec, 3, r), dim[3], v.spec.stride[3], row.data());
    const size_t at = size_t(r / dim[2] % dim[1] * dim[3]);
    for (size_t d = 0; d < row.size(); ++d) {
      if (!std::isfinite(row[d])) continue;
      double& sum = row[d] > 0 ? above[at + d] : below[at + d];
      largest = std::max(largest, sum += std::fabs(row[d]));
    }
  }
  return largest;
}

}  // namespace

std::vector<StageRange> value_ranges(const Problem& problem, const Tensors& inputs) {
  const Tensor& v = inputs[ATTEST_V];
  return {{ATTEST_SOFTMAX_PV, [&v] { return largest_value(v); }},
          {ATTEST_SOFTMAX_ACCUMULATOR, [&problem, &v] { return largest_value_sum(problem, v); }}};
}

std::unique_ptr<Relation> common_shift(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<attest_softmax_params>();
  const double channel =
      std::exp2(std::round(std::log2(std::sqrt(kShift / std::fabs(double(p.softmax_scale))))));
  if (p.softcap > 0 || p.head_dim < 2 || !(channel > 0 && channel <= kMostChannel)) return nullptr;
  return std::make_unique<CommonShift>(problem, inputs, channel);
}

std::unique_ptr<Relation> row_sum(const Problem& problem, const Tensors& inputs) {
  return std::make_unique<RowSum>(problem, inputs);
}

}  // namespace attest::core
