// Events of gradients: situations in a tiled backward pass that inputs can cause and that a bug can
// show in. Those of lengths, block masks, global tokens and the edge of top_k are those of softmax
// (softmax/events/events.hpp). The others are counted here, from the bytes of the inputs.
//
// A row is a query of one head, whose row of dQ is judged. A key is one whose rows of dK and dV are
// judged. g is do.v - delta.
//
// delta/cancels
//     In a row of which no key has half of the weight, the mean of |g|, weighted with p, is below
//     an eighth of |delta|.
// ds/above_16, /below_f16
//     The largest |ds| of a row is above 16; it is not 0, but below 2^-14, where f16 loses bits.
// do/zero
//     A row that sees a key has a dO of zeros.
// row/one_key, /nothing
//     A row sees one key, so that delta is do.v and ds is 0; it sees no key. These, and the next
//     but one, are counted where there are no lengths and no block mask, which have events of their
//     own.
// row/one_weight
//     A row sees several keys. One has all of the weight but 2^-24, so that ds is nearly 0.
// row/late
//     The largest logit of a row of at least 32 keys is in the last quarter of its interval, and
//     exceeds all logits before that quarter by more than 4. No other key of the row is equal.
// lse/+88, /-80
//     The lse of a row is above 88, where exp of the largest logit alone may overflow; it is below
//     -80, where exp of small logits alone is 0 or subnormal.
// lse/-10000, /-20000
//     The lse of a row that sees a key is below that.
// nan/q, /do
//     A row that sees a key has a NaN in Q (dO), and another row has none.
// nan/below_edge
//     With top_k, a key that a row sees, but that does not count, has a NaN in V.
// hidden_nan/k, /v; /q, /do
//     A key that no query sees has a NaN in K (V); a row that sees no key has one in Q (dO).
// key/unseen
//     No query sees a key, so that its dK and dV are 0.
// key/one_query
//     One query, which is not among the first 16 of its sequence, has nine tenths of a key's
//     weights.
// tail/queries/T, tail/keys/T
//     The last tile of T = 16, 32, 64 or 128 queries (keys) of a sequence is short. A row (key) in
//     it has a ds (a weight) that shows.
// softcap/bends, /flat
//     A row has a key with a weight that shows whose logit follows the score by 1/4 to 3/4, by less
//     than 1/16.
// sink/leads, /trails
//     The sink has more than half of a row's weight, less than a hundredth of it.
// equal/several, /one_weight
//     A row has four times several equal keys, each time with 2 % of its weight or more; equal keys
//     have all of a row's weight but 1 %.
// f8/bands
//     V is in 8 bits. The largest number of a channel of V that a row sees is 64 times as large as
//     that of another channel.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/operations/softmax_backward/backward.hpp"
#include "core/operations/softmax_backward/row_edge.hpp"

