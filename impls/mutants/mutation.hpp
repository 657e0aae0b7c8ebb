// The planted bugs: what each does wrong, and where it is no bug at all.
#pragma once
#include <cstddef>

namespace mutants {

enum class Mutation {
  // Softmax attention.
  kNone,
  // keys and tiles
  kDroppedKey,
  kDoubledKey,
  kDroppedTile,
  kDoubledTile,
  kSwappedTiles,
  kTileOffByOne,
  kValueOffByOne,
  kKeyTail,
  kPaddingCounted,
  // queries, heads, batch, channels
  kQueryTail,
  kLastRow,
  kChannelTail,
  kValueTail,
  kSwappedHeads,
  kHeadOffByOne,
  kBatchOffByOne,
  kGqaTiled,
  kHeadDimVStride,
  // band
  kWindowLeftExclusive,
  kWindowRightExclusive,
  kCausalOffByOne,
  kCausalTopLeft,
  kCausalLocalRow,
  kDiagonalOffsetIgnored,
  kDiagonalClamped,
  // mask, bias, softcap, ALiBi
  kMaskInverted,
  kMaskHeadAsBatch,
  kMaskFinite,
  kBiasTransposed,
  kBiasInfAsZero,
  kSoftcapAfterBias,
  kSoftcapBeforeScale,
  kAlibiSign,
  kAlibiTopLeft,
  kAlibiHead0,
  // arithmetic
  kWrongScale,
  kScaleTwice,
  kScaleForgotten,
  kCoarseExp,
  kProbabilityBf16,
  kAccumulatorF16,
  kScoreF16,
  kScoreOverflow,
  kOperandBf16,
  kOutputTruncated,
  // online softmax
  kSumNotRescaled,
  kTotalNotRescaled,
  kMaxFromMinus1e4,
  kNoMax,
  kLseBase2,
  kLseWithoutMax,
  kEmptyRowNan,
  kHiddenLeaks,
  kZeros,
  // sequences, pages, orders, grids
  kCuSeqlensOffByOne,
  kEmptySequenceRow,
  kSeqLensIgnored,
  kPageTableIgnored,
  kPageOffset,
  kOrderOfOutput,
  kPatchNotFilled,
  kShiftSign,
  kShiftBiasMissing,
  kRelBiasMirrored,
  // size and threads
  kIndex32,
  kGridOf65535,
  kHead16Bit,
  kQueryTile16Bit,
  kRace,

