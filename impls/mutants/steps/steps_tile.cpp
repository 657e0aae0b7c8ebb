// Four queries by 16 columns at a time, in the compiler's generic vectors; x86 has AVX2 too.
#include "mutants/steps/steps_tile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attest.hpp"
#include "mutants/operations/fast_exp.hpp"

namespace steps {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kHidden = -kInfinity,
                kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kLanes = 8, kVectors = kColumns / kLanes;
typedef float Vector __attribute__((vector_size(32), aligned(4), may_alias));  // any alignment

/// c[4][16] += a[4][depth] b[depth][16], summed apart from c; strides in floats.
ATTEST_INLINE void multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                            int64_t depth, float* c, int64_t c_stride) {
  Vector sum[kRowsAtOnce][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    const Vector* columns = reinterpret_cast<const Vector*>(b + k * b_stride);
    for (int r = 0; r < kRowsAtOnce; ++r)
      for (int n = 0; n < kVectors; ++n) sum[r][n] += a[r * a_stride + k] * columns[n];
  }
  for (int r = 0; r < kRowsAtOnce; ++r)
    for (int n = 0; n < kVectors; ++n) reinterpret_cast<Vector*>(c + r * c_stride)[n] += sum[r][n];
}

/// exp(x), infinite beyond 88.
ATTEST_INLINE float exp_any(float x) { return x > 88 ? kInfinity : mutants::exp_negative(x); }

/// The largest of `count` numbers, a multiple of 8, and `least`; a NaN is none.
ATTEST_INLINE float largest(const float* p, int64_t count, float least) {
  float most[kLanes];
  for (int64_t n = 0; n < kLanes; ++n) most[n] = kHidden;
  for (int64_t j = 0; j < count; j += kLanes)
    for (int64_t n = 0; n < kLanes; ++n) most[n] = p[j + n] > most[n] ? p[j + n] : most[n];
  for (int64_t n = 0; n < kLanes; ++n) least = most[n] > least ? most[n] : least;
  return least;
}

ATTEST_INLINE bool reaches(const Row& row, const Tile& tile) {
  return row.begin < tile.begin + tile.keys && row.end > tile.begin;
}
ATTEST_INLINE bool is_short_tail(const Tile& tile) { return tile.keys < tile.size; }

/// Scores become logits: what is clipped, hidden by the band, added by terms.
ATTEST_INLINE void to_logits(const Rows& rows, int64_t i, const Tile& tile, float* p) {
  const Row& row = rows.row[i];
  const float most = rows.largest_score, least = rows.least_score;
  if (most < kInfinity || least > -kInfinity)
    for (int64_t j = 0; j < tile.size; ++j) p[j] = p[j] > most ? most : p[j] < least ? least : p[j];
  if (row.begin > tile.begin || row.end < tile.begin + tile.size)
    for (int64_t j = 0; j < tile.size; ++j)
      if (tile.begin + j < row.begin || tile.begin + j >= row.end) p[j] = kHidden;
  if (rows.terms) rows.terms->apply(i, tile.begin, tile.size, p);
}

/// Whether all keys from `first` up to `past` are hidden.
bool are_hidden(const float* p, int64_t first, int64_t past) {
  return std::all_of(p + first, p + past, [](float logit) { return logit == kHidden; });
}

/// Whether the row takes a tile for hidden that is not.
bool skips(Bug bug, const Tile& tile, const float* p) {
  const bool first = p[0] == kHidden, last = p[tile.keys - 1] == kHidden;
  switch (bug) {
    case Bug::kSkipByFirstKey: return first;
    case Bug::kSkipByEnds: return first && last;
    case Bug::kSkipButFirst: return are_hidden(p, 1, tile.keys);
    case Bug::kSkipButLast: return are_hidden(p, 0, tile.keys - 1);
    default: return false;
  }
}

/// Keys of the band behind a run of `longest` hidden ones are hidden too.
void end_after_run(const Tile& tile, int32_t longest, Row& row, float* p) {
  const int64_t first = std::max<int64_t>(0, row.begin - tile.begin);
  const int64_t past = std::min(tile.keys, row.end - tile.begin);
  for (int64_t j = first; j < past; ++j) {
    if (row.ended) p[j] = kHidden;
    row.run = p[j] == kHidden ? row.run + 1 : 0;
    row.ended |= row.run >= longest;
  }
}

