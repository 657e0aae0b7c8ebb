// The codebook fills. Keys and queries are taken from a few vectors, so that softmax attention has
// a closed form at any size; has_closed_form (softmax.hpp) tells for which problems. In others the
// golden for any inputs judges the rows (golden/sampled.cpp).
//
// K[.., j, :] and Q[.., i, :] are each one of C vectors; V[.., j, :] is random. Let n_g be the
// number of visible keys of code g, and V_g the sum of their values. A query of code h then has o_i
// = sum_g e^(S_hg - m) V_g / sum_g e^(S_hg - m) n_g. The C x C scores S are computed from the
// stored vectors, so this is the true output for any dtype and amplitude.
//
// If MASK or BIAS has a number for each pair of a query and a key, its rows follow a few patterns
// (masks_and_biases/patterns.hpp). Rows with the same pattern see the same keys with the same
// biases, so one n_g and one V_g serve them all. The code in row_classes.hpp finds equal rows by
// their bytes.
//
// The fills:
//
// "codebook": scores have standard deviation 1.75. An eighth of the key codes only occurs in the
// second half of an interval, so that the running maximum of an online softmax rises late too.
//
// "codebook_peaked": each query has one best code, with a score near 24.
//
// "cancelling": four query codes, and keys in blocks of eight whose values are orthogonal to the
// weights that each query code gives them. A mask or bias does the same to all keys of a block. The
// true output is nearly 0 while sum p |v| is not. The rounding of the output vanishes, so the
// arithmetic before it shows: probabilities, scores or sums in less than float32, even if the
// output is stored in bfloat16.
//
// "huge": "codebook" with logits near 30,000, near -30,000 or near 0, depending on the query code.
// All keys have the same power of two in one channel; queries have a power of two or 0 there. One
// query code is all 0, so its rows are flat. Biases are 256 times as large. Keys that no query
// sees are NaN and infinities. Honest scores in less than float32 err by whole numbers here; such
// rows only have to be averages of the values.
//
// "edges": key codes that occur once in a sequence (or window): at both ends, and beside the edges
// of tiles (EdgePlaces). A query gives such a key about half of its weight; if its interval ends
// within the sequence, it asks for the key at that end or for the next one. The values of these
// keys are four times as large. One channel of V is 1, another is the key's position.
//
// "rising": marks (rising/marks.hpp) are keys whose code no other key has. Each query asks for one
// mark, whose score leads those of all other keys, which are nearly equal. One query code sees
// every mark above those before it. In even channels, marks have the value 0 and other keys
// positive values, so that the weight of the others shows, however small it is. In odd channels,
// marks have values of up to 2,000.
//
// "rising_2" to "rising_24": further rounds of "rising" (rising/rounds.hpp). Some problems have too
// few rows to show everything in one round; each round goes on with other marks. In others a
// softcap bounds the scores and a term is added after it. Queries are 0 there, and the term has the
// leads: BIAS at the marks, REL_BIAS and ALIBI_SLOPES at each row's own position.
//
// "equal": one key code, so all scores of a row are equal; one query code has scores of 0.
//
// "flat": scores have standard deviation 1/64.
//
// "tiny": "codebook" with every other channel of V, and one channel of Q and K, below the smallest
// normal number of the dtype.
//
// Codes are drawn independently. If each code occurred once in C keys, all tiles of C keys would
// have the same sum; adding the same number again and again always rounds the same way, which would
// not be a fair test of an accumulator.
#pragma once
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "core/operations/softmax/closed_form/edges.hpp"
#include "core/operations/softmax/closed_form/masks_and_biases/levels.hpp"
#include "core/operations/softmax/closed_form/rising/rounds.hpp"

namespace attest::core {

class Codebook {
 public:
  static constexpr int64_t kMost = 64;
  static constexpr uint8_t kUnseen = 255;
  static constexpr int64_t kOwnChannels = 2;  // kRising: before the directions of marks

  /// Reads the tables (lengths, order, pages), BIAS, MASK and REL_BIAS, which must be filled.
  Codebook(const Problem& problem, const Fill& fill, const Tensors& tensors);

  enum class Kind { kWide, kPeaked, kCancelling, kHuge, kEdges, kEqual, kFlat, kTiny, kRising };
  /// BIAS and REL_BIAS are multiples of this.
  static double level_unit(Kind kind) {
    return kind == Kind::kHuge     ? 256
           : kind == Kind::kRising ? 0x1p-6
           : kind == Kind::kPeaked ? 0.25
                                   : 1;
  }
  /// The kind of a fill with that name. Throws Error if it is not a codebook fill.
  static Kind kind_of(std::string_view fill);
  /// Whether a codebook fill has that name.
  static bool knows(std::string_view fill);
  /// Adds the leads of a round whose leads are in a term to BIAS, REL_BIAS or ALIBI_SLOPES.
  void raise_term(const Tensors& tensors) const;
  /// The number of leads that REL_BIAS or ALIBI_SLOPES, whichever `term` is, has in all rounds.
  static int64_t leads_of_term(int32_t term);
  static constexpr int64_t kBlock = 8, kCancellingQueries = 4;
  /// Whether an interval sees each position modulo the longest interval once: windows, patches, and
  /// bands that move.
  static bool repeats(const attest_softmax_params& params);
  /// Bounds of |v|: of visible keys (4, or a projection of eight such values), and of marks.
  static constexpr double kLargestValue = 16, kLargestMark = 2048;
  /// The number of keys in the largest interval that a row sees.
  int64_t period() const { return period_; }
  double largest_value() const { return kind_ == Kind::kRising ? kLargestMark : kLargestValue; }