  // Linear attention.
  kLinearNone,
  kLinearEpsForgotten,
  kLinearEpsPerChannel,
  kLinearPhiWithoutOne,
  kLinearPhiRelu,
  kLinearMaskOfValuesOnly,
  kLinearMaskInverted,
  kLinearQueryMaskIgnored,
  kLinearDroppedKey,
  kLinearDoubledKey,
  kLinearDroppedChunk,
  kLinearSumF16,
  kLinearGqaTiled,
  kLinearHiddenLeaks,
  kLinearChannelTail,
  kCount
};

struct Description {
  Mutation mutation;
  const char *name, *summary;  // the summary ends with where the bug shows, if not everywhere
};

constexpr Description kMutations[] = {
    {Mutation::kNone, "mutant_none", "tiled online softmax in float32, healthy"},
    {Mutation::kDroppedKey, "mutant_dropped_key", "leaves out the key in the middle"},
    {Mutation::kDoubledKey, "mutant_doubled_key", "counts the key in the middle twice"},
    {Mutation::kDroppedTile, "mutant_dropped_tile", "leaves out the last full tile of 64 keys; from 64 keys on"},
    {Mutation::kDoubledTile, "mutant_doubled_tile", "adds the first tile of 64 keys twice; from 65 keys on"},
    {Mutation::kSwappedTiles, "mutant_swapped_tiles", "reads V of tile 1 for tile 0 and the reverse; from 128 keys on"},
    {Mutation::kTileOffByOne, "mutant_tile_off_by_one", "tiles begin one key early but for the first; from 65 keys on"},
    {Mutation::kValueOffByOne, "mutant_value_off_by_one", "V of the next key; from 2 keys on"},
    {Mutation::kKeyTail, "mutant_key_tail", "keys beyond a multiple of 16 are ignored"},
    {Mutation::kPaddingCounted, "mutant_padding_counted", "the last tile's padding joins the normaliser with score 0"},
    {Mutation::kQueryTail, "mutant_query_tail", "the last 16 rows, or fewer, are not written"},
    {Mutation::kLastRow, "mutant_last_row", "the last row is not written"},
    {Mutation::kChannelTail, "mutant_channel_tail", "channels of Q and K beyond a multiple of 16 are ignored"},
    {Mutation::kValueTail, "mutant_value_tail", "channels of O beyond a multiple of 16 are 0"},
    {Mutation::kSwappedHeads, "mutant_swapped_heads", "outputs of heads 0 and 1 change places"},
    {Mutation::kHeadOffByOne, "mutant_head_off_by_one", "K and V of the next head"},
    {Mutation::kBatchOffByOne, "mutant_batch_off_by_one", "V of the sequence before; where dense, with a batch"},
    {Mutation::kGqaTiled, "mutant_gqa_tiled", "query head h reads h % num_kv_heads"},
    {Mutation::kHeadDimVStride, "mutant_head_dim_v_stride", "rows of V counted by head_dim"},
    {Mutation::kWindowLeftExclusive, "mutant_window_left_exclusive", "the window's left bound is exclusive"},
    {Mutation::kWindowRightExclusive, "mutant_window_right_exclusive", "the window's right bound is exclusive"},
    {Mutation::kCausalOffByOne, "mutant_causal_off_by_one", "a causal row does not see its diagonal"},
    {Mutation::kCausalTopLeft, "mutant_causal_top_left", "the band starts top left where it should end bottom right"},
    {Mutation::kCausalLocalRow, "mutant_causal_local_row", "the band counts rows within their tile of 64; from 65 rows on"},
    {Mutation::kDiagonalOffsetIgnored, "mutant_diagonal_offset_ignored", "diagonal_offset is taken for 0"},
    {Mutation::kDiagonalClamped, "mutant_diagonal_clamped", "a diagonal that starts above the first key is moved down to it"},
    {Mutation::kMaskInverted, "mutant_mask_inverted", "the mask hides where it says attend"},
    {Mutation::kMaskHeadAsBatch, "mutant_mask_head_as_batch", "a mask of each sequence is taken as one of each head"},
    {Mutation::kMaskFinite, "mutant_mask_finite", "the mask adds -1e4 in place of hiding; where a whole row is hidden"},
    {Mutation::kBiasTransposed, "mutant_bias_transposed", "bias of (key, query); where square"},
    {Mutation::kBiasInfAsZero, "mutant_bias_inf_as_zero", "a bias of -inf adds nothing"},
    {Mutation::kSoftcapAfterBias, "mutant_softcap_after_bias", "the bias is capped too"},
    {Mutation::kSoftcapBeforeScale, "mutant_softcap_before_scale", "the cap comes before softmax_scale"},
    {Mutation::kAlibiSign, "mutant_alibi_sign", "distance is added to the logit"},
    {Mutation::kAlibiTopLeft, "mutant_alibi_top_left", "distance is counted from place i, whatever the diagonal"},
    {Mutation::kAlibiHead0, "mutant_alibi_head_0", "the slope of head 0 for all heads"},
    {Mutation::kWrongScale, "mutant_wrong_scale", "softmax_scale times 1.02"},
    {Mutation::kScaleTwice, "mutant_scale_twice", "softmax_scale squared"},
    {Mutation::kScaleForgotten, "mutant_scale_forgotten", "softmax_scale taken for 1"},
    {Mutation::kCoarseExp, "mutant_coarse_exp", "exp to 0.2 %"},
    {Mutation::kProbabilityBf16, "mutant_probability_bf16", "probabilities rounded to bf16, declared f32"},
    {Mutation::kAccumulatorF16, "mutant_accumulator_f16", "sums kept in f16 between tiles, declared f32; from 65 keys on"},
    {Mutation::kScoreF16, "mutant_score_f16", "scores rounded to f16, declared f32"},
    {Mutation::kScoreOverflow, "mutant_score_overflow", "q.k beyond 65504 is infinite, as in f16; where there is such a one"},
    {Mutation::kOperandBf16, "mutant_operand_bf16", "Q rounded to bf16, declared f32; where Q has more bits"},
    {Mutation::kOutputTruncated, "mutant_output_truncated", "the output is cut, not rounded; where stored in 16 bits"},
    {Mutation::kSumNotRescaled, "mutant_sum_not_rescaled", "the sum is not rescaled where a row's maximum rises first"},
    {Mutation::kTotalNotRescaled, "mutant_total_not_rescaled", "the normaliser is never rescaled; where a maximum rises"},
    {Mutation::kMaxFromMinus1e4, "mutant_max_from_minus_1e4", "the running maximum starts at -1e4; where logits lie below"},
    {Mutation::kNoMax, "mutant_no_max", "exp without subtracting the maximum; where that over- or underflows"},
    {Mutation::kLseBase2, "mutant_lse_base_2", "log-sum-exp in base 2; where it is asked for"},
    {Mutation::kLseWithoutMax, "mutant_lse_without_max", "log-sum-exp without the maximum; where it is asked for"},
    {Mutation::kEmptyRowNan, "mutant_empty_row_nan", "0 / 0 for a row that sees no key"},
    {Mutation::kHiddenLeaks, "mutant_hidden_leaks", "0 times Inf or NaN of V's hidden rows is added"},
    {Mutation::kZeros, "mutant_zeros", "the output is 0"},
    {Mutation::kCuSeqlensOffByOne, "mutant_cu_seqlens_off_by_one", "keys of a packed sequence begin one row early"},
    {Mutation::kEmptySequenceRow, "mutant_empty_sequence_row", "an empty packed sequence writes one row of zeros"},
    {Mutation::kSeqLensIgnored, "mutant_seq_lens_ignored", "seq_lens_kv is taken for seq_len_kv"},
    {Mutation::kPageTableIgnored, "mutant_page_table_ignored", "pages are taken in the order of the pool"},
    {Mutation::kPageOffset, "mutant_page_offset", "V of the next row of the page"},
    {Mutation::kOrderOfOutput, "mutant_order_of_output", "the order is applied to Q, K and V but not to O"},
    {Mutation::kPatchNotFilled, "mutant_patch_not_filled", "a short last patch is not filled up"},
    {Mutation::kShiftSign, "mutant_shift_sign", "the grid is rolled the wrong way"},
    {Mutation::kShiftBiasMissing, "mutant_shift_bias_missing", "nothing is added between regions that rolling joined"},
    {Mutation::kRelBiasMirrored, "mutant_rel_bias_mirrored", "rel_bias of (key, query)"},
    {Mutation::kIndex32, "mutant_index_32", "an element's offset is an int32; beyond 2^31 elements"},
    {Mutation::kGridOf65535, "mutant_grid_of_65535", "(sequence, head) pairs beyond 65,535 are not run"},
    {Mutation::kHead16Bit, "mutant_head_16_bit", "(sequence, head) pairs are counted in 16 bits where Q, K, V are read"},
    {Mutation::kQueryTile16Bit, "mutant_query_tile_16_bit", "tiles of 2 queries are counted in 16 bits where Q is read"},
    {Mutation::kRace, "mutant_race", "threads add tiles to one sum, unsynchronised; with 2 threads, from 65 keys on"},

    {Mutation::kLinearNone, "mutant_linear_none", "linear attention in float32, healthy"},
    {Mutation::kLinearEpsForgotten, "mutant_linear_eps_forgotten", "eps is not added; where the normaliser is small"},
    {Mutation::kLinearEpsPerChannel, "mutant_linear_eps_per_channel", "eps is added to each channel of sum phi(k)"},
    {Mutation::kLinearPhiWithoutOne, "mutant_linear_phi_without_one", "phi = elu"},
    {Mutation::kLinearPhiRelu, "mutant_linear_phi_relu", "phi = relu + 1"},
    {Mutation::kLinearMaskOfValuesOnly, "mutant_linear_mask_of_values_only", "hidden keys stay in the normaliser"},
    {Mutation::kLinearMaskInverted, "mutant_linear_mask_inverted", "the mask hides where it says attend"},
    {Mutation::kLinearQueryMaskIgnored, "mutant_linear_query_mask_ignored", "hidden queries are answered"},
    {Mutation::kLinearDroppedKey, "mutant_linear_dropped_key", "leaves out the last key"},
    {Mutation::kLinearDoubledKey, "mutant_linear_doubled_key", "counts the first key twice"},
    {Mutation::kLinearDroppedChunk, "mutant_linear_dropped_chunk", "leaves out the last full chunk of 64 keys; from 64 on"},
    {Mutation::kLinearSumF16, "mutant_linear_sum_f16", "sums rounded to f16 after each chunk, declared f32"},
    {Mutation::kLinearGqaTiled, "mutant_linear_gqa_tiled", "query head h reads h % num_kv_heads"},
    {Mutation::kLinearHiddenLeaks, "mutant_linear_hidden_leaks", "0 times Inf or NaN of hidden rows is added"},
    {Mutation::kLinearChannelTail, "mutant_linear_channel_tail", "channels of Q and K beyond a multiple of 16 are ignored"},
};

constexpr size_t kTables = sizeof kMutations / sizeof *kMutations;
static_assert(kTables == static_cast<size_t>(Mutation::kCount));
constexpr bool in_order() {
  for (size_t i = 0; i < kTables; ++i)
    if (static_cast<size_t>(kMutations[i].mutation) != i) return false;
  return true;
}
static_assert(in_order());

constexpr bool is_linear(Mutation mutation) { return mutation >= Mutation::kLinearNone; }

}  // namespace mutants