namespace attest::core::backward {
namespace {

using events::Found, events::Row, events::RowPlace, events::RowSet, events::Unit;
using EventParams = attest_softmax_params;

// Multiply-adds of the rows, and of the keys, that are looked at.
constexpr double kRowBudget = 1e9, kKeyBudget = 1e9;
constexpr int64_t kTails[] = {16, 32, 64, 128};
constexpr int64_t kFirstQueries = 16, kCancellingRow = 8, kLateRow = 32, kEqualRow = 16;
constexpr double kLateRise = 4, kCancelled = 1.0 / 8, kLargeGradient = 16;
constexpr double kBeyondExp = events::kBeyondExp, kSmallExp = 80, kLowLse[] = {10'000, 20'000};
constexpr double kMostOfKey = 0.9, kShown = 1e-3, kShownTogether = 0.02;
constexpr double kBands = 0x1p-6;
constexpr int kEqualClasses = 4;

bool has_lengths(const Problem& problem) {
  return std::ranges::any_of(
      std::initializer_list<int32_t>{ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_CU_SEQLENS_Q,
                                     ATTEST_CU_SEQLENS_KV},
      [&](int32_t role) { return problem.has(role); });
}
/// Whether MASK or BIAS has a number for each query (key).
bool hides_along(const Problem& problem, int axis) {
  return std::ranges::any_of(
      std::initializer_list<int32_t>{ATTEST_MASK, ATTEST_BIAS}, [&](int32_t role) {
        return problem.has(role) && problem.tensor[size_t(role)].dim[axis] > 1;
      });
}

/// Whether the band alone lets some query see just one key.
bool one_key_is_seen(const Problem& problem) {
  const auto& p = problem.as<EventParams>();
  for (int64_t i = 0; i < p.seq_len_q; ++i)
    if (visible_keys(p, i, p.seq_len_q, p.seq_len_kv).size() == 1) return true;
  return false;
}

/// The largest weight of a key, and the sum of all. With top_k, of the pairs that count.
struct KeyWeights {
  bool is_seen = false;
  double sum = 0, top = 0;
  int64_t top_at = 0;
};

/// What one row has, in float32 as Unit has it.
struct Gradients {
  std::vector<double> p, ds;  // by key of the interval; 0: hidden
  double weight = 0, top = 0, delta = 0, lse = 0, largest_ds = 0, mean_g = 0;
  int64_t visible = 0;
  bool nan_below = false;  // of a key that does not count by top_k
};

class Counter {
 public:
  Counter(const Problem& forward, const Problem& problem, const Tensors& numbers,
          const Tensors& inputs, const std::vector<bool>& judged)
      : forward_(forward),
        problem_(problem),
        p_(forward_.as<EventParams>()),
        numbers_(numbers),
        inputs_(inputs),
        judged_(judged),
        geometry_(forward_, numbers),
        notes_hidden_(!has_lengths(problem) && !problem.has(ATTEST_BLOCK_MASK)) {}

  Found count() {
    for (int64_t b = 0; b < geometry_.batch(); ++b)
      for (int64_t kv_head = 0; kv_head < p_.num_kv_heads; ++kv_head) look_at(b, kv_head);
    if (calm_) found_.insert(of_nan_.begin(), of_nan_.end());
    events::find_lengths(forward_, geometry_, judged_, found_);
    events::find_structure(forward_, numbers_, geometry_, judged_, found_);
    return std::move(found_);
  }

 private:
  void note(bool happens, const std::string& name) {
    if (happens) found_.insert(name);
  }

  void look_at(int64_t b, int64_t kv_head) {
    const int64_t group = p_.num_heads / p_.num_kv_heads, length_q = geometry_.length_q(b),
                  length_kv = geometry_.length_kv(b);
    const std::vector<int64_t> keys = judged_keys(problem_, b, kv_head, length_kv);
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
      for (int64_t i = 0; i < length_q; ++i)
        if (geometry_.keys(b, i).size() == 0) note_blind(b, h, i);
    if (length_q == 0 || length_kv == 0) return;
    Unit unit(forward_, numbers_, geometry_, b, kv_head);
    std::vector<KeyWeights> weights(keys.size());
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      unit.load_head(h);
      RowSet rows =
          events::choose_rows(unit, judged_, kRowBudget / double(p_.batch * p_.num_heads));
      if (p_.top_k > 0) events::find_top_k(unit, rows, found_);
      Unit::Buffer buffer;
      for (const RowPlace& place : rows.places) note_row(unit, place, unit.row(place, buffer));
      add_weights(unit, h, keys, weights);
    }
    for (size_t n = 0; n < keys.size(); ++n) note_key(b, kv_head, keys[n], weights[n]);
  }

  bool is_nan(int32_t role, Cell cell, int64_t head) const {
    const Tensor& tensor = numbers_[size_t(role)];
    for (int64_t c = 0; c < tensor.spec.dim[3]; ++c)
      if (std::isnan(tensor.at({cell.outer, head, cell.row, c}))) return true;
    return false;
  }

  void note_blind(int64_t b, int64_t h, int64_t i) {
    if (!notes_hidden_ || !judged_[size_t(geometry_.output_row(b, h, i))]) return;
    found_.insert("row/nothing");
    note(is_nan(ATTEST_Q, geometry_.query(b, i), h), "hidden_nan/q");
    note(is_nan(ATTEST_DO, geometry_.query(b, i), h), "hidden_nan/do");
  }

  double lse_of(const Unit& unit, const RowPlace& place) const {
    const Cell cell = geometry_.query(unit.b(), place.i);
    return inputs_[ATTEST_LSE].at({cell.outer, place.h, cell.row});
  }

