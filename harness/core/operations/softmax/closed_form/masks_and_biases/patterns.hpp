// Which keys MASK and BIAS hide in the codebook fills.
//
// If MASK or BIAS is of pairs, every row has one of a few patterns. Rows of one pattern see the
// same keys, so there is a closed form. The patterns are those at which kernels go wrong: hidden
// runs of 16 to 512 keys, aligned to their length or not, so that the first, a middle or the last
// tile of a row is hidden while others are visible; documents; bands of blocks; a prefix; a suffix;
// every other key; single keys. In some patterns only one key of 64 is visible, or only the first
// or last key of each tile. The lengths are smaller if rows see few keys. All patterns hide a few
// keys.
//
// About half of the rows form blocks that share a pattern. Most blocks have one odd row: the first,
// the last or one inside. The odd row sees all keys if the block hides many, and hides many if the
// block sees all. Each of the other rows has a random pattern.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// The patterns of one head.
class HiddenPatterns {
 public:
  static constexpr int64_t kCount = 34;
  /// kVisible hides only `never`; kBlind hides all keys.
  static constexpr int64_t kVisible = 0, kBlind = 1;
  /// Patterns from this number on hide long runs of keys, but not all keys.
  static constexpr int64_t kFirstHiding = 7;

  /// `keys`: the number of keys. `seen`: the most keys that a row sees without a mask. `never`:
  /// keys that every pattern hides.
  HiddenPatterns(uint64_t seed, int64_t keys, int64_t seen, Interval never);
  /// For each key: whether the pattern hides it.
  std::vector<uint8_t> hidden(int64_t pattern) const;
  /// The pattern that hides the longest aligned run at the beginning, or at the end if `last`.
  static int64_t longest_aligned(int64_t seen, bool last);

 private:
  void hide(std::vector<uint8_t>& hidden, int64_t begin, int64_t end) const;
  void hide_aligned(std::vector<uint8_t>& hidden, int64_t length, bool last, uint64_t seed) const;
  void hide_unaligned(std::vector<uint8_t>& hidden, int64_t length, uint64_t seed) const;
  void hide_but(std::vector<uint8_t>& hidden, int64_t begin, int64_t end) const;
  int64_t document_begin(int64_t n) const;

  uint64_t seed_;
  int64_t keys_, seen_;
  Interval never_;
};

/// A run of about 16 keys that all patterns hide.
Interval never_seen(uint64_t seed, int64_t keys, int64_t seen);

/// For a mask that is the same for all rows: whether it hides each key. It hides runs, and single
/// keys between them. `bands`: the problem has a band, so long runs must not be at the ends.
/// `variant`: which ends are hidden if there is no band.
std::vector<uint8_t> hidden_keys(uint64_t seed, int64_t keys, int64_t seen, bool bands,
                                 int64_t variant);

/// Describes the rows of one head to deal_patterns.
struct PatternDeal {
  uint64_t seed;
  int64_t rows;
  int64_t variant;             // which kinds of blocks come first, since few rows have room for few
  int64_t longest_aligned[2];  // HiddenPatterns::longest_aligned
  /// Whether a row with a pattern sees any key.
  std::function<bool(int64_t row, int64_t pattern)> sees;
};
/// The pattern of each row.
std::vector<uint8_t> deal_patterns(const PatternDeal& deal);

}  // namespace attest::core