/// Logits times log2(e) are -inf, which a maximum of -inf does not survive.
void overflow_in_base_2(const Row& row, const Tile& tile, float* p) {
  constexpr float kLog2E = 1.44269504f;
  const float most = std::max(row.top, *std::max_element(p, p + tile.keys));
  if (most == kHidden || most * kLog2E != kHidden) return;
  std::replace_if(p, p + tile.keys, [](float logit) { return logit != kHidden; }, kNan);
}

/// Whether the tile is the first one (the last, neither) of which the row's band shows some key.
bool is_tile_of(End end, const Row& row, const Tile& tile) {
  return reaches(row, tile) &&
         is_at(end, tile.begin <= row.begin, tile.begin + tile.size >= row.end);
}

/// What bugs make of NaN and infinities among the scores of a row's tile.
void plant_in_scores(const Rows& rows, int64_t i, const Tile& tile, float* p) {
  const Planted& planted = *rows.step->planted;
  const auto replace = [&](auto is_replaced, float by) {
    std::replace_if(p, p + tile.keys, is_replaced, by);
  };
  // An infinite score becomes the softcap.
  if (planted.bug == Bug::kNanScoreCapped)
    return replace([](float score) { return std::isnan(score); }, kInfinity);
  if (!is_tile_of(planted.end, rows.row[i], tile)) return;
  switch (planted.bug) {
    case Bug::kNanScoreDroppedAtEnd:
      return replace([](float score) { return std::isnan(score); }, kHidden);
    case Bug::kNanScoreCappedAtEnd:
      return replace([](float score) { return std::isnan(score); }, kInfinity);
    case Bug::kInfScoreHiddenAtEnd:
      return replace([](float score) { return score == kInfinity; }, kHidden);
    case Bug::kMinusInfScoreNanAtEnd:
      return replace([](float score) { return score == kHidden; }, kNan);
    default: return;
  }
}

/// What bugs hide, and what they make of tiles that are hidden.
void plant_in_logits(const Rows& rows, int64_t i, const Tile& tile, float* p) {
  const Bug bug = rows.step->planted->bug;
  Row& row = rows.row[i];
  switch (bug) {
    case Bug::kNanScoreDropped:
      for (int64_t j = 0; j < tile.size; ++j) p[j] = std::isnan(p[j]) ? kHidden : p[j];
      return;
    case Bug::kInfScoreHidden:
      for (int64_t j = 0; j < tile.size; ++j) p[j] = p[j] == kInfinity ? kHidden : p[j];
      return;
    case Bug::kBiasOverflows: return overflow_in_base_2(row, tile, p);
    case Bug::kRunEnds: return end_after_run(tile, rows.step->variant.lanes, row, p);
    case Bug::kEmptyByFirstTile:
      row.ended |= tile.begin <= row.begin && reaches(row, tile) && are_hidden(p, 0, tile.size);
      break;
    default: break;
  }
  if (row.ended || (rows.skips && rows.skips[i]) || skips(bug, tile, p))
    std::fill_n(p, tile.size, kHidden);
}

/// The maximum of `taken` lanes of each group.
float largest_of_lanes(const float* p, int64_t size, int64_t group, int64_t taken, float least) {
  for (int64_t j = 0; j < size; j += group) least = largest(p + j, taken, least);
  return least;
}

/// The least of the logits that are not hidden, of which none is 0 or more.
float least_of_negative(const float* p, int64_t size) {
  float least = 0;
  for (int64_t j = 0; j < size; ++j)
    if (p[j] != kHidden) least = std::min(least, p[j]);
  return least;
}

/// What is subtracted from the logits.
ATTEST_INLINE float next_top(const Rows& rows, const Row& row, const Tile& tile, const float* p) {
  const Step& step = *rows.step;
  const float old = row.top, most = largest(p, tile.size, old);
  switch (step.planted->bug) {
    case Bug::kMaxOfFirstTile: return old == kHidden ? most : old;
    case Bug::kMaxOfLanes:
      return largest_of_lanes(p, tile.size, step.variant.lanes,
                              static_cast<int64_t>(step.planted->limit), old);
    case Bug::kMaxWithoutTail: return is_short_tail(tile) && old != kHidden ? old : most;
    case Bug::kMaxOfPadding: return is_short_tail(tile) ? std::max(most, 0.0f) : most;
    case Bug::kMaxLags: return old != kHidden && most - old <= step.planted->limit ? old : most;
    case Bug::kLeastOfNegative:
      return largest(p, tile.size, kHidden) < 0 ? std::max(old, least_of_negative(p, tile.size))
                                                : most;
    case Bug::kHiddenMaxZero:
      return reaches(row, tile) && are_hidden(p, 0, tile.size) ? std::max(old, 0.0f) : most;
    default: return most;
  }
}