  /// Without top_k, the edge that keeps all keys.
  TopKEdge edge_of(const Row& row) const {
    if (p_.top_k == 0) return {};
    std::vector<double> logits(size_t(p_.seq_len_kv), -std::numeric_limits<double>::infinity());
    for (int64_t j = row.keys.begin; j < row.keys.end; ++j) logits[size_t(j)] = row.logit(j);
    return find_edge(p_, logits);
  }

  Gradients gradients(const Unit& unit, const RowPlace& place, const Row& row) const {
    const Cell cell = geometry_.query(unit.b(), place.i);
    const auto width = size_t(p_.head_dim_v);
    std::vector<double> d_o(width);
    Gradients of{.p = std::vector<double>(row.logits.size()),
                 .ds = std::vector<double>(row.logits.size())};
    of.lse = lse_of(unit, place);
    for (size_t c = 0; c < width; ++c) {
      d_o[c] = inputs_[ATTEST_DO].at({cell.outer, place.h, cell.row, int64_t(c)});
      of.delta += d_o[c] * inputs_[ATTEST_O].at({cell.outer, place.h, cell.row, int64_t(c)});
    }
    const TopKEdge edge = edge_of(row);
    for (const int64_t j : unit.wild_values())
      of.nan_below |= row.keys.contains(j) && row.sees(j) && !edge.keeps(row.logit(j), j);
    for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
      if (!row.sees(j) || !edge.keeps(row.logit(j), j)) continue;
      const auto n = size_t(j - row.keys.begin);
      const float* const v = unit.value(j);
      double dot = 0;
      for (size_t c = 0; c < width; ++c) dot += d_o[c] * double(v[c]);
      of.p[n] = std::exp(double(row.logit(j)) - of.lse);
      of.ds[n] = of.p[n] * (dot - of.delta) * slope(unit, place, j);
      of.weight += of.p[n];
      of.top = std::max(of.top, of.p[n]);
      of.mean_g += of.p[n] * std::fabs(dot - of.delta);
      of.largest_ds = std::max(of.largest_ds, std::fabs(of.ds[n]));
      ++of.visible;
    }
    return of;
  }

  double slope(const Unit& unit, const RowPlace& place, int64_t j) const {
    if (p_.softcap <= 0) return 1;
    const double t = std::tanh(double(unit.plain_score(place, j)) / double(p_.softcap));
    return 1 - t * t;
  }

  void note_row(const Unit& unit, const RowPlace& place, const Row& row) {
    const Cell cell = geometry_.query(unit.b(), place.i);
    int64_t visible = 0;
    for (int64_t j = row.keys.begin; j < row.keys.end; ++j) visible += row.sees(j);
    if (visible == 0) {
      note_blind(unit.b(), place.h, place.i);
      return;
    }
    const bool q_is_nan = is_nan(ATTEST_Q, cell, place.h),
               do_is_nan = is_nan(ATTEST_DO, cell, place.h);
    if (q_is_nan) of_nan_.insert("nan/q");
    if (do_is_nan) of_nan_.insert("nan/do");
    const Gradients of = gradients(unit, place, row);
    if (q_is_nan || do_is_nan || !std::isfinite(of.weight) || !std::isfinite(of.largest_ds)) return;
    calm_ = true;
    note(of.nan_below, "nan/below_edge");
    note_sizes(of);
    note_logits(unit, row, of);
    note_weights(unit, place, row, of);
    note(is_zero(cell, place.h), "do/zero");
    note_tail("queries", geometry_.length_q(unit.b()), place.i, of.largest_ds > 1e-6);
    if (is_f8(problem_.tensor[ATTEST_V].dtype)) note_bands(unit, row);
  }

  bool is_zero(Cell cell, int64_t head) const {
    for (int64_t c = 0; c < p_.head_dim_v; ++c)
      if (inputs_[ATTEST_DO].at({cell.outer, head, cell.row, c}) != 0) return false;
    return true;
  }

