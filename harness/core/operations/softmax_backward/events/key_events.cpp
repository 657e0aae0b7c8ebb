// Events of keys, from their pairs with all queries.
#include <cmath>
#include <limits>

#include "core/operations/softmax_backward/backward.hpp"
#include "core/operations/softmax_backward/events/events.hpp"

namespace attest::core::backward {
namespace {

constexpr double kKeyBudget = 1e9;  // multiply-adds of the keys that are looked at
constexpr double kMostOfKey = 0.9;

}  // namespace

KeyEvents::KeyEvents(const EventInputs& inputs, int64_t b, int64_t kv_head)
    : in_(inputs),
      b_(b),
      kv_head_(kv_head),
      keys_(judged_keys(inputs.problem, b, kv_head, inputs.geometry.length_kv(b))),
      weights_(keys_.size()) {}

// Of many queries some are looked at.
std::vector<std::optional<TopKEdge>> KeyEvents::edges_of(const Unit& unit, int64_t h,
                                                         double cost) const {
  std::vector<std::optional<TopKEdge>> edges(size_t(in_.geometry.length_q(b_)));
  const auto step =
      size_t(std::ceil(std::max(1.0, double(in_.geometry.length_kv(b_)) * cost / kKeyBudget)));
  Unit::Buffer buffer;
  for (size_t i = 0; i < edges.size(); i += step) {
    const auto at = int64_t(i);
    const RowPlace place{h, at, in_.geometry.keys(b_, at), 0, unit.query_class(at)};
    edges[i] = place.keys.size() == 0 ? TopKEdge{} : in_.edge_of(unit.row(place, buffer));
  }
  return edges;
}

// Of many keys some are looked at. The last one, which is in the short tile, is always one of them.
// Of the others it is not known whether some query sees them. Their weights are 0, and they are not
// taken for unseen.
void KeyEvents::add_head(const Unit& unit, int64_t h) {
  const int64_t length = in_.geometry.length_q(b_);
  const double cost =
      double(length) * double(in_.p.head_dim) * double(in_.p.batch * in_.p.num_heads);
  const auto step = size_t(std::ceil(std::max(1.0, double(keys_.size()) * cost / kKeyBudget)));
  std::vector<std::optional<TopKEdge>> edges(size_t(length), TopKEdge{});
  if (in_.p.top_k > 0) edges = edges_of(unit, h, cost);
  for (size_t n = 0; n < keys_.size(); ++n)
    if (n % step != 0 && n + 1 != keys_.size())
      weights_[n].is_seen = true;
    else
      add_pairs(unit, h, keys_[n], edges, weights_[n]);
}

// A query whose edge is not known adds to the sum alone, so that the top is not taken for more than
// it is.
void KeyEvents::add_pairs(const Unit& unit, int64_t h, int64_t j,
                          const std::vector<std::optional<TopKEdge>>& edges,
                          KeyWeights& weights) const {
  for (int64_t i = 0; i < int64_t(edges.size()); ++i) {
    const RowPlace place{h, i, in_.geometry.keys(b_, i), 0, unit.query_class(i)};
    if (!place.keys.contains(j)) continue;
    const float logit = unit.logit(place, j);
    if (logit == -std::numeric_limits<float>::infinity()) continue;
    weights.is_seen = true;
    const double p = std::exp(double(logit) - in_.lse(b_, place));
    if (!(p <= 2)) continue;  // a NaN, or a logit that the given lse does not belong to
    const std::optional<TopKEdge>& edge = edges[size_t(i)];
    if (edge && !edge->keeps(logit, j)) continue;
    weights.sum += p;
    if (!edge || p <= weights.top) continue;
    weights.top = p;
    weights.top_at = i;
  }
}

void KeyEvents::finish(Found& found) const {
  for (size_t n = 0; n < keys_.size(); ++n) note_key(keys_[n], weights_[n], found);
}

void KeyEvents::note_key(int64_t j, const KeyWeights& weights, Found& found) const {
  if (weights.sum > kShown) note_tail("keys", in_.geometry.length_kv(b_), j, found);
  if (weights.is_seen) {
    note(weights.sum > kShown && weights.top > kMostOfKey * weights.sum &&
             weights.top_at >= kFirstQueries,
         "key/one_query", found);
    return;
  }
  if (!notes_hidden(in_.problem)) return;
  found.insert("key/unseen");
  const Cell cell = in_.geometry.key(b_, j);
  note(in_.is_nan(ATTEST_K, cell, kv_head_), "hidden_nan/k", found);
  note(in_.is_nan(ATTEST_V, cell, kv_head_), "hidden_nan/v", found);
}

}  // namespace attest::core::backward
