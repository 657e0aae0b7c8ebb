#include "core/operations/softmax_backward/shared_gradients.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>

#include "core/tensor/constants.hpp"

namespace attest::core::backward {
namespace {

constexpr double kOne = 1;  // the row of a pair: these sums have one channel
// Of all sums together, which are open at once, and of each.
constexpr size_t kRememberedOfAll = size_t{1} << 23, kLeastRemembered = 128;

size_t remembered_of_each(size_t sums) {
  return std::clamp(kRememberedOfAll / std::max(sums, size_t{1}), kLeastRemembered,
                    AddendSample::kMost);
}

/// The number of each row's group of equal rows.
std::vector<int32_t> groups_of(const GroupedOrder& order) {
  std::vector<int32_t> groups(order.place.size());
  int32_t group = 0;
  for (size_t n = 0; n < order.place.size(); ++n) {
    groups[size_t(order.place[n])] = group;
    group += order.ends[n];
  }
  return groups;
}

/// A pair of two positions of one window.
struct Member {
  int32_t query_group, key_group;
  int64_t i, j;
  bool equals(const Member& other) const {
    return query_group == other.query_group && key_group == other.key_group;
  }
};

}  // namespace

SharedGradients::SharedGradients(const Problem& problem)
    : problem_(problem), p_(problem.as<Params>()) {
  const auto size = [&](int32_t role, std::vector<GradientSum>& sums) {
    if (problem.has(role)) {
      const auto count = size_t(element_count(problem.tensor[size_t(role)]));
      sums.assign(count, GradientSum(1, remembered_of_each(count)));
    }
    for (GradientSum& sum : sums) sum.clear();
  };
  size(ATTEST_DREL_BIAS, rel_bias_);
  size(ATTEST_DSINKS, sinks_);
}

void SharedGradients::add(const HeadRows& rows, const PairErrors& errors, int64_t h) {
  if (!rel_bias_.empty()) add_rel_bias(rows, errors, h);
  if (!sinks_.empty()) add_sink(rows, errors, h);
}

// Equal pairs of a query and a key err alike, so they are sorted to follow one another.
void SharedGradients::add_rel_bias(const HeadRows& rows, const PairErrors& errors, int64_t h) {
  const int64_t height = p_.window_height, width = p_.window_width, across = 2 * width - 1,
                elements = (2 * height - 1) * across;
  const std::vector<int32_t> query_groups = groups_of(rows.query_order()),
                             key_groups = groups_of(rows.key_order());
  GradientSum* const sums = rel_bias_.data() + rows.query_head(h) * elements;
#pragma omp parallel if (rows.length_q() * height * width * (p_.head_dim + p_.head_dim_v) > \
                             kThreadedElements)
  {
    std::vector<Member> members;
#pragma omp for schedule(dynamic, 1)
    for (int64_t element = 0; element < elements; ++element) {
      const int64_t dy = element / across - height + 1, dx = element % across - width + 1;
      members.clear();
      for (int64_t i = 0; i < rows.length_q(); ++i) {
        const int64_t inside = i % (height * width), y = inside / width - dy,
                      x = inside % width - dx, j = i - inside + y * width + x;
        if (y >= 0 && y < height && x >= 0 && x < width)
          members.push_back(
              {query_groups[size_t(h * rows.length_q() + i)], key_groups[size_t(j)], i, j});
      }
      std::ranges::stable_sort(members, {}, [](const Member& one) {
        return std::tuple(one.query_group, one.key_group);
      });
      for (size_t n = 0; n < members.size(); ++n) {
        const Member& one = members[n];
        const bool ends = n + 1 == members.size() || !one.equals(members[n + 1]),
                   is_alone = ends && (n == 0 || !one.equals(members[n - 1]));
        const Query at{h, one.i};
        std::optional<Pair> pair = rows.pair(errors, at, one.j, rows.pair_term(at, one.j));
        if (pair) {
          pair->uniform += errors.shared_rounding(pair->value);
          sums[element].add(errors.of_bias(*pair, rows.errors_among_queries(errors, at)), &kOne,
                            is_alone, ends);
        } else if (ends) {
          sums[element].end_group();
        }
      }
    }
  }
}

// The sink's weight is exp(sink - lse), so rows of one lse err alike: they are sorted to follow one
// another, and a NaN is equal to none. A row that sees no key has no sink.
void SharedGradients::add_sink(const HeadRows& rows, const PairErrors& errors, int64_t h) {
  const double sink = rows.geometry().sink(rows.query_head(h));
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < rows.length_q(); ++i)
    if (rows.lse({h, i}) != kHidden) seen.push_back(i);
  const auto lse = [&](int64_t i) { return rows.lse({h, i}); };
  const auto first_number =
      std::ranges::stable_partition(seen, [&](int64_t i) { return std::isnan(lse(i)); }).begin();
  std::stable_sort(first_number, seen.end(),
                   [&](int64_t one, int64_t other) { return lse(one) < lse(other); });
  for (size_t n = 0; n < seen.size(); ++n) {
    const Query at{h, seen[n]};
    const bool ends = n + 1 == seen.size() || !(lse(seen[n]) == lse(seen[n + 1])),
               is_alone = ends && (n == 0 || !(lse(seen[n]) == lse(seen[n - 1])));
    QueryErrors of_query = rows.errors_among_queries(errors, at);
    of_query.lse = 0;  // sink_pair() has it
    sinks_[size_t(rows.query_head(h))].add(
        errors.of_bias(rows.sink_pair(errors, at, sink), of_query), &kOne, is_alone, ends);
  }
}

void SharedGradients::finish(const PairErrors& errors, const Golden::Sink& sink) {
  if (!rel_bias_.empty()) finish(ATTEST_DREL_BIAS, 2, rel_bias_, errors, sink);
  if (!sinks_.empty()) finish(ATTEST_DSINKS, 1, sinks_, errors, sink);
}

void SharedGradients::finish(int32_t role, int leading, std::vector<GradientSum>& sums,
                             const PairErrors& errors, const Golden::Sink& sink) const {
  const TensorSpec& spec = problem_.tensor[size_t(role)];
  std::vector<double> value(sums.size()), sigma(value);
  for (size_t n = 0; n < sums.size(); ++n)
    sums[n].finish(errors.arithmetic, spec.dtype, 1, 0, 0, &value[n], &sigma[n]);
  std::vector<int64_t> rows(size_t(row_count(spec, leading)));
  std::iota(rows.begin(), rows.end(), 0);
  sink({.role = role,
        .leading = leading,
        .width = leading < spec.rank ? spec.dim[leading] : 1,
        .rows = rows,
        .value = value.data(),
        .sigma = sigma.data()});
}

}  // namespace attest::core::backward