  void note_sizes(const Gradients& of) {
    note(of.top < 0.5 * of.weight && of.mean_g < kCancelled * std::fabs(of.delta), "delta/cancels");
    note(of.largest_ds > kLargeGradient, "ds/above_16");
    note(of.largest_ds > 0 && of.largest_ds < 0x1p-14, "ds/below_f16");
    note(notes_hidden_ && of.visible == 1, "row/one_key");
    note(of.lse > kBeyondExp, "lse/+88");
    note(of.lse < -kSmallExp, "lse/-80");
    for (const double low : kLowLse) note(of.lse < -low, fmt::format("lse/-{:.0f}", low));
  }

  void note_logits(const Unit& unit, const Row& row, const Gradients& of) {
    const int64_t late = row.keys.end - row.keys.size() / 4;
    float before = -std::numeric_limits<float>::infinity(), after = before;
    int64_t top = late;
    for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
      if (of.p[size_t(j - row.keys.begin)] == 0) continue;
      if (j >= late && row.logit(j) > after) top = j;
      (j < late ? before : after) = std::max(j < late ? before : after, row.logit(j));
    }
    if (row.keys.size() < kLateRow || !std::isfinite(before) ||
        !(double(after) > double(before) + kLateRise))
      return;
    int64_t equal = 0;
    for (int64_t j = row.keys.begin; j < row.keys.end; ++j)
      equal += row.sees(j) && unit.key_class(j) == unit.key_class(top);
    note(equal == 1, "row/late");
  }

  void note_weights(const Unit& unit, const RowPlace& place, const Row& row, const Gradients& of) {
    std::map<int32_t, std::pair<int, double>> classes;  // how many keys show, and their weight
    for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
      const double p = of.p[size_t(j - row.keys.begin)];
      if (p < kShown / double(of.visible)) continue;
      auto& [keys, weight] = classes[unit.key_class(j)];
      ++keys;
      weight += p;
      const double slope = this->slope(unit, place, j);
      note(p_.softcap > 0 && slope > 0.25 && slope < 0.75, "softcap/bends");
      note(p_.softcap > 0 && slope < 1.0 / 16, "softcap/flat");
    }
    note(of.visible > 1 && 1 - of.top / of.weight < 0x1p-24, "row/one_weight");
    double most = 0;
    int shown = 0;
    for (const auto& [key_class, of_class] : classes) {
      shown += of_class.first > 1 && of_class.second > kShownTogether * of.weight;
      if (of_class.first > 1) most = std::max(most, of_class.second);
    }
    note(most > 0.99 * of.weight && of.visible > 1, "equal/one_weight");
    note(shown >= kEqualClasses, "equal/several");
    if (!geometry_.has_sinks()) return;
    const double sink = std::exp(geometry_.sink(place.h) - of.lse);
    note(sink > 0.5, "sink/leads");
    note(sink < 0.01, "sink/trails");
  }

  void note_tail(const char* side, int64_t length, int64_t position, bool shows) {
    for (const int64_t tile : kTails)
      note(shows && length > tile && length % tile != 0 && position >= length / tile * tile,
           fmt::format("tail/{}/{}", side, tile));
  }

  void note_bands(const Unit& unit, const Row& row) {
    if (found_.contains("f8/bands")) return;
    const Tensor& v = inputs_[ATTEST_V];
    double least = std::numeric_limits<double>::infinity(), most = 0;  // of the channels' largest
    for (int64_t c = 0; c < p_.head_dim_v; ++c) {
      double largest = 0;
      for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
        if (!row.sees(j)) continue;
        const Cell cell = geometry_.key(unit.b(), j);
        largest = std::max(largest, std::fabs(v.at({cell.outer, unit.kv_head(), cell.row, c})));
      }
      least = std::min(least, largest);
      most = std::max(most, largest);
    }
    note(least < kBands * most, "f8/bands");
  }

  /// With top_k, the edges of a head's queries. Of many queries some are looked at.
  std::vector<std::optional<TopKEdge>> edges_of(const Unit& unit, int64_t h, double cost) const {
    std::vector<std::optional<TopKEdge>> edges(size_t(geometry_.length_q(unit.b())));
    const auto step =
        size_t(std::ceil(std::max(1.0, double(geometry_.length_kv(unit.b())) * cost / kKeyBudget)));
    Unit::Buffer buffer;
    for (size_t i = 0; i < edges.size(); i += step) {
      const auto at = int64_t(i);
      const RowPlace place{h, at, geometry_.keys(unit.b(), at), 0, unit.query_class(at)};
      edges[i] = place.keys.size() == 0 ? TopKEdge{} : edge_of(unit.row(place, buffer));
    }
    return edges;
  }

  // Of each key's pairs with the queries of a head. Of many keys some are looked at. A query whose
  // edge is not known adds to the sum alone, so that the top is not taken for more than it is.
  void add_weights(const Unit& unit, int64_t h, const std::vector<int64_t>& keys,
                   std::vector<KeyWeights>& weights) const {
    const int64_t length = geometry_.length_q(unit.b());
    const double cost = double(length) * double(p_.head_dim) * double(p_.batch * p_.num_heads);
    const auto step = size_t(std::ceil(std::max(1.0, double(keys.size()) * cost / kKeyBudget)));
    std::vector<std::optional<TopKEdge>> edges(size_t(length), TopKEdge{});
    if (p_.top_k > 0) edges = edges_of(unit, h, cost);
    for (size_t n = 0; n < keys.size(); ++n) {
      // The last key, which is in the short tile, is always one of them. Of the others it is not
      // known whether some query sees them. Their weights are 0, and they are not taken for unseen.
      if (n % step != 0 && n + 1 != keys.size()) {
        weights[n].is_seen = true;
        continue;
      }
      for (int64_t i = 0; i < length; ++i) {
        const RowPlace place{h, i, geometry_.keys(unit.b(), i), 0, unit.query_class(i)};
        if (!place.keys.contains(keys[n])) continue;
        const float logit = unit.logit(place, keys[n]);
        if (logit == -std::numeric_limits<float>::infinity()) continue;
        weights[n].is_seen = true;
        const double p = std::exp(double(logit) - lse_of(unit, place));
        if (!(p <= 2)) continue;  // a NaN, or a logit that the given lse does not belong to
        const std::optional<TopKEdge>& edge = edges[size_t(i)];
        if (edge && !edge->keeps(logit, keys[n])) continue;
        weights[n].sum += p;
        if (!edge || p <= weights[n].top) continue;
        weights[n].top = p;
        weights[n].top_at = i;
      }
    }
  }

  void note_key(int64_t b, int64_t kv_head, int64_t j, const KeyWeights& weights) {
    note_tail("keys", geometry_.length_kv(b), j, weights.sum > kShown);
    if (weights.is_seen) {
      note(weights.sum > kShown && weights.top > kMostOfKey * weights.sum &&
               weights.top_at >= kFirstQueries,
           "key/one_query");
      return;
    }
    if (!notes_hidden_) return;
    found_.insert("key/unseen");
    const Cell cell = geometry_.key(b, j);
    note(is_nan(ATTEST_K, cell, kv_head), "hidden_nan/k");
    note(is_nan(ATTEST_V, cell, kv_head), "hidden_nan/v");
  }

  const Problem forward_;
  const Problem& problem_;
  const EventParams p_;
  const Tensors &numbers_, &inputs_;  // without factors; as they are stored
  const std::vector<bool>& judged_;
  const Geometry geometry_;
  const bool notes_hidden_;
  Found found_, of_nan_;
  bool calm_ = false;  // a row has no NaN
};

}  // namespace

