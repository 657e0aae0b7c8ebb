// Events: situations in a tiled, online, masked softmax that inputs can cause and that a bug can
// show in. A fill that causes an event in no judged row cannot show a bug there, however strict the
// judge.
//
// Events are counted from the bytes of the inputs and from Geometry, not from the fill.
//
// Tiles have T = 16, 32, 64, 128 or 256 keys. They count from position 0 of a sequence, or from the
// start of a grid window or patch. "mask|bias" is mask or bias: MASK, or a BIAS of -inf, hides
// keys.
//
// rise/T/second, /middle, /last, /tail, each /little, /much, /over_64, /over_88
//     The maximum of a row first rises after its first tile: in the second tile, in one between the
//     second and the last, in a full last tile, in a short last tile. It rises by 0.5 to 3, by 8 to
//     60, by 64 to 88, by more than 88.
// rise/T/never
//     A row of several tiles has its maximum in the first tile.
// rise/T/always
//     The maximum of a row rises in every tile, or in 24 tiles.
// lane/W/l
//     The largest score of a row exceeds all others by more than 88. It is in lane l of W = 16, 32
//     or 64, and not in the first W keys.
// gap/after_top/g, gap/before_top/g
//     One to eight top keys exceed all others by g = 8 to 20, plus or minus 1. The keys after the
//     first top key (before the last) show in some channel of the output.
// gap/cut/40
//     The same by 25 to 60. The other keys would show if weights below e^-20 were raised to e^-20.
// hidden/mask|bias/T/first, /middle, /last
//     A row sees some keys, but every key of that tile of its interval is hidden.
// hidden/mask|bias/unaligned/L
//     A row sees some keys. At least L consecutive keys are hidden, whose ends are not multiples of
//     16.
// hidden/mask|bias/scattered
//     A tile of 16 has a hidden key between two visible keys.
// block/mask|bias/T/all, /first_row, /last_row, /all_but_one
//     In a block of 64 rows and T keys these pairs are hidden: all; all of the first row, but not
//     of the last; all of the last row, but not of the first; all but those of one row. At least
//     half of the rows, and the rows named, see some keys.
// spread/T/rise/200, /2000
//     The maximum of a row rises by more than 200 (2,000) from one tile to a later one.
// spread/T/negative
//     In a tile, all logits that a row sees are negative, and they spread by more than 88. The
//     largest of them is the row's maximum so far. It is also above the sink, if there is one.
// spread/gap/1000, /5000, /23000
//     A row sees a key whose logit is below the largest one of the row: by 1,000 to 5,000, by 5,000
//     to 23,000, or by 23,000 to 45,000. In the last range the exponent of exp in base 2 does not
//     fit in 16 bits.
// softcap/bends
//     A row sees one key whose score, before the softcap, is 2 to 4 times the softcap, and another
//     whose score is 4 to 10 times the softcap. There tanh is nearly 1, but not 1.
// subnormal/q, /k
//     Q, K and V are in f16. The subnormal numbers of that tensor make two scores of a row differ
//     by at least a quarter.
// subnormal/v
//     Q, K and V are in f16. In some channel of V, all values that a row sees are subnormal or 0.
//     Their mean is at least 64 times half a subnormal of the output.
// finite_bias/only
//     All keys that a row sees have finite biases of at most -10,000.
// finite_bias/differ
//     The same, and two of these biases differ by at least 100.
// finite_bias/lowest
//     A row sees keys with the lowest finite bias of its type (f64: of f32), and keys with biases
//     above -1,000.
// finite_bias/T/first
//     The same in a row of at least 2 T keys: all that it sees in its first tile have the lowest.
// nan/q, /k, /v, /bias; inf/q, /k, /v, /bias
//     A row sees a NaN (an infinity) of that tensor, but not everything that is judged does.
// nan/first_tile/score, /v; inf/first_tile/+score, /+v, /-v; the same of last_tile
//     The logit of a row is NaN (+inf) for keys of its first (last) tile alone, or a channel of V
//     has NaN (+inf, -inf) there alone among the keys that the row sees. The row has several tiles,
//     and its first (last) one may be short. This happens for tiles of every size of which any row
//     has two.
// inf/first_tile/-score, inf/last_tile/-score
//     The same, where a key that masks do not hide has the logit -inf. Others may have it, too.
// nan/of_others/k
//     A row does not see a key with a NaN or an infinity that another row of its head sees.
// hidden_nan/k, /v
//     A key that no row sees has a NaN or an infinity.
// sink/leads, /trails
//     A row's sink exceeds all of its logits by more than 88; its largest logit exceeds the sink by
//     as much.
// equal/65504
//     The weights of a row sum to at least 65,504 times the largest weight.
// logit/+30000, logit/-30000
//     The largest logit of a row is above 20,000; all logits of a row are below -20,000.
// softcap/+88, softcap/-88
//     Before the softcap, the largest score of a row is above 88 times the softcap; all are below
//     -88 times it, so that exp of twice the ratio overflows.
// weights/graded
//     Three in four rows of at least 64 keys, all judged, have at least 8 distinct weights that are
//     within e^-4 of the largest and at least 0.2 % of the row; logits of at most 256; and values
//     that do not cancel.
// weights/key
//     Three in four of the keys that are tried have 16 / n of the weight of a row that sees n keys
//     (1/8 if that is less).
// cancels
//     The output of a row of at least eight keys, over all channels, is less than a third of the
//     root of the sum of (weight times value)^2.
// distinct
//     A row sees at least two keys, and all keys that it sees differ.
// heavy
//     A key with a value of at least 100 has a quarter of a row's weight.
// block_mask/blind, /only_last
//     In a block mask of at least four rows and three columns, a row of blocks sees no block, or
//     the last one alone.
// block_mask/short_last/seen, /hidden
//     The last block of keys is short. A row of blocks sees it, but not all others; another sees
//     others, but not this one.
// block_mask/short_rows
//     The last block of queries is short and sees other blocks than the one before it.
// block_mask/transposed, /heads, /sequences
//     A row of blocks differs from the column of that number, from the same row of head 0, from
//     that of sequence 0.
// global/sees_all, /last_query
//     A global token (the last one) sees a key that the band would hide from it.
// global/is_seen, /first_other_key
//     A row behind the global tokens sees the last of them outside its band; the band hides the
//     first key behind them from it.
// global/first_other_query
//     The band hides a key from the first row behind the global tokens.
// lengths/q_differs
//     A sequence with queries and keys has not as many queries as keys.
// lengths/offsets_differ
//     Of two such sequences, the number of keys minus that of queries differs: the diagonal of one
//     is not that of the other, if it ends at the bottom right.
// lengths/partial/q, /kv
//     A sequence has some, but less than seq_len_q queries (seq_len_kv keys).
// lengths/empty/q, /kv
//     A sequence has no queries (has queries, but no keys).
// lengths/empty/q_before_rows, /q_behind_rows
//     A packed sequence without queries stands before one whose first row sees a key (behind one
//     whose last row does), so that what is written for it spoils a row of the other.
// top_k/cuts
//     A row sees more than top_k keys.
// top_k/tie, /clear
//     The next key after the top_k largest has the same logit as the last of these, or one that is
//     at least 0.1 below it.
// top_k/ties_64
//     The same, and more than 64 keys of the row have that logit.
// top_k/below_zero, /far_above, /far_below
//     All logits of a row are below 0, above 50, below -50. The edge is at most 8 below the largest
//     of them, and some key is below the edge, so that a wrong choice shows.
// top_k/spread
//     Such an edge is at least 1,000 above the least logit.
// top_k/sees_just_these, /sees_one_more
//     A row sees exactly top_k keys, and seq_len_kv is more; a row sees one key more than top_k.
// top_k/hidden_above
//     MASK hides a key whose score is above the last of the top_k logits.
// f8/product/+65504, /-65504
//     Q and K are in 8 bits, and both have factors. A row sees a key whose product with the query,
//     as stored, is above 65,504 (below -65,504).
// f8/hidden/-10000
//     The same tensors. A row sees a key, and another key is hidden. If the product of the hidden
//     key were -10,000 as stored, its score (the product times factors and softmax_scale) would be
//     at most 8 below the largest score of the row.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/operations/softmax/events/unit.hpp"

