// The codebook fill: keys and queries take one of a few vectors, so that softmax attention has a
// closed form at any size.
//
// K[.., j, :] is one of C vectors and V[.., j, :] is random, Q[.., i, :] is one of C vectors: with
// n_g and V_g the number and the sum of the values of the visible keys of code g, o_i = sum_g
// e^(S_hg - m) V_g / sum_g e^(S_hg - m) n_g for a query of code h. The C x C scores S come from the
// stored vectors, so that this is the true answer, whatever the dtype and the amplitude.
//
// MASK and BIAS of pairs give each row one of a few patterns (patterns.hpp): rows of one
// pattern see the same keys at the same levels, so n_g and V_g are theirs in common. Which rows are
// alike is read from the bytes (row_classes.hpp).
//
// "codebook" has scores of standard deviation 1.75; "codebook_peaked" has one best code a query, at
// a score near 24. An eighth of the key codes stands in the second half of an interval only, so
// that the running maximum of an online softmax moves late too.
//
// "cancelling" has four query codes, and keys in blocks of eight whose values are orthogonal to the
// weights that each query code gives them: the true output is nearly 0 while sum p |v| is not. So
// the output's own rounding vanishes, and what is left is the arithmetic before it: probabilities,
// scores or sums in less than float32 show, even where the output is stored in bfloat16.
//
// "huge" is "codebook" with logits near 30,000, near -30,000 and near 0 by query code: all keys
// have one channel in common, a power of two, and so have the queries, or 0. One query code is 0
// altogether: its row is flat. Biases are 4,096 times as large. Keys that nobody sees hold NaN and
// infinities. Honest scores in less than float32 err by whole numbers there; such rows are held to
// being averages of the values.
//
// "edges" has key codes that one key of a sequence (or window) has alone: at both ends and beside
// tiles' edges (EdgePlaces). Queries give theirs about half of their weight, and the rest to all
// others; where the interval ends within the sequence, to the key at its end or to the one beyond.
// These keys' values are four times as large; one channel of V is 1, another is the key's place.
//
// "rising" has marks (codebook_marks.hpp): keys with a code of their own. Each query asks for one
// of them by some lead over all other keys, which score nearly alike; one query code sees every
// mark above those before it. In even channels marks have the value 0 and the others positive
// values, so that what the others weigh shows however little it is; in odd ones marks have values
// of up to 2,000.
//
// "equal" has one key code, so all scores of a row are equal: 0 for one query code. "flat" has
// scores of standard deviation 1/64.
//
// "tiny" is "codebook" with every other channel of V below the smallest normal number of its dtype,
// and one channel of Q and K.
//
// Codes are independent draws: in a shuffle that deals every code once in C keys, all tiles of C
// keys would have the same sum, and adding one number again and again rounds the same way each
// time, which is no fair test of an accumulator.
#pragma once
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "core/operations/softmax/closed_form/edges.hpp"
#include "core/operations/softmax/closed_form/levels.hpp"
#include "core/operations/softmax/closed_form/marks.hpp"

namespace attest::core {

class Codebook {
 public:
  static constexpr int64_t kMost = 64;
  static constexpr uint8_t kUnseen = 255;

  /// Reads the tables (lengths, order, pages) and ScoreLevels' tensors, which must be filled.
  Codebook(const Problem& problem, const Fill& fill, const Tensors& tensors);

  enum class Kind { kWide, kPeaked, kCancelling, kHuge, kEdges, kEqual, kFlat, kTiny, kRising };
  /// What BIAS and REL_BIAS are multiples of.
  static double level_unit(Kind kind) {
    return kind == Kind::kHuge ? 4096 : kind == Kind::kRising ? 0x1p-6 : 1;
  }
  /// Of a fill's name; throws Error where it is none of the codebook's.
  static Kind kind_of(std::string_view fill);
  static bool knows(std::string_view fill);
  static constexpr int64_t kBlock = 8, kCancellingQueries = 4;
  /// |v| of keys that are seen: 4, or a projection of eight of them; of marks.
  static constexpr double kLargestValue = 16, kLargestMark = 2048;
  /// How many keys the largest interval has that a row sees.
  int64_t period() const { return period_; }
  double largest_value() const { return kind_ == Kind::kRising ? kLargestMark : kLargestValue; }