std::set<std::string> count_events(const Problem& problem, const Tensors& inputs,
                                   const std::vector<bool>& judged) {
  const WithoutFactors numbers(problem, inputs);
  return Counter(forward_problem(numbers.problem()), problem, numbers.tensors(), inputs, judged)
      .count();
}

std::vector<NumericEvent> events(const Problem& problem) {
  const auto& p = problem.as<EventParams>();
  const Problem forward = forward_problem(problem);
  const EventShape shape(forward);
  std::vector<NumericEvent> events;
  const auto add = [&](const std::string& name, const std::string& why_not = "") {
    events.push_back({name, why_not});
  };
  const auto unless = [](bool can, const char* why) { return std::string(can ? "" : why); };
  const int64_t rows = p.batch * p.num_heads * p.seq_len_q;
  const bool lengths = has_lengths(problem), others = lengths || problem.has(ATTEST_BLOCK_MASK),
             by_query = hides_along(problem, 2), by_key = hides_along(problem, 3);
  const std::string few = unless(shape.most_keys >= kCancellingRow, "no row has eight keys"),
                    several = unless(shape.most_keys > 1, "no row has two keys"),
                    top_k = unless(p.top_k == 0, "with top_k a NaN may be swapped into any row"),
                    own = unless(!others, "lengths and block masks have events of their own"),
                    capped = unless(p.softcap == 0, "a softcap bounds the scores");
  const auto either = [](const std::string& one, const std::string& other) {
    return one.empty() ? other : one;
  };
  add("delta/cancels", few);
  add("ds/above_16", either(several, unless(p.softcap == 0, "a softcap leaves small weights")));
  add("ds/below_f16", several);
  add("do/zero");
  const std::string alone =
      either(capped, unless(p.head_dim > 1 && shape.most_keys > 1, "no channel is left for it"));
  add("row/one_weight", alone);
  add("row/late", either(unless(shape.most_keys >= kLateRow, "no row has 32 keys"), capped));
  const std::string all_see =
      either(own, unless(by_query || shape.rows < rows, "every query sees a key"));
  add("row/nothing", all_see);
  const std::string all_seen =
      either(own, unless(by_key || shape.unread, "some query sees each key"));
  add("key/unseen", all_seen);
  add("hidden_nan/q", all_see);
  add("hidden_nan/do", all_see);
  add("hidden_nan/k", all_seen);
  add("hidden_nan/v", all_seen);
  add("row/one_key", either(own, unless(one_key_is_seen(problem) || (by_query && by_key),
                                        "every query sees several keys")));
  const std::string lifted =
      either(capped, unless(!problem.has(ATTEST_SINKS), "the sink is a part of lse"));
  add("lse/+88", capped);
  add("lse/-80", lifted);
  const bool adds = problem.has(ATTEST_ALIBI_SLOPES) || problem.has(ATTEST_REL_BIAS) ||
                    p.shift_bias != 0,
             has_bias = problem.has(ATTEST_BIAS) && problem.tensor[ATTEST_BIAS].dim[2] > 1 && !adds;
  add("lse/-10000",
      !lifted.empty()
          ? lifted
          : unless(has_bias || (!adds && p.softcap == 0 && p.top_k == 0 && !has_f8(problem)),
                   "coarse scores near -10,000 do not tell what decides here"));
  add("lse/-20000", either(lifted, unless(has_bias, "no bias of queries alone is added")));
  add("nan/do", !top_k.empty() ? top_k : unless(rows > 1, "there is one row"));
  add("nan/q", !top_k.empty() ? top_k : unless(p.seq_len_q > 1 && rows > 2, "there are few rows"));
  add("key/one_query",
      either(alone, unless(p.seq_len_q > kFirstQueries, "there are at most 16 queries")));
  for (const int64_t tile : kTails) {
    const auto tail = [&](int64_t length) {
      return length > tile && (lengths || length % tile != 0)
                 ? ""
                 : fmt::format("no tile of {} is short, or it is the only one", tile);
    };
    add(fmt::format("tail/queries/{}", tile), tail(p.seq_len_q));
    add(fmt::format("tail/keys/{}", tile), tail(p.seq_len_kv));
  }
  for (const char* name : {"softcap/bends", "softcap/flat"})
    add(name, unless(p.softcap > 0, "there is no softcap"));
  for (const char* name : {"sink/leads", "sink/trails"})
    add(name, unless(problem.has(ATTEST_SINKS), "there are no sinks"));
  const bool repeats =
      !has_f8(problem) && shape.most_keys >= kEqualRow && has_closed_form(forward, {"codebook"});
  const std::string alike =
      unless(repeats, "O of equal keys has no closed form here, or no row has 16 keys");
  add("equal/several", alike);
  add("equal/one_weight", either(alike, capped));
  add("f8/bands", unless(has_f8(problem) && p.head_dim_v > 1, "V is not 8 bits of two channels"));
  const auto join = [&](std::vector<NumericEvent> more) {
    std::ranges::move(more, std::back_inserter(events));
  };
  join(core::events::length_events(forward));
  join(core::events::structure_events(forward));
  if (p.top_k == 0) return events;
  add("nan/below_edge", unless(p.top_k < p.seq_len_kv, "top_k is seq_len_kv: no key is left out"));
  join(core::events::top_k_events(forward));
  return events;
}

}  // namespace attest::core::backward
