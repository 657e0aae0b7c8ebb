#include "core/judge/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

std::vector<int64_t> index_of(const TensorSpec& spec, int64_t element) {
  std::vector<int64_t> index(static_cast<size_t>(spec.rank));
  for (int i = spec.rank; i-- > 0; element /= spec.dim[i]) index[size_t(i)] = element % spec.dim[i];
  return index;
}

/// Differences over an output, and the worst of them.
class Comparison {
 public:
  Comparison(const Tensor& expected, std::string name, double tolerance)
      : expected_(expected),
        name_(std::move(name)),
        tolerance_(tolerance),
        exact_(size_t(element_count(expected.spec))),
        swept_(exact_.size()),
        wanted_(element_count(expected.spec)) {}

  /// `element` counts in the order of the dims. The reference says its value, or of a swept one a
  /// range.
  void add(int64_t element, double low, double high, bool swept = false) {
    const size_t at = size_t(element);
    if (exact_.at(at) || (swept && swept_[at])) return;  // a sweep covers what was exact, too
    if (swept_[at]) {
      swept_[at] = false;
      --swept_elements_;
    }
    (swept ? swept_ : exact_)[at] = true;
    ++(swept ? swept_elements_ : exact_elements_);
    const double got = load(expected_.data, expected_.spec.dtype,
                            row_offset(expected_.spec, expected_.spec.rank, element));
    const double nearest = std::isnan(low) || std::isnan(got) ? low : std::clamp(got, low, high);
    const double ratio = difference(nearest, got) / tolerance_;
    sum_squares_ += ratio * ratio;
    if (ratio > worst_ratio_ || !worst_) {
      worst_ratio_ = ratio;
      worst_ = Mismatch{name_, index_of(expected_.spec, element), nearest, got, 0, ratio};
    }
  }

  void leave_out_nan() {
    for (size_t element = 0; element < exact_.size(); ++element)
      exact_[element] =
          std::isnan(load(expected_.data, expected_.spec.dtype,
                          row_offset(expected_.spec, expected_.spec.rank, int64_t(element))));
    wanted_ = std::ranges::count(exact_, false);
  }

  Judgement judgement(std::string method) const {
    Judgement j{.method = std::move(method)};
    const int64_t elements = exact_elements_ + swept_elements_;
    j.max_ratio = std::max(worst_ratio_, 0.0);
    j.rms_ratio = elements ? std::sqrt(sum_squares_ / double(elements)) : 0;
    j.exact_elements = exact_elements_;
    j.swept_elements = swept_elements_;
    j.worst = worst_;
    if (elements == wanted_ && wanted_ > 0 && j.max_ratio <= 1) return j;
    j.outcome = {ReasonCode::kErrorReference, difference_in_words(elements)};
    return j;
  }

 private:
  std::string difference_in_words(int64_t elements) const {
    if (wanted_ == 0) return fmt::format("{}: no element to compare with, all are NaN", name_);
    if (elements != wanted_)
      return fmt::format("{}: the reference gives {} of {} elements", name_, elements, wanted_);
    return fmt::format(
        "{}[{}] is {:.9g} in the vector, {:.9g} in the reference; they may differ by {:.3g}", name_,
        fmt::join(worst_->index, ","), worst_->got, worst_->expected,
        tolerance_ * std::max(1.0, std::fabs(worst_->got)));
  }
  static double difference(double reference, double got) {
    if (std::isnan(reference) || std::isnan(got))
      return std::isnan(reference) && std::isnan(got) ? 0 : kInfinity;
    if (std::isinf(reference) || std::isinf(got)) return reference == got ? 0 : kInfinity;
    return std::fabs(reference - got) / std::max(1.0, std::fabs(got));
  }

  const Tensor& expected_;
  const std::string name_;
  const double tolerance_;
  std::vector<bool> exact_, swept_;  // by what an element was held to
  int64_t wanted_, exact_elements_ = 0, swept_elements_ = 0;
  double worst_ratio_ = 0, sum_squares_ = 0;
  std::optional<Mismatch> worst_;
};

}  // namespace

double reference_tolerance(DType dtype) {
  switch (dtype) {
    case ATTEST_F16: return 1e-3;
    case ATTEST_BF16: return 8e-3;  // the same multiple of its unit roundoff
    case ATTEST_F64: return 1e-9;
    default: return 1e-6;
  }
}

Judgement compare_golden(const Problem& problem, const Golden& golden, int32_t role,
                         const Tensor& expected, double tolerance, bool partial) {
  Comparison comparison(expected, find_role(*problem.operation, role)->name, tolerance);
  if (partial) comparison.leave_out_nan();
  std::mutex lock;
  golden.expect({}, [&](const Expected& chunk) {
    if (chunk.role != role) return;
    const std::lock_guard guard(lock);
    for (size_t r = 0; r < chunk.rows.size(); ++r)
      for (int64_t d = 0; d < chunk.width; ++d) {
        const size_t at = (chunk.shared ? 0 : r * size_t(chunk.width)) + size_t(d);
        const double low = chunk.value ? chunk.value[at] : chunk.low[at],
                     high = chunk.value ? low : chunk.high[at];
        comparison.add(chunk.rows[r] * chunk.width + d, low, high, !chunk.value);
      }
  });
  return comparison.judgement(golden.method());
}

Judgement compare_values(std::span<const double> values, const Tensor& expected,
                         const std::string& name, double tolerance) {
  Comparison comparison(expected, name, tolerance);
  for (size_t i = 0; i < values.size(); ++i) comparison.add(int64_t(i), values[i], values[i]);
  return comparison.judgement("float64, all elements");
}

}  // namespace attest::core