  Kind kind() const { return kind_; }
  /// C: a quarter of the keys that the best placed query sees, 2 to 64; kBlock times 1 to 8 where
  /// values cancel.
  int64_t key_codes() const { return key_codes_; }
  int64_t query_codes() const { return query_codes_; }
  const Geometry& geometry() const { return geometry_; }
  const ScoreLevels& levels() const { return levels_; }
  /// Keys of one code and level, queries of one code and level: they have one score.
  int64_t key_groups() const { return key_codes_ * levels_.key_levels(); }
  int64_t query_groups() const { return query_codes_ * levels_.query_levels(); }
  /// Where kEdges: key codes below it are those of EdgePlaces. Where kRising: of Marks.
  int64_t edge_codes() const { return edge_codes_; }
  /// Whether the keys of a code stand at few places, or in one part of a sequence only: what they
  /// weigh comes all at once.
  bool localised(int64_t key_code) const;
  /// The place of the first sequence that reads a cell of K, and that sequence's length; -1 where
  /// no query sees the key.
  struct KeyPlace {
    int64_t place, length;
  };
  KeyPlace key_place(Cell cell) const;
  /// Rows of outputs that err by themselves; heads of a group may ask alike.
  int64_t distinct_rows() const {
    return (kind_ == Kind::kEqual ? 1 : query_codes_) * params_.num_kv_heads;
  }
  /// Of the query at place i of sequence b.
  int64_t query_group(int64_t head, int64_t b, int64_t i) const {
    return query_code(head, geometry_.query(b, i)) * levels_.query_levels() + levels_.of_query(i);
  }
  /// Code of the key in a cell of K, or kUnseen where no query sees it.
  uint8_t key_code(int64_t kv_head, Cell cell) const;
  /// Where values cancel: the block of eight keys that a key belongs to, and its place in it. The
  /// codes of a block are those of one pattern: kBlock * pattern .. kBlock * pattern + 7, in
  /// rotated order.
  struct BlockPlace {
    int64_t block, place, pattern, rotation;
    int64_t code(int64_t of_place) const {
      return pattern * kBlock + (of_place + rotation) % kBlock;
    }
  };
  BlockPlace block_place(int64_t kv_head, Cell cell) const;
  /// Code of a row of Q.
  uint8_t query_code(int64_t head, Cell cell) const;
  /// The vectors [codes, head_dim] of a head as they are meant, before they are rounded to the
  /// dtype of K and Q.
  std::vector<float> keys(int64_t kv_head) const;
  std::vector<float> queries(int64_t head) const;

 private:
  Codebook(const Codebook&) = delete;  // levels_ refers to geometry_
  void note_seen();
  bool hidden(int64_t b, int64_t j) const;
  void count_codes();
  int64_t claim(Cell cell) const { return first_claim_[size_t(cell.outer * k_rows_ + cell.row)]; }
  bool cancels() const { return kind_ == Kind::kCancelling; }
  std::vector<uint8_t> partners(int64_t head) const;
  void plan_edges(int64_t most);
  void turn_to_edges();
  int64_t edge_code(int64_t b, int64_t j) const;
  void turn(int64_t head, Cell cell, int64_t code);
  void plan_marks();
  void turn_to_marks();
  int64_t asked(int64_t b, Interval seen, int64_t i, int64_t head) const;
  bool repeats() const;
  int64_t mark_code(int64_t b, int64_t j) const;
  void part_directions(std::vector<float>& keys, uint64_t seed) const;
  void lift_marks(std::vector<float>& keys, uint64_t seed) const;
  std::pair<double, double> reach(double lead, double nearest, double largest) const;
  std::vector<float> asking(const std::vector<float>& keys) const;
  double level_step() const;
  void lift(std::vector<float>& queries) const;
  double common_key() const;
  double common_query() const;

  attest_softmax_params params_;
  Geometry geometry_;
  ScoreLevels levels_;
  uint64_t seed_;
  Kind kind_;
  int64_t k_rows_, q_rows_;
  double tiny_;            // kTiny: that channel of Q and K
  double largest_finite_;  // of what Q and K are stored in
  int64_t key_codes_ = 2, query_codes_ = 2;
  int64_t period_ = 1;  // keys of the largest interval
  float sigma_ = 1;     // of the channels of K
  int64_t edge_codes_ = 0;
  std::map<int64_t, EdgePlaces> edges_;              // by the length of sequences or windows
  std::map<int64_t, Marks> marks_;                   // likewise, of kRising
  std::vector<Ask> asks_;                            // kRising: of each query code
  std::vector<std::vector<uint8_t>> codes_of_mark_;  // kRising: the query codes that ask for it
  std::vector<uint8_t> codes_of_gaps_;  // likewise, of all marks that are asked for by a gap
  std::vector<uint8_t> turned_;  // [num_heads, cells of Q]: the code of a query, or kUnseen: any
  std::vector<int64_t> first_claim_;  // by dim 0 and dim 2 of K: b * seq_len_kv + j of the first
                                      // place on that cell, or -1
};

}  // namespace attest::core