namespace attest::core::events {

using Found = std::set<std::string>;

inline constexpr double kBeyondExp = 88;  // exp of larger numbers overflows float32
inline constexpr int kGaps[] = {8, 10, 12, 14, 16, 18, 20};
inline constexpr int64_t kRuns[] = {16, 32, 64, 128, 256, 512};
inline constexpr int64_t kGradedKeys = 64, kCancellingKeys = 8;
inline constexpr double kManyEqual = 65504;  // the largest f16
inline constexpr double kHugeLogit = 20000;
inline constexpr int kLargeRises[] = {200, 2000};
struct FarGap {
  double least, most;
};
inline constexpr FarGap kFarGaps[] = {{1000, 5000}, {5000, 23000}, {23000, 45000}};

// In halves of a subnormal of the output: numbers of this size show beside the output's rounding
inline constexpr double kSeenSubnormals = 64;
// A difference of scores that shows beside the rounding of f16
inline constexpr double kSeenScore = 0.25;

void find_rises(const Row& row, Found& found);
void find_lanes(const RowPlace& place, const RowSummary& summary, Found& found);
/// `sink`: the logit of the row's sink; -inf: it has none.
void find_spreads(const Row& row, float sink, Found& found);

/// Events of a row whose tensors are in f16.
void find_subnormals(const Unit& unit, const RowPlace& place, const Row& row, Found& found);

/// How many of all inspected things have a property.
struct Share {
  int64_t some = 0, all = 0;
  bool most() const { return all > 0 && 4 * some >= 3 * all; }
};

/// Events of the weights of the rows of one head. `graded` counts rows with graded weights, over
/// all heads.
void find_weights(const Unit& unit, const RowSet& rows, Found& found, Share& graded);
void find_gaps(const Unit& unit, const RowSet& rows, Found& found);

/// Finds which keys of one sequence and key head have much weight in some row of its query heads.
class KeyTrial {
 public:
  explicit KeyTrial(const Unit& unit);
  /// Adds rows of the head that is loaded.
  void add(const Unit& unit, const RowSet& rows);
  void count(Share& share) const;

