// The lengths of packed and padded sequences: of several draws, the one that shows most.
#include <algorithm>
#include <optional>

#include "core/operations/softmax/fills/edge_lengths.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;
using LengthList = std::vector<int64_t>;

constexpr uint64_t kLengthSeed = 0x6c656e67746873;  // not the fill's: lengths belong to the problem
// Keys of a tile. Where they end, tiles of a half and a quarter end as well. Short sequences have
// the small one.
constexpr int64_t kLikelyTile = 64, kLikelySmallTile = 16;
constexpr uint64_t kDraws = 512, kDrawnLengths = 1 << 20;  // of a draw; of all draws together

// The queries or the keys of a problem.
struct Side {
  bool packed, padded;
  int64_t batch, longest, tokens;

  bool varies() const { return packed || padded; }
};

Side side_of(const Problem& problem, bool kv) {
  const Params& p = problem.as<Params>();
  return {.packed = problem.has(kv ? ATTEST_CU_SEQLENS_KV : ATTEST_CU_SEQLENS_Q),
          .padded = problem.has(kv ? ATTEST_SEQ_LENS_KV : ATTEST_SEQ_LENS_Q),
          .batch = p.batch,
          .longest = kv ? p.seq_len_kv : p.seq_len_q,
          .tokens = problem.operation->dims(problem, kv ? ATTEST_K : ATTEST_Q)[2]};
}

// `tokens` in all, one sequence of `longest`. With `empty`, one is empty if the others can hold the
// rest; apart from that, none is if there are tokens enough.
LengthList packed_lengths(const Side& side, uint64_t seed, bool empty) {
  LengthList lengths(size_t(side.batch), 0);
  const auto top = size_t(random_below(seed, 0, uint64_t(side.batch)));
  lengths[top] = side.longest;
  int64_t left = side.tokens - side.longest, sequences = side.batch - 1;
  std::vector<size_t> others;
  for (size_t k = 1; k <= size_t(sequences); ++k) others.push_back((top + k) % size_t(side.batch));
  if (empty && sequences >= 1 && left <= (sequences - 1) * side.longest) {
    others.pop_back();
    --sequences;
  }
  for (size_t k = 0; k < others.size(); ++k, --sequences) {
    const int64_t behind = sequences - 1,
                  least = std::max<int64_t>(0, left - behind * side.longest),
                  most = std::max(least, std::min(side.longest, left - behind));
    const int64_t wanted = int64_t(random_below(seed, k + 1, uint64_t(2 * left / sequences + 1)));
    lengths[others[k]] =
        behind == 0 ? left : std::clamp(wanted, std::max<int64_t>(least, most > 0), most);
    left -= lengths[others[k]];
  }
  return lengths;
}

// One is full; with `empty` and from three on, another is empty. A single one is not full.
LengthList padded_lengths(const Side& side, uint64_t seed, bool empty) {
  if (side.batch == 1)
    return {std::max<int64_t>(1, side.longest - side.longest / int64_t(2 + seed % 4))};
  LengthList lengths;
  for (int64_t b = 0; b < side.batch; ++b)
    lengths.push_back(1 + int64_t(random_below(seed, uint64_t(b) + 2, uint64_t(side.longest))));
  const uint64_t top = random_below(seed, 0, uint64_t(side.batch)),
                 other = top + 1 + random_below(seed, 1, uint64_t(side.batch) - 1);
  lengths[size_t(top)] = side.longest;
  if (empty && side.batch > 2) lengths[size_t(other) % lengths.size()] = 0;
  return lengths;
}

LengthList draw(const Side& side, uint64_t seed, bool empty) {
  if (side.packed) return packed_lengths(side, seed, empty);
  if (side.padded) return padded_lengths(side, seed, empty);
  return LengthList(size_t(side.batch), side.longest);
}

// A sequence without rows beside one whose first (last) row sees a key: what is written for the
// former spoils that row. Bit 1: before it; bit 0: behind it. Sequences that are not packed have
// rows of their own.
int empty_beside_rows(const Params& p, const Lengths& lengths, bool packed) {
  if (!packed) return 3;
  const auto sees = [&](size_t b, bool first) {
    const int64_t rows = lengths.q[b], i = first ? 0 : rows - 1;
    return rows > 0 && visible_keys(p, i, rows, lengths.kv[b]).size() > 0;
  };
  bool before = false, behind = false;
  for (size_t b = 0; b < lengths.q.size(); ++b) {
    if (lengths.q[b] > 0) continue;
    before |= b + 1 < lengths.q.size() && sees(b + 1, true);
    behind |= b > 0 && sees(b - 1, false);
  }
  return 2 * before + behind;
}

