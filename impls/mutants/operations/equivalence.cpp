// Where a mutation changes nothing, as far as the problem alone says so: its mutant refuses there.
// With ATTEST_MUTANTS_TAKE_ALL in the environment none refuses, so that a test can see that this is
// so.
#include <cstdlib>

#include "mutants/operations/plan.hpp"
#include "mutants/operations/tiles.hpp"

namespace mutants {
namespace {

/// What a problem says of itself, in words.
struct Facts {
  explicit Facts(const attest_problem& of)
      : problem(of),
        p(attest::params<attest_softmax_params>(of)),
        t(of.tensor),
        dtype(t[ATTEST_Q].dtype),
        band(p.window_left >= 0 || p.window_right >= 0),
        lengths(with(ATTEST_WITH_VARLEN) || with(ATTEST_WITH_SEQ_LENS)),
        bottom_right(p.diagonal == ATTEST_BOTTOM_RIGHT && p.seq_len_q != p.seq_len_kv),
        empty_rows((with(ATTEST_WITH_SEQ_LENS) && p.batch > 2) || negative_diagonal() ||
                   of_pairs(ATTEST_MASK) || of_pairs(ATTEST_BIAS)),
        several_tiles(p.seq_len_kv > kTile && (p.patch_size == 0 || p.patch_size > kTile)) {}

  bool with(uint64_t feature) const { return (problem.features & feature) != 0; }
  bool has(int role) const { return t[role].dtype != ATTEST_NONE; }
  bool of_pairs(int role) const { return has(role) && t[role].dim[2] > 1; }
  /// Some row's band lies before the first key.
  bool negative_diagonal() const {
    return band && (p.diagonal_offset < 0 || (p.diagonal == ATTEST_BOTTOM_RIGHT &&
                                              (p.seq_len_q > p.seq_len_kv || own_lengths())));
  }
  /// Queries and keys have lengths of their own in each sequence.
  bool own_lengths() const {
    return (with(ATTEST_WITH_SEQ_LENS) || (with(ATTEST_WITH_VARLEN) && p.batch > 1)) &&
           !has(ATTEST_ORDER) && p.patch_size == 0;
  }
  bool beyond_int32() const {
    for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
      int64_t last = 0;
      for (int axis = 0; axis < 4; ++axis) last += (t[role].dim[axis] - 1) * t[role].stride[axis];
      if (last > INT32_MAX) return true;
    }
    return false;
  }

  /// Whether inputs with logits of 30,000 exist.
  bool huge_logits() const { return p.softcap == 0; }
  /// Whether inputs exist in which a row has biases of -40,960 alone.
  bool far_biases() const { return of_pairs(ATTEST_BIAS); }

