#include "core/operations/softmax_backward/bias_gradient.hpp"

#include <algorithm>
#include <optional>

#include "core/operations/softmax_backward/common_operands.hpp"

namespace attest::core::backward {

BiasSlice::BiasSlice(const Problem& problem, const Tensors& tensors, const PairErrors& errors,
                     bool ties_hold, int64_t b, int64_t h)
    : p_(problem.as<Params>()),
      dtype_(problem.tensor[ATTEST_DBIAS].dtype),
      shared_by_queries_(problem.tensor[ATTEST_DBIAS].dim[2] != p_.seq_len_q) {
  const TensorSpec& spec = problem.tensor[ATTEST_DBIAS];
  const int64_t group = p_.num_heads / p_.num_kv_heads;
  const Interval sequences = spec.dim[0] == p_.batch ? Interval{b, b + 1} : Interval{0, p_.batch},
                 heads =
                     spec.dim[1] == p_.num_heads ? Interval{h, h + 1} : Interval{0, p_.num_heads};
  for (int64_t sequence = sequences.begin; sequence < sequences.end; ++sequence)
    for (int64_t first = heads.begin; first < heads.end; first += group) {
      const int64_t kv_head = first / group, of_group = first - kv_head * group;
      Head& head = heads_.emplace_back(
          Head{HeadRows(problem, tensors), {of_group, of_group + std::min(group, heads.size())}});
      head.rows.load(sequence, kv_head);
      head.rows.find_steps(errors);
      head.rows.find_edges(errors, ties_hold);
      head.largest_v = head.rows.largest_v();
    }
}

void BiasSlice::element(const PairErrors& errors, int64_t i, int64_t j, GradientSum& sum,
                        double* value, double* sigma) const {
  constexpr double kOne = 1;
  sum.clear();
  for (const Head& head : heads_) {
    const HeadRows& rows = head.rows;
    const int64_t key = rows.geometry().place(j);
    KeyOperands of_key(rows, errors, 1);
    const auto add = [&](Query at, bool is_alone, bool ends) {
      const std::optional<Pair> pair = rows.pair(errors, at, key, rows.pair_term(at, key));
      if (pair) {
        sum.add(errors.of_bias(*pair, shared_by_queries_ ? rows.errors_among_queries(errors, at)
                                                         : rows.errors_in_row(errors, at)),
                &kOne, is_alone, ends);
        of_key.add_d_logit(*pair, at, &kOne);
      } else if (ends) {
        sum.end_group();
      }
    };
    if (shared_by_queries_) {
      const GroupedOrder& order = rows.query_order();
      for (size_t n = 0; n < order.place.size(); ++n) {
        const Query at{order.place[n] / rows.length_q(), order.place[n] % rows.length_q()};
        if (head.members.contains(at.h))
          add(at, order.is_alone[n], order.ends[n]);
        else if (order.ends[n])
          sum.end_group();
      }
    } else {
      for (int64_t h = head.members.begin; h < head.members.end; ++h)
        add({h, rows.geometry().place(i)}, true, true);
    }
    of_key.finish(key, sum);
  }
  sum.finish(errors.arithmetic, dtype_, 1, 0, 0, value, sigma);
}

double BiasSlice::bound(int64_t i) const {
  double sum = 0;
  for (const Head& head : heads_)
    for (int64_t h = head.members.begin; h < head.members.end; ++h)
      sum += head.rows.d_logit_bound({h, head.rows.geometry().place(i)}, head.largest_v);
  return sum;
}

}  // namespace attest::core::backward
