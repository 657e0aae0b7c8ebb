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
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/golden/row_expectation.hpp"

namespace attest::core::backward {

using EventParams = attest_softmax_params;
using events::Found, events::Row, events::RowPlace, events::Unit;

inline constexpr int64_t kTails[] = {16, 32, 64, 128};
inline constexpr int64_t kFirstQueries = 16, kCancellingRow = 8, kLateRow = 32, kEqualRow = 16;
inline constexpr double kShown = 1e-3;  // a weight that shows
inline constexpr double kSmallExp = 80, kLowLse[] = {10'000, 20'000};

/// Whether sequences have lengths of their own.
bool has_lengths(const Problem& problem);
/// Whether events of hidden rows and keys are those of this file: lengths and block masks have
/// events of their own.
bool notes_hidden(const Problem& problem);
void note(bool happens, const std::string& name, Found& found);
/// Whether `position` is in a short last tile, of each size. `side`: queries or keys.
void note_tail(const char* side, int64_t length, int64_t position, Found& found);

/// What is read when events are counted.
struct EventInputs {
  const Problem &forward, &problem;  // of the forward pass, and of the gradients
  const EventParams& p;
  const Tensors &numbers, &stored;  // without factors; as they are stored
  const Geometry& geometry;

  double lse(int64_t b, const RowPlace& place) const;
  bool is_nan(int32_t role, Cell cell, int64_t head) const;
  /// Without top_k, the edge that keeps all keys.
  TopKEdge edge_of(const Row& row) const;
};

/// What one row has, in float32 as Unit has it.
struct RowGradients {
  std::vector<double> p, ds;  // by key of the interval; 0: hidden
  double weight = 0, top = 0, delta = 0, lse = 0, largest_ds = 0, mean_g = 0;
  int64_t visible = 0;
  bool nan_below = false;  // of a key that does not count by top_k
};
/// The derivative of a pair's logit by its score: 1 - tanh^2 under a softcap.
double slope_of(const Unit& unit, const RowPlace& place, int64_t j);
RowGradients row_gradients(const EventInputs& inputs, const Unit& unit, const RowPlace& place,
                           const Row& row);

/// Finds events of single rows.
class RowEvents {
 public:
  explicit RowEvents(const EventInputs& inputs) : in_(inputs) {}
  /// A judged row that sees no key.
  void note_blind(int64_t b, int64_t h, int64_t i, Found& found) const;
  /// A judged row.
  void note_row(const Unit& unit, const RowPlace& place, const Row& row, Found& found);
  /// Adds events that happen only if some row has no NaN.
  void finish(Found& found) const;

 private:
  bool is_zero(Cell cell, int64_t head) const;
  void note_sizes(const RowGradients& of, Found& found) const;
  void note_logits(const Unit& unit, const Row& row, const RowGradients& of, Found& found) const;
  void note_weights(const Unit& unit, const RowPlace& place, const Row& row, const RowGradients& of,
                    Found& found) const;
  void note_bands(const Unit& unit, const Row& row, Found& found) const;

  const EventInputs& in_;
  Found of_nan_;
  bool calm_ = false;  // a row has no NaN
};

/// The largest weight of a key, and the sum of all. With top_k, of the pairs that count.
struct KeyWeights {
  bool is_seen = false;
  double sum = 0, top = 0;
  int64_t top_at = 0;
};
/// Finds events of the judged keys of one sequence and key head.
class KeyEvents {
 public:
  KeyEvents(const EventInputs& inputs, int64_t b, int64_t kv_head);
  /// Adds the pairs of the keys with the queries of head h, which is loaded.
  void add_head(const Unit& unit, int64_t h);
  void finish(Found& found) const;

 private:
  std::vector<std::optional<TopKEdge>> edges_of(const Unit& unit, int64_t h, double cost) const;
  void add_pairs(const Unit& unit, int64_t h, int64_t j,
                 const std::vector<std::optional<TopKEdge>>& edges, KeyWeights& weights) const;
  void note_key(int64_t j, const KeyWeights& weights, Found& found) const;

  const EventInputs& in_;
  const int64_t b_, kv_head_;
  const std::vector<int64_t> keys_;
  std::vector<KeyWeights> weights_;  // of each of them
};

}  // namespace attest::core::backward
