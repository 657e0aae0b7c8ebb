// Events: what inputs can make happen inside a tiled, online, masked softmax, at which a kernel can
// go wrong. A fill that makes none of them happen on a judged row cannot show a bug there, however
// sharp the judge.
//
// They are counted from the bytes of the inputs and from Geometry (who sees whom). No fill is known
// here.
//
// Tiles have T = 16, 32, 64, 128 or 256 keys; they count from place 0 of a sequence, or from the
// start of a grid window or patch.
//
// rise/T/second, /middle, /last, /tail, each /little, /much, /over_64, /over_88
//     a row's maximum stays what it was in the first tile that it sees, and first rises in the
//     second tile, in one between that and the last, in a full last one, in a short last one: by
//     0.5 to 3, 8 to 60, 64 to 88, more than 88
// rise/T/never
//     a row of several tiles has its maximum in the first one
// rise/T/always
//     a row's maximum rises in every tile, or in 24
// lane/W/l
//     a row's largest score stands alone, by more than 88, in lane l of W = 16, 32 or 64, and
//     behind its first tile of W keys
// gap/after_top/g, gap/before_top/g
//     one to eight keys are above all others by g, 8 to 20, give or take 1, and the others
//     behind the first of them (before the last of them) show in some channel of the output
// gap/cut/40
//     the same by 25 to 60, and the others would show if their weights were cut off at e^-20
//     from below
// hidden/mask or bias/T/first, /middle, /last
//     a row sees something, and of that tile of its interval MASK (a BIAS of -inf) hides every
//     key
// hidden/mask or bias/unaligned/L
//     a row sees something, and L keys or more in succession are hidden that begin and end off
//     multiples of 16
// hidden/mask or bias/scattered
//     a tile of 16 has a hidden key between two that the row sees
// block/mask or bias/T/all, /first_row, /last_row, /all_but_one
//     of 64 rows and T keys all pairs are hidden; those of the first row, and not of the last;
//     of the last, and not of the first; of all rows but one. Half of the rows at least, and
//     those, see something
// nan/q, /k, /v, /bias, inf/the same
//     a row sees a NaN (an infinity) of that tensor, and not everything that is judged does
// nan/of_others/k
//     a row does not see a key with a NaN or an infinity that another row of its head sees
// hidden_nan/k, /v
//     a NaN or an infinity in a key that nobody sees
// equal/65504
//     the weights of a row sum to 65,504 times the largest, or more
// logit/+30000, logit/-30000
//     the largest logit of a row is beyond 20,000; all of them are below -20,000
// weights/graded
//     rows of 64 keys and more, all of them judged, have at least 8 distinct weights within e^-4
//     of the largest that are 0.2 % of the row or more, logits of at most 256, and values that
//     do not cancel: three rows in four
// weights/key
//     a key has 16 / n of a row's weight (1/8 where that is less) in a row that sees n keys:
//     three keys in four of those that are tried
// cancels
//     the output of a row of eight keys and more is less than a third of the root of the sum of
//     squares of weight times value, over all channels
// distinct
//     all keys that a row sees differ, and there are two at least
// heavy
//     a key with a value of 100 and more has a quarter of a row's weight
#pragma once
#include <set>
#include <string>
#include <vector>

#include "core/operations/softmax/events/unit.hpp"

namespace attest::core::events {

using Found = std::set<std::string>;

inline constexpr double kBeyondExp = 88;  // exp of more is beyond float32
inline constexpr int kGaps[] = {8, 10, 12, 14, 16, 18, 20};
inline constexpr int64_t kRuns[] = {16, 32, 64, 128, 256, 512};
inline constexpr int64_t kGradedKeys = 64, kCancellingKeys = 8;
inline constexpr double kManyEqual = 65504;  // the largest f16
inline constexpr double kHugeLogit = 20000;

// Of half a subnormal of the output: what shows beside its rounding
inline constexpr double kSeenSubnormals = 64;

void find_rises(const Row& row, Found& found);
void find_lanes(const RowPlace& place, const RowSummary& summary, Found& found);

/// What the weights of the rows of one head come to, and gaps among its logits.
void find_weights(const Unit& unit, const RowSet& rows, Found& found);
void find_gaps(const Unit& unit, const RowSet& rows, Found& found);

/// How many of all that were looked at have something.
struct Share {
  int64_t some = 0, all = 0;
  bool most() const { return all > 0 && 4 * some >= 3 * all; }
};
/// Rows with graded weights, over all heads.
void count_graded(const Unit& unit, const RowSet& rows, Share& sum);

/// Which of the keys of one sequence and key head weigh in some row of its query heads.
class KeyTrial {
 public:
  explicit KeyTrial(const Unit& unit);
  /// The rows of the head that is loaded.
  void add(const Unit& unit, const RowSet& rows);
  void count(Share& share) const;

 private:
  std::vector<int64_t> places_, seeing_;  // seeing: rows that see the key at each of the places
  std::vector<bool> weighing_;
  bool sampled_ = false;
};

/// What MASK and BIAS hide, in single rows and in blocks of rows.
void find_hidden(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                 const std::vector<bool>& judged, Found& found);
void find_blocks(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                 const std::vector<bool>& judged, Found& found);

/// NaN and infinities: what the rows of one head see, over all heads.
struct Wild {
  Found seen;                 // nan/k ... of some row
  bool calm_row = false;      // a row sees none of them
  bool calm_channel = false;  // a row sees some in V, and another channel has none
};
void find_wild(const Unit& unit, const Tensor& bias, const RowSet& rows, Wild& wild);
void find_hidden_wild(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                      Found& found);

}  // namespace attest::core::events