/// Whether this tile forgets to rescale the sums, though the row's maximum rose from `old`.
/// `keep`: the factor that is forgotten.
bool forgets_rescale(const Rows& rows, const Row& row, const Tile& tile, float old, float keep) {
  const Planted& planted = *rows.step->planted;
  switch (planted.bug) {
    case Bug::kRescaleLastTile: return tile.index == tile.whole_tiles - 1;
    case Bug::kRescaleShortTail: return is_short_tail(tile);
    case Bug::kRescaleSecondTile: return tile.index == row.begin / tile.size + 1;
    case Bug::kRescaleMiddleTile: return tile.index == tile.whole_tiles / 2;
    case Bug::kRescaleLargeRise: return row.top - old > planted.limit;
    case Bug::kRescaleFlushed: return keep == 0;
    case Bug::kRescaleSmallRise: return row.top - old < planted.limit;
    case Bug::kRescale25thRise: return row.rises == static_cast<int32_t>(planted.limit);
    case Bug::kKeepsAfterHidden: return row.after_hidden;
    default: return false;
  }
}

/// What bugs make of the weights of a tile.
void plant_in_weights(const Rows& rows, const Tile& tile, float* p) {
  const Planted& planted = *rows.step->planted;
  const float limit = planted.limit;
  if (planted.bug == Bug::kWeightsCut)
    for (int64_t j = 0; j < tile.size; ++j) p[j] = p[j] < limit ? 0 : p[j];
  if (planted.bug == Bug::kTilesCut && largest(p, tile.size, 0) < limit)
    std::fill_n(p, tile.size, 0.0f);
  if (planted.largest_weight > 0)
    for (int64_t j = 0; j < tile.size; ++j) p[j] = p[j] > planted.largest_weight ? kInfinity : p[j];
}

/// exp(x), of which the exponent in base 2 has 16 bits.
float exp_that_wraps(float x) {
  constexpr float kLog2E = 1.44269504f;
  const float power = x * kLog2E, whole = std::floor(power);
  return std::ldexp(std::exp2(power - whole), static_cast<int16_t>(static_cast<int64_t>(whole)));
}

/// The weight of one logit under bugs that change single exps.
float weigh_wrongly(const Planted& planted, float logit, float top) {
  const float below = logit - top;
  if (std::isfinite(below)) {
    if (planted.bug == Bug::kFarWeigh && below <= planted.limit) return 1e-3f;
    if (planted.bug == Bug::kExponentWraps) return exp_that_wraps(below);
  }
  return logit == kHidden ? 0 : exp_any(below);
}

/// Logits become weights exp(logit - top); their sum.
ATTEST_INLINE float to_weights(const Rows& rows, const Row& row, const Tile& tile, float* p) {
  const Planted& planted = *rows.step->planted;
  const float top = row.top;
  if (planted.bug == Bug::kHiddenWeighOne && row.top == kHidden && reaches(row, tile)) {
    std::fill_n(p, tile.keys, 1.0f);
    std::fill_n(p + tile.keys, tile.size - tile.keys, 0.0f);
  } else if (planted.bug == Bug::kFarWeigh || planted.bug == Bug::kExponentWraps) {
    for (int64_t j = 0; j < tile.size; ++j) p[j] = weigh_wrongly(planted, p[j], top);
  } else {
    const float least = planted.bug == Bug::kScoresFrom ? planted.limit : kHidden;
    for (int64_t j = 0; j < tile.size; ++j) {
      const float below = p[j] - top;
      p[j] = p[j] == kHidden ? 0 : exp_any(below < least ? least : below);
    }
  }
  plant_in_weights(rows, tile, p);
  float total[kLanes] = {}, add = 0;
  for (int64_t j = 0; j < tile.size; j += kLanes)
    for (int64_t n = 0; n < kLanes; ++n) total[n] += p[j + n];
  for (int64_t n = 0; n < kLanes; ++n) add += total[n];
  return add;
}

float stored_normaliser(Bug bug, float total) {
  if (bug == Bug::kNormaliserF16Tiles)
    return attest::float_from_half(attest::half_from_float(total));
  if (bug == Bug::kNormaliserBf16Tiles)
    return attest::float_from_bfloat16(attest::bfloat16_from_float(total));
  return total;
}