  const attest_problem& problem;
  const attest_softmax_params& p;
  const attest_tensor* t;
  int32_t dtype;
  bool band, lengths, bottom_right, empty_rows, several_tiles;
};

bool has_tail(int64_t n) { return n > 16 && n % 16 != 0; }

bool shows_in_softmax(Mutation mutation, const Facts& f) {
  const attest_softmax_params& p = f.p;
  const int64_t keys = p.seq_len_kv;
  switch (mutation) {
    case Mutation::kNoMax: return f.huge_logits() || f.has(ATTEST_BIAS) || f.has(ATTEST_REL_BIAS);
    // Where all logits are below -1e4, a sink has all of the weight, whatever the maximum is; but
    // lse is that of a row without keys.
    case Mutation::kMaxFromMinus1e4:
      return (f.huge_logits() || f.far_biases()) && (!f.has(ATTEST_SINKS) || f.has(ATTEST_LSE));
    case Mutation::kDoubledKey:
    case Mutation::kValueOffByOne:
    case Mutation::kWrongScale:
    case Mutation::kCoarseExp:
    case Mutation::kExpOf15Bits:
    case Mutation::kProbabilityBf16:
    case Mutation::kScoreF16: return keys > 1;
    case Mutation::kRareRow: return p.seq_len_q > 301 && keys > 1;
    case Mutation::kDroppedTile: return keys >= kTile;
    case Mutation::kSwappedTiles: return keys >= 2 * kTile;
    case Mutation::kTileOffByOne: return keys > kTile;
    case Mutation::kDoubledTile:
    case Mutation::kAccumulatorF16:
    case Mutation::kSumNotRescaled:
    case Mutation::kTotalNotRescaled: return f.several_tiles;
    case Mutation::kRace: return f.several_tiles && f.problem.threads > 1;
    case Mutation::kKeyTail: return has_tail(keys);
    case Mutation::kPaddingCounted: return keys % kTile != 0;
    case Mutation::kChannelTail: return has_tail(p.head_dim) && keys > 1;
    case Mutation::kValueTail: return has_tail(p.head_dim_v);
    case Mutation::kSwappedHeads: return p.num_heads > 1;
    case Mutation::kHeadOffByOne: return p.num_kv_heads > 1;
    case Mutation::kBatchOffByOne:
      return p.batch > 1 && !f.has(ATTEST_CU_SEQLENS_KV) && !f.has(ATTEST_PAGE_TABLE);
    case Mutation::kGqaTiled: return p.num_kv_heads > 1 && p.num_kv_heads < p.num_heads;
    case Mutation::kHeadDimVStride:
      return p.head_dim != p.head_dim_v && f.t[ATTEST_V].stride[2] == p.head_dim_v && keys > 1;
    case Mutation::kWindowLeftExclusive: return p.window_left > 0;
    case Mutation::kWindowRightExclusive: return p.window_right > 0;
    case Mutation::kCausalOffByOne: return p.window_right == 0;
    case Mutation::kCausalTopLeft: return f.band && f.bottom_right;
    case Mutation::kCausalLocalRow: return f.band && p.seq_len_q > kTile;
    case Mutation::kDiagonalOffsetIgnored: return f.band && p.diagonal_offset != 0;
    case Mutation::kDiagonalClamped: return f.negative_diagonal();
    case Mutation::kDiagonalOfLongest:
      return f.band && p.diagonal == ATTEST_BOTTOM_RIGHT && f.own_lengths();
    case Mutation::kMaskInverted: return f.has(ATTEST_MASK);
    case Mutation::kMaskHeadAsBatch:
      return f.has(ATTEST_MASK) && f.t[ATTEST_MASK].dim[0] * f.t[ATTEST_MASK].dim[1] > 1;
    case Mutation::kMaskFinite: return f.has(ATTEST_MASK) && f.t[ATTEST_MASK].dim[2] > 1;
    case Mutation::kBiasTransposed:
      return f.has(ATTEST_BIAS) && f.t[ATTEST_BIAS].dim[2] == f.t[ATTEST_BIAS].dim[3] && keys > 1;
    case Mutation::kBiasInfAsZero: return f.has(ATTEST_BIAS);
    case Mutation::kSoftcapAfterBias:
      return p.softcap > 0 && (f.has(ATTEST_BIAS) || f.has(ATTEST_REL_BIAS));
    case Mutation::kSoftcapBeforeScale: return p.softcap > 0 && p.softmax_scale != 1;
    case Mutation::kAlibiSign: return f.has(ATTEST_ALIBI_SLOPES);
    case Mutation::kAlibiTopLeft:
      return f.has(ATTEST_ALIBI_SLOPES) && (f.bottom_right || p.diagonal_offset != 0);
    case Mutation::kAlibiHead0: return f.has(ATTEST_ALIBI_SLOPES) && p.num_heads > 1;
    case Mutation::kSinkDropped: return f.has(ATTEST_SINKS);
    // Beside such a sink the output is next to 0 either way.
    case Mutation::kMaxWithoutSink: return f.has(ATTEST_SINKS) && f.has(ATTEST_LSE);
    case Mutation::kMaxOfSink: return f.has(ATTEST_SINKS);
    case Mutation::kSinkFromZero: return f.has(ATTEST_SINKS) && p.num_heads > 1 && keys <= 2048;
    case Mutation::kSinkOfNextHead: return f.has(ATTEST_SINKS) && p.num_heads > 1;
    case Mutation::kScaleTwice:
    case Mutation::kScaleForgotten: return p.softmax_scale != 1 && keys > 1;
    case Mutation::kOperandBf16: return f.dtype != ATTEST_BF16 && keys > 1;
    case Mutation::kOutputTruncated: return f.dtype != ATTEST_F32 && keys > 1;
    case Mutation::kLseBase2:
    case Mutation::kLseWithoutMax: return f.has(ATTEST_LSE);
    case Mutation::kEmptyRowNan: return f.empty_rows;
    case Mutation::kHiddenLeaks:
      return f.has(ATTEST_MASK) || f.has(ATTEST_BIAS) || f.lengths || f.band || p.patch_size > 0 ||
             p.grid_height > 0;
    case Mutation::kCuSeqlensOffByOne: return f.has(ATTEST_CU_SEQLENS_KV) && p.batch > 1;
    case Mutation::kKeysOfQueries:
      return f.has(ATTEST_CU_SEQLENS_Q) && f.has(ATTEST_CU_SEQLENS_KV) && f.own_lengths();
    case Mutation::kEmptySequenceRow: return f.has(ATTEST_CU_SEQLENS_Q) && p.batch > 1;
    case Mutation::kSeqLensIgnored: return f.has(ATTEST_SEQ_LENS_KV);
    case Mutation::kPageTableIgnored:
    case Mutation::kPageOffset: return f.has(ATTEST_PAGE_TABLE);
    case Mutation::kOrderOfOutput: return f.has(ATTEST_ORDER);
    case Mutation::kPatchNotFilled:
      return p.patch_size > 0 && (p.seq_len_q % p.patch_size != 0 || f.lengths);
    case Mutation::kShiftSign: return p.shift_y != 0 || p.shift_x != 0;
    case Mutation::kShiftBiasMissing:
      return (p.shift_y != 0 || p.shift_x != 0) && p.shift_bias != 0;
    case Mutation::kRelBiasMirrored: return f.has(ATTEST_REL_BIAS);
    case Mutation::kIndex32: return f.beyond_int32();
    case Mutation::kGridOf65535:
    case Mutation::kHead16Bit: return p.batch * p.num_heads > 65535;
    case Mutation::kQueryTile16Bit: return p.seq_len_q > 131072;
    case Mutation::kLastSequence: return f.has(ATTEST_CU_SEQLENS_Q) && p.batch > 1;
    case Mutation::kQueryRow16Bit:
      return f.has(ATTEST_CU_SEQLENS_Q) && f.t[ATTEST_Q].dim[2] > 65536;
    case Mutation::kKeyRow16Bit: return f.has(ATTEST_CU_SEQLENS_KV) && f.t[ATTEST_K].dim[2] > 65536;
    case Mutation::kPage8Bit: return f.has(ATTEST_PAGE_TABLE) && f.t[ATTEST_K].dim[0] > 256;
    case Mutation::kPage16Bit: return f.has(ATTEST_PAGE_TABLE) && f.t[ATTEST_K].dim[0] > 65536;
    default: return true;
  }
}

bool shows_in_linear(Mutation mutation, const attest_problem& problem) {
  const auto& p = attest::params<attest_linear_params>(problem);
  const bool mask = problem.tensor[ATTEST_MASK].dtype != ATTEST_NONE,
             query_mask = problem.tensor[ATTEST_QUERY_MASK].dtype != ATTEST_NONE;
  switch (mutation) {
    case Mutation::kLinearMaskOfValuesOnly:
    case Mutation::kLinearHiddenLeaks:
    case Mutation::kLinearMaskInverted: return mask;
    case Mutation::kLinearQueryMaskIgnored: return query_mask;
    case Mutation::kLinearDroppedChunk: return p.seq_len_kv >= 64;
    // With fewer keys no fill hides a tile before a key that counts.
    case Mutation::kLinearStopsAtHidden: return mask && p.seq_len_kv >= 34;
    case Mutation::kLinearEpsFixed: return p.eps != kUsualEps;
    case Mutation::kLinearGqaTiled: return p.num_kv_heads > 1 && p.num_kv_heads < p.num_heads;
    case Mutation::kLinearChannelTail: return has_tail(p.head_dim);
    default: return true;
  }
}

/// Whether a pixel that is NaN in the fill "wild" lies in the rows of V just below or above another
/// level: the middle of a level, or the last pixel of the last one.
bool has_nan_beyond_a_level(const attest_deformable_params& p) {
  for (int level = 0; level < p.num_levels; ++level) {
    const int64_t height = p.level_height[level], width = p.level_width[level],
                  pixels = height * width;
    const bool is_last = level + 1 == p.num_levels;
    const int64_t at = is_last && level > 0 ? pixels - 1 : height / 2 * width + width / 2;
    if (level > 0 && at < p.level_width[level - 1]) return true;
    if (!is_last && pixels - at <= p.level_width[level + 1]) return true;
  }
  return false;
}

bool shows_in_deformable(Mutation mutation, const attest_problem& problem) {
  const auto& p = attest::params<attest_deformable_params>(problem);
  bool is_square = true, has_one_pixel = false;
  for (int level = 0; level < p.num_levels; ++level) {
    is_square &= p.level_height[level] == p.level_width[level];
    has_one_pixel |= p.level_height[level] == 1 || p.level_width[level] == 1;
  }
  switch (mutation) {
    case Mutation::kDeformableNoHalfPixel: return p.align_corners == 0;
    case Mutation::kDeformableLevelOffset: return p.num_levels > 1;
    case Mutation::kDeformableNextWeight: return p.num_points > 1;
    case Mutation::kDeformableNanInnerLevel: return p.num_levels > 2;
    case Mutation::kDeformableBeyondLevel: return has_nan_beyond_a_level(p);
    case Mutation::kDeformableWeightsTurned: return p.num_levels > 1 && p.num_points > 1;
    case Mutation::kDeformableTurnedLevel: return !is_square;
    case Mutation::kDeformableOnePixel: return p.align_corners == 1 && has_one_pixel;
    case Mutation::kDeformableChannelTail: return has_tail(p.head_dim_v);
    case Mutation::kDeformableLocationF16:
      return problem.tensor[ATTEST_LOCATIONS].dtype == ATTEST_F32;
    // The locations of the other dtype do not reach so far.
    case Mutation::kDeformableWrap32:
      return problem.tensor[ATTEST_LOCATIONS].dtype != ATTEST_F16 && p.num_points > 1;
    default: return true;
  }
}

}  // namespace

const char* equivalent(Mutation mutation, const attest_problem& problem) {
  static const bool take_all = std::getenv("ATTEST_MUTANTS_TAKE_ALL") != nullptr;
  if (take_all || (is_deformable(mutation) ? shows_in_deformable(mutation, problem)
                   : is_linear(mutation)   ? shows_in_linear(mutation, problem)
                                           : shows_in_softmax(mutation, Facts(problem))))
    return nullptr;
  return "nothing is wrong here";
}

}  // namespace mutants