// What a kernel that takes one length for another gets wrong, the likeliest mistake first: the
// length of the queries for that of the keys, the longest sequence's diagonal for one's own, the
// longest for one's own; a row without keys, a sequence without rows, and where that stands.
int shows(const Params& p, const Lengths& lengths, const Side& q, const Side& kv) {
  bool differ = false, partial_q = false, partial_kv = false, blind = false, idle = false;
  std::optional<int64_t> offset;
  bool offsets_differ = false;
  for (size_t b = 0; b < lengths.q.size(); ++b) {
    const int64_t rows = lengths.q[b], keys = lengths.kv[b];
    idle |= rows == 0;
    blind |= rows > 0 && keys == 0;
    partial_q |= rows > 0 && rows < q.longest;
    if (rows == 0 || keys == 0) continue;
    differ |= rows != keys;
    partial_kv |= keys < kv.longest;
    offsets_differ |= offset.value_or(keys - rows) != keys - rows;
    offset = keys - rows;
  }
  return 128 * differ + 64 * offsets_differ + 32 * partial_kv + 16 * blind + 8 * idle +
         2 * empty_beside_rows(p, lengths, q.packed) + partial_q;
}

bool have_same_tokens(const Problem& problem) {
  return problem.has(ATTEST_ORDER) || problem.as<Params>().patch_size > 0;
}

// Of the draws but `taken`, the first that shows most; of those that show as much, one that differs
// from it on both sides, as far as they vary.
std::optional<Lengths> best(const Problem& problem, const std::optional<Lengths>& taken) {
  const Side q = side_of(problem, false), kv = side_of(problem, true);
  const bool same_tokens = have_same_tokens(problem);
  constexpr int kAll = 255;
  const int most_wanted = 2 * kAll + (taken ? 1 : 0);
  std::optional<Lengths> best;
  int most = -1;
  const uint64_t draws = std::clamp<uint64_t>(kDrawnLengths / uint64_t(q.batch), 1, kDraws);
  for (uint64_t k = 0; k < draws && most < most_wanted; ++k) {
    const uint64_t seed = random_bits(kLengthSeed, 2 * k);
    const Lengths drawn{draw(q, seed, k % 2 == 0),
                        same_tokens ? draw(kv, seed, k % 2 == 0)
                                    : draw(kv, random_bits(kLengthSeed, 2 * k + 1), k % 4 < 2)};
    const bool both_differ =
        taken && (!q.varies() || drawn.q != taken->q) && (!kv.varies() || drawn.kv != taken->kv);
    const int shown = 2 * shows(problem.as<Params>(), drawn, q, kv) + (both_differ ? 1 : 0);
    if (shown > most && drawn != taken) {
      best = drawn;
      most = shown;
    }
  }
  return best;
}

// Returns lengths made by with_edges(). They show all that `lengths` show, and are not `taken`.
Lengths edged(const Problem& problem, const Lengths& lengths, const Lengths& taken) {
  const Side q = side_of(problem, false), kv = side_of(problem, true);
  const auto limits_of = [](const Side& side) {
    return LengthLimits{side.varies(), side.packed, side.longest};
  };
  const Params& p = problem.as<Params>();
  const int shown = shows(p, lengths, q, kv);
  const int64_t tile = kv.longest > kLikelyTile ? kLikelyTile : kLikelySmallTile;
  return with_edges(lengths,
                    {.q = limits_of(q),
                     .kv = limits_of(kv),
                     .same_tokens = have_same_tokens(problem),
                     .page = p.page_size > 0 ? p.page_size : tile},
                    [&](const Lengths& changed) {
                      return (shown & ~shows(p, changed, q, kv)) == 0 && changed != taken;
                    });
}

}  // namespace

std::vector<int64_t> sequence_lengths(const Problem& problem, bool kv, bool other) {
  const Side side = side_of(problem, kv);
  if (!side.varies()) return draw(side, 0, false);
  std::optional<Lengths> found = best(problem, {});
  if (other)
    if (const std::optional<Lengths> second = best(problem, found))
      found = edged(problem, *second, *found);
  return kv ? found->kv : found->q;
}

}  // namespace attest::core