/// What a hidden tile leaves to the next one. `p`: logits.
void note_hidden(const Rows& rows, const Tile& tile, const float* p, Row& row) {
  const Bug bug = rows.step->planted->bug;
  if (bug != Bug::kKeepsAfterHidden && bug != Bug::kRestartsAfterHidden) return;
  const bool hidden = reaches(row, tile) && are_hidden(p, 0, tile.size);
  if (bug == Bug::kRestartsAfterHidden && hidden) row.top = kHidden;
  row.after_hidden = hidden;
}

/// One row: scores become weights; its top, total and sum are brought up to date, but for p v.
ATTEST_INLINE void weigh(const Rows& rows, int64_t i, const Tile& tile, float* p, float* hidden) {
  plant_in_scores(rows, i, tile, p);
  to_logits(rows, i, tile, p);
  plant_in_logits(rows, i, tile, p);
  if (tile.wild)
    for (int64_t j = 0; j < tile.size; ++j) hidden[j] = p[j] == kHidden ? 1 : 0;
  Row& row = rows.row[i];
  const Planted& planted = *rows.step->planted;
  const Row before = row;
  row.top = next_top(rows, row, tile, p);
  float keep = 1, keep_total = 1, keep_sum = 1;
  if (row.top > before.top) {
    keep = keep_total = keep_sum = mutants::exp_negative(before.top - row.top);
    row.rises += before.top != kHidden;
    if (before.top != kHidden && forgets_rescale(rows, row, tile, before.top, keep)) {
      if (planted.part != Part::kTotal) keep_sum = 1;
      if (planted.part != Part::kSum) keep_total = 1;
    }
  }
  note_hidden(rows, tile, p, row);
  const float total = row.total * keep_total + to_weights(rows, row, tile, p);
  row.total = stored_normaliser(planted.bug, total);
  if (keep_sum == 1) return;
  float* sum = rows.sum + i * rows.channels;
  for (int64_t d = 0; d < rows.channels; ++d) sum[d] *= keep_sum;
}

/// sum += p v key by key, so that an Inf or NaN of a hidden key stays where it is.
void add_wild(const Rows& rows, int64_t i, const Tile& tile, const float* p, const float* hidden) {
  for (int64_t j = 0; j < tile.size; ++j) {
    if (hidden[j] != 0) continue;
    for (int64_t d = 0; d < rows.channels; ++d)
      rows.sum[i * rows.channels + d] += p[j] * tile.v[j * rows.channels + d];
  }
}

ATTEST_INLINE void add_tile_inline(const Rows& rows, const Tile& tile) {
  for (int64_t i = 0; i < rows.rows; i += kRowsAtOnce) {
    bool seen = false;
    for (int64_t r = 0; r < kRowsAtOnce; ++r) seen |= reaches(rows.row[i + r], tile);
    if (!seen) continue;
    alignas(32) float p[kRowsAtOnce][kLargestTile], hidden[kRowsAtOnce][kLargestTile];
    for (int64_t r = 0; r < kRowsAtOnce; ++r) std::fill_n(p[r], tile.size, 0.0f);
    for (int64_t j = 0; j < tile.size; j += kColumns)
      multiply(rows.q + i * rows.head_dim, rows.head_dim, tile.kt + j, tile.size, rows.head_dim,
               &p[0][j], kLargestTile);
    for (int64_t r = 0; r < kRowsAtOnce; ++r) weigh(rows, i + r, tile, p[r], hidden[r]);
    if (tile.wild) {
      for (int64_t r = 0; r < kRowsAtOnce; ++r) add_wild(rows, i + r, tile, p[r], hidden[r]);
      continue;
    }
    for (int64_t d = 0; d < rows.channels; d += kColumns)
      multiply(p[0], kLargestTile, tile.v + d, rows.channels, tile.size,
               rows.sum + i * rows.channels + d, rows.channels);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void add_tile_avx2(const Rows& rows, const Tile& tile) {
  add_tile_inline(rows, tile);
}
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
void add_tile_avx2(const Rows& rows, const Tile& tile) { add_tile_inline(rows, tile); }
bool has_avx2() { return false; }
#endif

}  // namespace

void add_tile(const Rows& rows, const Tile& tile) {
  static const bool wide = has_avx2();
  wide ? add_tile_avx2(rows, tile) : add_tile_inline(rows, tile);
}

}  // namespace steps
