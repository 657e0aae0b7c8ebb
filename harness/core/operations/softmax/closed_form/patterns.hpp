// Which keys MASK and BIAS hide in the codebook fills.
//
// Where they are of pairs, every row has one of a few patterns, so that rows of one pattern see the
// same keys and the closed form holds. Patterns hide what kernels go wrong at: runs of 16 to 512
// keys, aligned to their length or not, so that the first, a middle and the last tile of a row are
// hidden while it sees others; documents; bands of blocks; a prefix; a suffix; every other key;
// single keys. Some patterns show only one key of 64, or only the first or the last key of each
// tile. Lengths shrink where rows see few keys. All patterns hide a few keys.
//
// About half of the rows lie in blocks that share a pattern, most of these with one odd row: first,
// last or inside. Where the block hides much, the odd row sees all; where the block sees all, the
// odd row hides much. The other rows have any pattern, row by row.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// The patterns of one head: its keys, and the most that one row sees of them without a mask.
class HiddenPatterns {
 public:
  static constexpr int64_t kCount = 34;
  /// Hides nothing but `never`; hides all keys.
  static constexpr int64_t kVisible = 0, kBlind = 1;
  /// Patterns from here on hide long runs of keys, and not all.
  static constexpr int64_t kFirstHiding = 7;

  /// `never`: keys that every pattern hides.
  HiddenPatterns(uint64_t seed, int64_t keys, int64_t seen, Interval never);
  /// For each key whether the pattern hides it.
  std::vector<uint8_t> hidden(int64_t pattern) const;
  /// The one that hides the longest runs, aligned to their length; `last`: the last one among them,
  /// in place of the first.
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

/// Keys that are hidden in all patterns: some 16 in a row.
Interval never_seen(uint64_t seed, int64_t keys, int64_t seen);

/// For each key whether a mask that is the same for all rows hides it: runs, and single keys
/// between them. `bands`: rows see different keys, so that no long run may stand at the ends;
/// `variant` chooses which ends are hidden where there are none.
std::vector<uint8_t> hidden_keys(uint64_t seed, int64_t keys, int64_t seen, bool bands,
                                 int64_t variant);

/// What the rows of one head are dealt patterns by.
struct PatternDeal {
  uint64_t seed;
  int64_t rows;
  int64_t variant;             // which kinds of blocks come first: few rows have room for few
  int64_t longest_aligned[2];  // HiddenPatterns::longest_aligned
  /// Whether a row sees a key under a pattern.
  std::function<bool(int64_t row, int64_t pattern)> sees;
};
std::vector<uint8_t> deal_patterns(const PatternDeal& deal);

}  // namespace attest::core