 private:
  std::vector<int64_t> places_, seeing_;  // key positions; number of rows that see each
  std::vector<bool> weighing_;
  bool sampled_ = false;
};

/// Events of keys that MASK and BIAS hide: in single rows, and in blocks of rows.
void find_hidden(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                 const std::vector<bool>& judged, Found& found);
void find_blocks(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                 const std::vector<bool>& judged, Found& found);

/// Events of BLOCK_MASK and of global tokens.
std::vector<NumericEvent> structure_events(const Problem& problem);
void find_structure(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                    const std::vector<bool>& judged, Found& found);

/// Events at the edge of top_k.
std::vector<NumericEvent> top_k_events(const Problem& problem);
void find_top_k(const Unit& unit, const RowSet& rows, Found& found);

/// Events of Q and K in 8 bits that have factors. Problems in 8 bits have no others.
std::vector<NumericEvent> f8_events(const Problem& problem);
Found find_f8(const Problem& problem, const Tensors& tensors, const std::vector<bool>& judged);

/// Events of what programs write into BIAS where others write -inf.
void find_finite_biases(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                        const std::vector<bool>& judged, Found& found);

/// Bit t: holds for tiles of kEventTiles[t] keys.
using TileSizes = uint32_t;

/// NaN and infinities that rows see, over all heads.
struct Wild {
  Found seen;                             // nan/k ..., if some row sees one
  bool calm_row = false;                  // some row sees none, or none in some channel of V
  bool calm_channel = false;              // some row sees one in V, and has a channel without any
  std::map<std::string, TileSizes> ends;  // nan/first_tile/v ..., for which tiles it happens
};
void find_wild(const Unit& unit, const Tensor& bias, const RowSet& rows, Wild& wild);
void find_hidden_wild(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                      Found& found);

/// Events of the lengths of sequences, and those that happen in sequences with a judged row.
std::vector<NumericEvent> length_events(const Problem& problem);
void find_lengths(const Problem& problem, const Geometry& geometry, const std::vector<bool>& judged,
                  Found& found);

}  // namespace attest::core::events