  Kind kind() const { return kind_; }
  /// C: a quarter of period(), but 2 to 64; for "cancelling", kBlock times 1 to 8.
  int64_t key_codes() const { return key_codes_; }
  int64_t query_codes() const { return query_codes_; }
  const Geometry& geometry() const { return geometry_; }
  const ScoreLevels& levels() const { return levels_; }
  /// A group is all keys, or all queries, of one code and level. A key group and a query group have
  /// one score.
  int64_t key_groups() const { return key_codes_ * levels_.key_levels(); }
  int64_t query_groups() const { return query_codes_ * levels_.query_levels(); }
  /// Key codes below this belong to EdgePlaces (kEdges) or Marks (kRising).
  int64_t edge_codes() const { return edge_codes_; }
  /// Whether the keys of a code are at few positions, or in one part of a sequence only, so that a
  /// running sum gets all of their weight at once.
  bool localised(int64_t key_code) const;
  /// The position of a cell of K in the first sequence that reads it, and that sequence's length.
  /// `place` is -1 if no query sees the key.
  struct KeyPlace {
    int64_t place, length;
  };
  KeyPlace key_place(Cell cell) const;
  /// Golden::distinct_rows: query heads of one key head may have equal queries.
  int64_t distinct_rows() const {
    return (kind_ == Kind::kEqual ? 1 : query_codes_) * params_.num_kv_heads;
  }
  /// The group of the query at position i of sequence b.
  int64_t query_group(int64_t head, int64_t b, int64_t i) const {
    return query_code(head, geometry_.query(b, i)) * levels_.query_levels() + levels_.of_query(i);
  }
  /// The code of the key in a cell of K; kUnseen: no query sees it.
  uint8_t key_code(int64_t kv_head, Cell cell) const;
  /// For "cancelling": the block of eight keys that a key belongs to, and its place in the block.
  /// The codes of a block are kBlock * pattern .. kBlock * pattern + 7, in rotated order.
  struct BlockPlace {
    int64_t block, place, pattern, rotation;
    int64_t code(int64_t of_place) const {
      return pattern * kBlock + (of_place + rotation) % kBlock;
    }
  };
  BlockPlace block_place(int64_t kv_head, Cell cell) const;
  /// The code of a row of Q.
  uint8_t query_code(int64_t head, Cell cell) const;
  /// The vectors [codes, head_dim] of a head, before they are rounded to the dtype of K or Q.
  std::vector<float> keys(int64_t kv_head) const;
  std::vector<float> queries(int64_t head) const;

 private:
  Codebook(const Codebook&) = delete;  // levels_ refers to geometry_
  void deal_asks(const Problem& problem);
  /// The largest slope of ALiBi with which some key of every row stays above -kHighBias.
  double steepest_slope() const;
  void raise_bias(const Tensor& bias) const;
  void raise_bias_row(const Tensor& bias, int64_t at, const BiasRow& row) const;
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
  void turn_to_marks(const Problem& problem);
  int64_t asked(int64_t b, Interval seen, int64_t i, int64_t head);
  int64_t next_ask(int64_t b, int64_t i, int64_t head);
  // The keys of a sequence up to the last one that a row sees.
  int64_t reach(int64_t b) const {
    const int64_t rows = geometry_.length_q(b);
    return rows > 0 ? geometry_.keys(b, rows - 1).end : 0;
  }
  int64_t place_of_mark(int64_t b, int64_t code, int64_t begin) const {
    return marks_.place(code, reach(b), begin);
  }
  bool repeats() const { return repeats(params_); }
  int64_t mark_code(int64_t b, int64_t j) const;
  void part_directions(std::vector<float>& keys, uint64_t seed) const;
  void lift_marks(std::vector<float>& keys, uint64_t seed) const;
  std::pair<double, double> reach(double lead, double nearest, double largest) const;
  double stair(int64_t ask) const;
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
  bool has_slopes_;
  int64_t k_rows_, q_rows_;
  double tiny_;            // kTiny: the value of that channel of Q and K
  double largest_finite_;  // of the dtype of Q and K
  int64_t key_codes_ = 2, query_codes_ = 2;
  int64_t period_ = 1;  // keys of the largest interval
  float sigma_ = 1;     // standard deviation of the channels of K
  int64_t edge_codes_ = 0;
  std::map<int64_t, EdgePlaces> edges_;  // kEdges: by length of sequence or window
  MarkPlan marks_;                       // kRising
  std::vector<Ask> asks_;                // kRising: for each query code
  bool is_dealt_ = false;                // kRising: AskingRows::are_dealt()
  int64_t round_ = 0;                    // kRising: round_of() the fill
  int32_t term_ = 0;                     // kRising: leading_term() in a further round, else 0
  // kRising, by key code: the query codes that ask for a mark
  std::vector<std::vector<uint8_t>> codes_of_mark_;
  std::vector<uint8_t> codes_of_gaps_;  // kRising: the query codes whose Ask is a gap
  std::vector<int64_t> rows_asking_;    // kRising, [num_heads, query codes]: how many times
                                        // next_ask has returned the code
  std::vector<uint8_t> turned_;  // [num_heads, cells of Q]: the code of a query; kUnseen: any code
  std::vector<int64_t> first_claim_;  // [dim 0 of K, dim 2 of K]: b * seq_len_kv + j of the first
                                      // position in that cell, or -1
};

}  // namespace attest::core
