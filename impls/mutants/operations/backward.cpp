// backward_bugs: gradients of softmax attention in one pass over the pairs, healthy or with one
// planted bug each, for attest to find. dK and dV are summed in the workspace, query after query. A
// thread has all queries of a key head. With DBIAS, to which several key heads may add, one thread
// has all key heads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attest.hpp"
#include "dense_dbias.hpp"
#include "mutants/operations/tiles.hpp"
#include "mutants/table_at.hpp"
#include "top_k.hpp"

namespace {

enum class Bug {
  kNone,
  kDeltaForgotten,
  kDeltaOfNextRow,
  kScaleOfDqForgotten,
  kScaleOfDkTwice,
  kLseOfNextRow,
  kDvUnnormalised,
  kDiagonalLostInDk,
  kBandIgnoredInDv,
  kLastHeadOnly,
  kGqaTiled,
  kKeyTailOfDq,
  kQueryTail,
  kLastKeyOfItsTile,
  kLastQueryOfItsTile,
  kOverwritten,
  kMaskIgnoredInDv,
  kHiddenLeaks,
  kChannelTail,
  kProductF16,
  kDeltaF16,
  kSumF16,
  kBiasOfNextKey,
  kDeltaOff,
  kValuesCut,
  kGradientCut,
  kThirdSequence,
  kFourthHead,
  kCapSlopeForgotten,
  kCapSlopeUnscaled,
  kSlopeOfNextHead,
  kSlopeTiled,
  kDistanceSigned,
  kSinkDividedOut,
  kBlocksOfNextKey,
  kGlobalQueriesLost,
  kLengthIgnored,
  kBorrowedKeysLost,
  kLastBlockOfNextSequence,
  kLastSequenceLost,
  kLseAtPaddedRow,
  kOrderForgottenInDk,
  kOrderForgottenInDelta,
  kSeamSeen,
  kWindowUnshiftedInDv,
  kRelBiasTransposed,
  kExpOfParts,
  kDsCut,
  kSmallRowsLost,
  kNanWeightLost,
  kNanDsZero,
  kLseCut,
  kLowRowsLost,
  kLogitsCut,
  kBiasGradientScaled,
  kBiasGradientSloped,
  kBiasGradientOfDoV,
  kBiasGradientOfLastSequence,
  kBiasGradientOfLastHead,
  kBiasGradientOfLastGroup,
  kBiasGradientOfHidden,
  kBiasGradientOfLastQuery,
  kBiasGradientKeyTail,
  kBiasGradientOfPositions,
  kBiasGradientF16,
  kBiasGradientUnwritten,
  kRelBiasGradientOfLastSequence,
  kRelBiasGradientOfLastWindow,
  kRelBiasGradientTransposed,
  kRelBiasGradientOfKeyHead,
  kSinkGradientPositive,
  kSinkGradientOfWeights,
  kSinkGradientOfLastSequence,
  kSinkGradientOfKeyHead,
  kSinkGradientSloped,
  kTopKOneMore,
  kTopKOneLess,
  kTopKIgnoredInDk,
  kTopKIgnoredInDv,
  kTopKDeltaOfAll,
  kTopKLastOfEqual,
  kTopKBeforeTerms,
  kTopKOthersLeak,
  kDqByStored,
  kDkByStored,
  kDvByStored,
  kKFactorForgottenInDq,
  kQFactorForgottenInDk,
  kVFactorForgottenInDs,
  kFactorOfNextBlock,
  kFactorOfFirstBlock,
  kFactorsModulo,
  kBlocksOfRows,
  kOtherFormat,
  kSubnormalsLost,
  kStoredScoresCut,
  kTopKByStored,
  kTileLosesQueries,
  kCount
};

struct Description {
  const char *name, *summary;
};
constexpr Description kDescriptions[] = {
    {"backward_none", "gradients in one pass over the pairs in float32, healthy"},
    {"backward_delta_forgotten", "ds = p do.v, without - delta"},
    {"backward_delta_of_next_row", "delta of the next query"},
    {"backward_scale_of_dq_forgotten", "dq is not multiplied by softmax_scale"},
    {"backward_scale_of_dk_twice", "dk is multiplied by softmax_scale twice"},
    {"backward_lse_of_next_row", "lse of the next query"},
    {"backward_dv_unnormalised", "dv sums exp(logit) do; p is not divided by its sum"},
    {"backward_diagonal_lost_in_dk", "dk leaves out the last key that each query sees"},
    {"backward_band_ignored_in_dv", "dv sums over all queries, also those that do not see the key"},
    {"backward_last_head_only", "dk and dv are those of the group's last query head"},
    {"backward_gqa_tiled", "query head h reads key head h % num_kv_heads"},
    {"backward_key_tail_of_dq", "dq leaves out keys beyond a multiple of 16"},
    {"backward_query_tail", "dk and dv leave out queries beyond a multiple of 16"},
    {"backward_last_key_of_its_tile", "dq leaves out a last tile of 64 keys that has one key"},
    {"backward_last_query_of_its_tile",
     "dk and dv leave out a last tile of 64 queries that has one query"},
    {"backward_overwritten", "dk and dv of each 16 queries replace what was summed before"},
    {"backward_mask_ignored_in_dv", "dv counts pairs that the mask hides"},
    {"backward_hidden_leaks", "adds 0 times what is hidden"},
    {"backward_channel_tail", "channels of dv beyond a multiple of 16 are 0"},
    {"backward_product_f16", "rounds p and ds to f16, undeclared"},
    {"backward_delta_f16", "rounds delta to f16, undeclared"},
    {"backward_sum_f16", "sums dv in f16, undeclared"},
    {"backward_bias_of_next_key", "each pair has the bias of the next key"},
    {"backward_delta_off", "delta is a millionth too large"},
    {"backward_values_cut", "values beyond 8 are cut to it"},
    {"backward_gradient_cut", "elements of dO beyond 10 are cut to it"},
    {"backward_third_sequence", "the last key is lost from the third sequence of a batch on"},
    {"backward_fourth_head", "the last key is lost from the fourth key head on"},
    {"backward_cap_slope_forgotten", "ds has no factor 1 - tanh^2 of the softcap"},
    {"backward_cap_slope_unscaled", "1 - tanh^2 is that of q.k, without softmax_scale"},
    {"backward_slope_of_next_head", "ALiBi has the slope of the next head"},
    {"backward_slope_tiled", "ALiBi has the slope of head h % num_kv_heads"},
    {"backward_distance_signed", "ALiBi's distance has a sign"},
    {"backward_sink_divided_out", "p is that of a softmax without the sink"},
    {"backward_blocks_of_next_key", "a key is hidden, too, where the next one's block is"},
    {"backward_global_queries_lost",
     "dk and dv leave out global queries that the band does not have"},
    {"backward_length_ignored", "keys beyond the sequence's length are seen"},
    {"backward_borrowed_keys_lost",
     "dk and dv of keys leave out the short last patch that sees them from the next one"},
    {"backward_last_block_of_next_sequence",
     "a sequence's last block of keys is filled up with the next one's, whose dk and dv it sums "
     "to"},
    {"backward_last_sequence_lost", "dk and dv of the last packed sequence are 0"},
    {"backward_lse_at_padded_row",
     "the lse of packed queries is read where padding to multiples of 16 would put it"},
    {"backward_order_forgotten_in_dk", "dk is written where it would lie without an order"},
    {"backward_order_forgotten_in_delta",
     "delta is that of the row where the query would lie without an order"},
    {"backward_seam_seen", "shift_bias is left out where the windows' edges were rolled"},
    {"backward_window_unshifted_in_dv", "dv is written to the tokens of windows without a shift"},
    {"backward_rel_bias_transposed", "rel_bias is that of the key minus the query"},
    {"backward_exp_of_parts", "p is exp(logit) times exp(-lse)"},
    {"backward_ds_cut", "ds beyond 12 is cut to it"},
    {"backward_small_rows_lost", "rows of dO that are below 1e-4 count as 0"},
    {"backward_nan_weight_lost", "pairs whose p is not above 0 are left out, also those with NaN"},
    {"backward_nan_ds_zero", "a NaN in ds becomes 0"},
    {"backward_lse_cut", "an lse below -10,000 is cut to it"},
    {"backward_low_rows_lost", "a row whose lse is below -20,000 counts as one that sees no key"},
    {"backward_logits_cut", "logits below -20,000 are cut to it"},
    {"backward_dbias_scaled", "dbias is multiplied by softmax_scale"},
    {"backward_dbias_sloped", "dbias has the softcap's factor 1 - tanh^2"},
    {"backward_dbias_of_do_v", "dbias is p do.v, without - delta"},
    {"backward_dbias_of_last_sequence", "dbias is that of the last sequence, not a sum"},
    {"backward_dbias_of_last_head", "dbias is that of the last head, not a sum"},
    {"backward_dbias_of_last_group", "dbias is that of the last key head's query heads, not a sum"},
    {"backward_dbias_of_hidden", "dbias has the weights of pairs that the mask hides, too"},
    {"backward_dbias_of_last_query", "dbias is that of the last query, not a sum"},
    {"backward_dbias_key_tail", "dbias of keys beyond a multiple of 16 is 0"},
    {"backward_dbias_of_positions", "dbias on a grid counts positions, not tokens"},
    {"backward_dbias_f16", "sums dbias in f16, undeclared"},
    {"backward_dbias_unwritten", "dbias is not written where no pair is seen"},
    {"backward_drel_bias_of_last_sequence", "drel_bias is that of the last sequence, not a sum"},
    {"backward_drel_bias_of_last_window", "drel_bias is that of the last window, not a sum"},
    {"backward_drel_bias_transposed", "drel_bias has the offset of the key minus the query"},
    {"backward_drel_bias_of_key_head", "drel_bias is added to that of the key head's number"},
    {"backward_dsinks_positive", "dsinks has the wrong sign"},
    {"backward_dsinks_of_weights", "dsinks is the sum of the sink's weights, without delta"},
    {"backward_dsinks_of_last_sequence", "dsinks is that of the last sequence, not a sum"},
    {"backward_dsinks_of_key_head", "dsinks is added to that of the key head's number"},
    {"backward_dsinks_sloped", "dsinks has a factor 1 - tanh^2 of the sink and the softcap"},
    {"backward_top_k_one_more", "one key more than top_k counts"},
    {"backward_top_k_one_less", "one key less than top_k counts"},
    {"backward_top_k_ignored_in_dk", "dk sums over all queries that see the key"},
    {"backward_top_k_ignored_in_dv", "dv sums over all queries that see the key"},
    {"backward_top_k_delta_of_all", "delta is that of a softmax over all keys that the query sees"},
    {"backward_top_k_last_of_equal", "of equal logits at the edge the last ones count"},
    {"backward_top_k_before_terms", "the scores before bias and mask say which keys count"},
    {"backward_top_k_others_leak", "adds 0 times the gradient of keys that do not count"},
    {"backward_f8_dq_by_stored", "dq is the gradient by what Q stores: times Q's factor"},
    {"backward_f8_dk_by_stored", "dk is the gradient by what K stores: times K's factor"},
    {"backward_f8_dv_by_stored", "dv is the gradient by what V stores: times V's factor"},
    {"backward_f8_k_factor_forgotten_in_dq", "dq sums ds times what K stores"},
    {"backward_f8_q_factor_forgotten_in_dk", "dk sums ds times what Q stores"},
    {"backward_f8_v_factor_forgotten_in_ds", "do.v has what V stores"},
    {"backward_f8_next_block", "the last key of a block has the factors of the next one"},
    {"backward_f8_first_block", "all queries have the factor of the first block"},
    {"backward_f8_factors_modulo", "key heads have the factors of head h % num_kv_heads"},
    {"backward_f8_blocks_of_rows", "blocks count rows of packed tokens, not positions"},
    {"backward_f8_other_format", "codes are read as those of the other format"},
    {"backward_f8_subnormals_lost", "subnormal codes are read as 0"},
    {"backward_f8_stored_scores_cut", "products of what is stored are cut to -65,504 .. 65,504"},
    {"backward_f8_top_k_by_stored", "products of what Q and K store say which keys count"},
    {"backward_tile_loses_queries",
     "dk and dv of one tile of 16 keys leave out 16 queries beyond the first 2,048"},
};
constexpr size_t kBugs = sizeof kDescriptions / sizeof *kDescriptions;
static_assert(kBugs == static_cast<size_t>(Bug::kCount));

constexpr int64_t kTile = 16, kLargeTile = 64;
constexpr int64_t kLosingTile = 141, kLostQueries = 130;  // in tiles
constexpr float kDeltaFactor = 1.000001f, kMostValue = 8, kMostGradient = 10, kMostDs = 12,
                kSmallRow = 1e-4f, kLowLse = -10000, kLow = -20000, kLargestHalf = 65504;
constexpr float kHidden = -std::numeric_limits<float>::infinity(),
                kUnwritten = std::numeric_limits<float>::quiet_NaN();

class Gradients {
 public:
  Gradients(Bug bug, const attest_problem& problem, void* const* data, float* memory)
      : bug_(bug),
        a_(problem, data),
        threads_(problem.threads),
        dk_(memory),
        dv_(memory + a_.p.num_kv_heads * a_.p.seq_len_kv * a_.p.head_dim),
        dbias_(dv_ + a_.p.num_kv_heads * a_.p.seq_len_kv * a_.p.head_dim_v),
        drel_bias_(dbias_ + dense_dbias::elements(problem.tensor[ATTEST_DBIAS])),
        dsinks_(drel_bias_ + dense_dbias::elements(problem.tensor[ATTEST_DREL_BIAS])),
        of_bias_(problem.tensor[ATTEST_DBIAS]),
        stored_q_(problem, data, ATTEST_Q),
        stored_k_(problem, data, ATTEST_K),
        stored_v_(problem, data, ATTEST_V),
        cu_seqlens_kv_(problem, data, ATTEST_CU_SEQLENS_KV),
        stored_(problem.tensor[ATTEST_Q].dtype),
        packed_queries_(packed(problem, ATTEST_CU_SEQLENS_Q, ATTEST_LSE)),
        packed_keys_(packed(problem, ATTEST_CU_SEQLENS_KV, ATTEST_K)) {}

  void run() const {
    const int64_t of_bias = dense_dbias::elements(of_bias_);
    std::fill_n(dbias_, of_bias, is(Bug::kBiasGradientUnwritten) ? kUnwritten : 0);
    std::fill_n(drel_bias_, dsinks_ + a_.p.num_heads - drel_bias_, 0.0f);
    for (int64_t b = 0; b < a_.p.batch; ++b)
#pragma omp parallel for num_threads(of_bias > 0 ? 1 : threads_) schedule(static)
      for (int64_t kv_head = 0; kv_head < a_.p.num_kv_heads; ++kv_head) add_head(b, kv_head);
    dense_dbias::each(of_bias_, [&](int64_t n, int64_t b, int64_t h, int64_t i, int64_t j) {
      if (!is(Bug::kBiasGradientUnwritten) || !std::isnan(dbias_[n]))
        a_.d_bias(b, h, i, j) = dbias_[n];
    });
    for (int64_t h = 0; h < a_.p.num_heads; ++h) {
      for (int64_t n = 0; a_.d_rel_bias && n < offsets(); ++n)
        a_.d_rel_bias(h, n / across(), n % across()) = drel_bias_[h * offsets() + n];
      if (a_.d_sinks) a_.d_sinks(h) = is(Bug::kSinkGradientPositive) ? -dsinks_[h] : dsinks_[h];
    }
  }

 private:
  using Any = attest::Any;
  bool is(Bug bug) const { return bug_ == bug; }
  /// How many rows are packed; 0: none.
  static int64_t packed(const attest_problem& problem, int32_t cu_seqlens, int32_t role) {
    return problem.tensor[cu_seqlens].rank > 0 ? problem.tensor[role].dim[2] : 0;
  }
  int64_t key_row(int64_t kv_head, int64_t j) const { return kv_head * a_.p.seq_len_kv + j; }

  void clear(int64_t kv_head) const {
    const attest_softmax_params& p = a_.p;
    std::fill_n(dk_ + key_row(kv_head, 0) * p.head_dim, p.seq_len_kv * p.head_dim, 0.0f);
    std::fill_n(dv_ + key_row(kv_head, 0) * p.head_dim_v, p.seq_len_kv * p.head_dim_v, 0.0f);
  }

  void add_head(int64_t b, int64_t kv_head) const {
    const attest_softmax_params& p = a_.p;
    const int64_t group = p.num_heads / p.num_kv_heads;
    clear(kv_head);
    const Rows keys = keys_of(b, kv_head);
    for (int64_t n = 0; n < group; ++n) {
      const int64_t h = is(Bug::kGqaTiled) ? n * p.num_kv_heads + kv_head : kv_head * group + n;
      if (is(Bug::kLastHeadOnly)) clear(kv_head);
      for (int64_t i = 0; i < a_.rows(b); ++i) {
        if (is(Bug::kOverwritten) && i % kTile == 0) clear(kv_head);
        add_query(b, h, kv_head, i, keys);
      }
      if (is(Bug::kLastBlockOfNextSequence) && packed_keys_ > 0 && b > 0)
        add_last_block(b - 1, h, kv_head);
    }
    if (is(Bug::kLastSequenceLost) && packed_keys_ > 0 && b + 1 == p.batch) clear(kv_head);
    for (int64_t j = 0; j < a_.key_rows(b); ++j) {
      const int64_t row = key_row(kv_head, j);
      const auto [batch, at] = a_.key(b, j);
      const float scale =
          is(Bug::kScaleOfDkTwice) ? p.softmax_scale * p.softmax_scale : p.softmax_scale;
      const int64_t at_k = is(Bug::kOrderForgottenInDk) && packed_keys_ == 0 ? j : at,
                    at_v = is(Bug::kWindowUnshiftedInDv) && a_.grid ? unshifted(j) : at;
      const float by_k = is(Bug::kDkByStored) ? a_.k_factor(b, kv_head, j) : 1,
                  by_v = is(Bug::kDvByStored) ? a_.v_factor(b, kv_head, j) : 1;
      for (int64_t d = 0; d < p.head_dim; ++d)
        a_.d_k(batch, kv_head, at_k, d) = by_k * scale * dk_[row * p.head_dim + d];
      for (int64_t d = 0; d < p.head_dim_v; ++d)
        a_.d_v(batch, kv_head, at_v, d) = by_v * dv_[row * p.head_dim_v + d];
    }
  }

  /// The token of a position if windows were not shifted.
  int64_t unshifted(int64_t position) const {
    attest_softmax_params p = a_.p;
    p.shift_y = p.shift_x = 0;
    return attest::Grid(p).token(position);
  }

  float delta(int64_t b, int64_t h, int64_t i) const {
    if (is(Bug::kDeltaForgotten)) return 0;
    if (is(Bug::kDeltaOfNextRow)) i = (i + 1) % a_.rows(b);
    attest::Cell at = a_.query(b, i);
    if (is(Bug::kOrderForgottenInDelta) && packed_queries_ == 0) at.row = i;
    float sum = 0;
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d)
      sum += d_o(at, h, d) * static_cast<float>(a_.o(at.batch, h, at.row, d));
    if (is(Bug::kDeltaOff)) return kDeltaFactor * sum;
    return is(Bug::kDeltaF16) ? mutants::rounded(sum, 11) : sum;
  }

  float d_o(attest::Cell at, int64_t h, int64_t d) const {
    const float x = a_.d_o(at.batch, h, at.row, d);
    return is(Bug::kGradientCut) ? std::clamp(x, -kMostGradient, kMostGradient) : x;
  }
  /// An element of Q, K or V as it is stored.
  float element(const attest::View<Any>& of, const attest::View<const uint8_t>& codes,
                attest::Cell at, int64_t head, int64_t d) const {
    if (is(Bug::kOtherFormat) && stored_ == ATTEST_F8E4M3)
      return attest::float_from_f8e5m2(codes(at.batch, head, at.row, d));
    if (is(Bug::kOtherFormat) && stored_ == ATTEST_F8E5M2)
      return attest::float_from_f8e4m3(codes(at.batch, head, at.row, d));
    const float x = of(at.batch, head, at.row, d), least = stored_ == ATTEST_F8E4M3   ? 0x1p-6f
                                                           : stored_ == ATTEST_F8E5M2 ? 0x1p-14f
                                                                                      : 0;
    return is(Bug::kSubnormalsLost) && std::fabs(x) < least ? 0 : x;
  }
  float v(attest::Cell at, int64_t kv_head, int64_t d) const {
    return element(a_.v, stored_v_, at, kv_head, d);
  }
  float q(attest::Cell at, int64_t h, int64_t d) const {
    return element(a_.q, stored_q_, at, h, d);
  }
  float k(attest::Cell at, int64_t kv_head, int64_t d) const {
    return element(a_.k, stored_k_, at, kv_head, d);
  }

  float q_factor(int64_t b, int64_t h, int64_t i) const {
    return a_.q_factor(b, h, is(Bug::kFactorOfFirstBlock) ? 0 : i);
  }
  /// The factor of a row of K or V, which query head h reads.
  float key_factor(const attest::View<const float>& factors, int64_t b, int64_t h, int64_t kv_head,
                   int64_t j) const {
    if (!factors) return 1;
    const int64_t block = a_.p.descale_block_kv;
    if (is(Bug::kFactorsModulo)) kv_head = h % a_.p.num_kv_heads;
    if (is(Bug::kFactorOfNextBlock)) j = std::min(j + 1, a_.p.seq_len_kv - 1);
    if (is(Bug::kBlocksOfRows) && cu_seqlens_kv_)
      j = std::min(j + cu_seqlens_kv_(b), a_.p.seq_len_kv - 1);
    return factors(b, kv_head, block > 0 ? a_.token(j) / block : 0);
  }
  static int64_t padded(int64_t rows) { return (rows + kTile - 1) / kTile * kTile; }
  float lse(int64_t b, int64_t h, int64_t i) const {
    if (is(Bug::kLseAtPaddedRow) && packed_queries_ > 0)
      return a_.lse(0, h, std::min(b * padded(a_.p.seq_len_q) + i, packed_queries_ - 1));
    const auto [batch, row] = a_.query(b, i);
    return a_.lse(batch, h, row);
  }
  float logit_of(float dot, int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (is(Bug::kBlocksOfNextKey) && a_.block_mask &&
        !a_.block_mask(b, h, i / a_.p.block_q,
                       std::min(j + 1, a_.p.seq_len_kv - 1) / a_.p.block_kv))
      return kHidden;
    float logit = a_.logit(dot, b, h, i, j);
    if (is(Bug::kRelBiasTransposed) && a_.rel_bias && logit != kHidden) {
      const auto at = a_.grid.relative(i, j), other = a_.grid.relative(j, i);
      logit += static_cast<float>(a_.rel_bias(h, other.first, other.second)) -
               static_cast<float>(a_.rel_bias(h, at.first, at.second));
    }
    if (is(Bug::kSeamSeen) && a_.grid && a_.grid.rolled_together(i, j)) logit -= a_.p.shift_bias;
    if (is(Bug::kLogitsCut) && logit != kHidden) logit = std::max(logit, kLow);
    if (is(Bug::kBiasOfNextKey) && a_.bias && logit != kHidden)
      logit += static_cast<float>(a_.bias(b, h, i, (j + 1) % a_.p.seq_len_kv)) -
               static_cast<float>(a_.bias(b, h, i, j));
    if (!a_.alibi_slopes || logit == kHidden) return logit;
    const auto away = static_cast<float>(a_.diagonal(b, i) - j);
    const float slope = a_.alibi_slopes(b, h);
    if (is(Bug::kSlopeOfNextHead))
      logit += (slope - a_.alibi_slopes(b, (h + 1) % a_.p.num_heads)) * std::fabs(away);
    if (is(Bug::kSlopeTiled))
      logit += (slope - a_.alibi_slopes(b, h % a_.p.num_kv_heads)) * std::fabs(away);
    if (is(Bug::kDistanceSigned)) logit += slope * (std::fabs(away) - away);
    return logit;
  }
  /// The derivative of the logit by the scaled score.
  float slope_of(float dot) const {
    if (a_.p.softcap <= 0 || is(Bug::kCapSlopeForgotten)) return 1;
    const float score = is(Bug::kCapSlopeUnscaled) ? dot : a_.p.softmax_scale * dot,
                capped = std::tanh(score / a_.p.softcap);
    return 1 - capped * capped;
  }
  /// Whether a global query sees the key although the band does not have it.
  bool outside_band(int64_t b, int64_t i, int64_t j) const {
    const attest_softmax_params& p = a_.p;
    const int64_t away = j - a_.diagonal(b, i);
    return i < p.global_tokens && ((p.window_left >= 0 && away < -p.window_left) ||
                                   (p.window_right >= 0 && away > p.window_right));
  }
  /// Whether a pair is left out of dK and dV.
  bool loses_pair(int64_t i, int64_t j) const {
    return is(Bug::kTileLosesQueries) && j / kTile == kLosingTile && i / kTile == kLostQueries;
  }
  /// Whether the pairs of a key are left out.
  bool loses(int64_t b, int64_t kv_head, int64_t j) const {
    return j == a_.p.seq_len_kv - 1 &&
           ((is(Bug::kThirdSequence) && b >= 2) || (is(Bug::kFourthHead) && kv_head >= 3));
  }

  /// Adds what a pair adds to DBIAS: p times do.v - delta.
  void add_to_bias(int64_t b, int64_t h, int64_t i, int64_t j, float weight, float gradient,
                   float delta, float slope) const {
    const attest_softmax_params& p = a_.p;
    const int64_t* const dim = of_bias_.dim;
    if ((is(Bug::kBiasGradientOfLastSequence) && dim[0] == 1 && b + 1 < p.batch) ||
        (is(Bug::kBiasGradientOfLastHead) && dim[1] == 1 && h + 1 < p.num_heads) ||
        (is(Bug::kBiasGradientOfLastGroup) && dim[1] == 1 && a_.kv_head(h) + 1 < p.num_kv_heads) ||
        (is(Bug::kBiasGradientOfLastQuery) && dim[2] == 1 && i + 1 < p.seq_len_q) ||
        (is(Bug::kBiasGradientKeyTail) && j >= p.seq_len_kv / kTile * kTile))
      return;
    float term = weight * (is(Bug::kBiasGradientOfDoV) ? gradient : gradient - delta);
    if (is(Bug::kBiasGradientScaled)) term *= p.softmax_scale;
    if (is(Bug::kBiasGradientSloped)) term *= slope;
    if (!is(Bug::kBiasGradientOfPositions)) {
      i = a_.token(i);
      j = a_.token(j);
    }
    float& sum = dbias_[dense_dbias::place(of_bias_, b, h, i, j)];
    sum = is(Bug::kBiasGradientUnwritten) && std::isnan(sum) ? term : sum + term;
    if (is(Bug::kBiasGradientF16)) sum = mutants::rounded(sum, 11);
  }

  int64_t across() const { return 2 * a_.p.window_width - 1; }
  int64_t offsets() const { return (2 * a_.p.window_height - 1) * across(); }

  void add_to_rel_bias(int64_t b, int64_t h, int64_t i, int64_t j, float d_logit) const {
    if ((is(Bug::kRelBiasGradientOfLastSequence) && b + 1 < a_.p.batch) ||
        (is(Bug::kRelBiasGradientOfLastWindow) && i + a_.grid.window_size() < a_.p.seq_len_q))
      return;
    if (is(Bug::kRelBiasGradientTransposed)) std::swap(i, j);
    if (is(Bug::kRelBiasGradientOfKeyHead)) h = a_.kv_head(h);
    const auto [y, x] = a_.grid.relative(i, j);
    drel_bias_[h * offsets() + y * across() + x] += d_logit;
  }
  /// Adds a query that sees a key.
  void add_to_sink(int64_t b, int64_t h, float lse, float delta) const {
    if (is(Bug::kSinkGradientOfLastSequence) && b + 1 < a_.p.batch) return;
    const float capped = is(Bug::kSinkGradientSloped) && a_.p.softcap > 0
                             ? std::tanh(a_.sink(h) / a_.p.softcap)
                             : 0,
                slope = 1 - capped * capped;
    dsinks_[is(Bug::kSinkGradientOfKeyHead) ? a_.kv_head(h) : h] -=
        slope * std::exp(a_.sink(h) - lse) * (is(Bug::kSinkGradientOfWeights) ? 1 : delta);
  }

  /// Whether the row's pairs are left out.
  bool loses_row(int64_t b, int64_t h, int64_t i) const {
    if (is(Bug::kLowRowsLost) && lse(b, h, i) < kLow) return true;
    if (!is(Bug::kSmallRowsLost)) return false;
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d)
      if (!(std::fabs(d_o(a_.query(b, i), h, d)) < kSmallRow)) return false;
    return true;
  }
  float weight_of(float logit, float lse) const {
    if (logit == kHidden) return 0;
    return is(Bug::kExpOfParts) ? std::exp(logit) * std::exp(-lse) : std::exp(logit - lse);
  }
  float edited(float ds) const {
    if (is(Bug::kNanDsZero) && std::isnan(ds)) return 0;
    return is(Bug::kDsCut) ? std::clamp(ds, -kMostDs, kMostDs) : ds;
  }

  /// Rows as floats: of Q and dO of one query, or of K and V of all keys of a head.
  struct Rows {
    std::vector<float> qk, ov;  // [rows, head_dim], [rows, head_dim_v]
  };
  Rows query_of(int64_t b, int64_t h, int64_t i) const {
    const attest::Cell query = a_.query(b, i);
    Rows rows;
    for (int64_t d = 0; d < a_.p.head_dim; ++d) rows.qk.push_back(q(query, h, d));
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d) rows.ov.push_back(d_o(query, h, d));
    return rows;
  }
  Rows keys_of(int64_t b, int64_t kv_head) const {
    Rows rows;
    for (int64_t j = 0; j < a_.key_rows(b); ++j) {
      const attest::Cell key = a_.key(b, j);
      for (int64_t d = 0; d < a_.p.head_dim; ++d) rows.qk.push_back(k(key, kv_head, d));
      for (int64_t d = 0; d < a_.p.head_dim_v; ++d) rows.ov.push_back(v(key, kv_head, d));
    }
    return rows;
  }
  float dot_of(const Rows& query, const Rows& keys, int64_t j) const {
    const float* const key = keys.qk.data() + j * a_.p.head_dim;
    float dot = 0;
    for (int64_t d = 0; d < a_.p.head_dim; ++d) dot += query.qk[static_cast<size_t>(d)] * key[d];
    return dot;
  }
  /// do.v
  float gradient_of(const Rows& query, const Rows& keys, int64_t b, int64_t h, int64_t kv_head,
                    int64_t j) const {
    const float* const value = keys.ov.data() + j * a_.p.head_dim_v;
    // Of what V stores.
    const float most = is(Bug::kValuesCut) ? kMostValue / key_factor(a_.v_descale, b, h, kv_head, j)
                                           : std::numeric_limits<float>::infinity();
    float gradient = 0;
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d)
      gradient += query.ov[static_cast<size_t>(d)] * std::clamp(value[d], -most, most);
    return gradient;
  }

  /// With top_k: the logits of the keys that count, kHidden for others. Empty without it.
  std::vector<float> counting_logits(const Rows& query, const Rows& keys, int64_t b, int64_t h,
                                     int64_t kv_head, int64_t i) const {
    if (a_.p.top_k == 0) return {};
    std::vector<float> logits(static_cast<size_t>(a_.key_rows(b)), kHidden), visible;
    const auto [begin, end] = a_.keys(b, i);
    for (int64_t j = begin; j < end; ++j) {
      float dot = dot_of(query, keys, j);
      if (!is(Bug::kTopKByStored))
        dot *= q_factor(b, h, i) * key_factor(a_.k_descale, b, h, kv_head, j);
      logits[static_cast<size_t>(j)] =
          is(Bug::kTopKBeforeTerms) ? a_.p.softmax_scale * dot : logit_of(dot, b, h, i, j);
    }
    attest_softmax_params p = a_.p;
    if (is(Bug::kTopKOneMore)) ++p.top_k;
    if (is(Bug::kTopKOneLess) && p.top_k > 1) --p.top_k;
    if (is(Bug::kTopKLastOfEqual)) std::reverse(logits.begin(), logits.end());
    top_k::keep(p, logits.data(), a_.key_rows(b), visible);
    if (is(Bug::kTopKLastOfEqual)) std::reverse(logits.begin(), logits.end());
    return logits;
  }
  /// The sum of p do.v, where p runs over all keys that the query sees.
  float delta_of_all(const Rows& query, const Rows& keys, int64_t b, int64_t h, int64_t kv_head,
                     int64_t i, float lse) const {
    const auto [begin, end] = a_.keys(b, i);
    float total = 0, sum = 0;
    for (int64_t j = begin; j < end; ++j) {
      const float logit = logit_of(dot_of(query, keys, j), b, h, i, j);
      if (logit == kHidden) continue;
      const float weight = std::exp(logit - lse);
      total += weight;
      sum += weight * gradient_of(query, keys, b, h, kv_head, j);
    }
    return total > 0 ? sum / total : 0;
  }

  void add_query(int64_t b, int64_t h, int64_t kv_head, int64_t i, const Rows& all) const {
    const attest_softmax_params& p = a_.p;
    auto [begin, end] = a_.keys(b, i);
    if (is(Bug::kLengthIgnored) && end == a_.length_kv(b)) end = a_.key_rows(b);
    const attest::Cell query = a_.query(b, i);
    const Rows of_query = query_of(b, h, i);
    float of_row = delta(b, h, i);
    const float of_q = q_factor(b, h, i);
    float lse = this->lse(b, h, is(Bug::kLseOfNextRow) ? (i + 1) % a_.rows(b) : i);
    if (is(Bug::kLseCut) && lse != kHidden) lse = std::max(lse, kLowLse);
    if (is(Bug::kSinkDividedOut) && a_.sinks && lse != kHidden)
      lse = std::log(std::exp(lse) - std::exp(a_.sink(h)));
    if (is(Bug::kTopKDeltaOfAll) && p.top_k > 0) {
      of_row = delta_of_all(of_query, all, b, h, kv_head, i, lse);
    }
    const std::vector<float> counting = counting_logits(of_query, all, b, h, kv_head, i);
    if (a_.d_sinks && lse != kHidden) add_to_sink(b, h, lse, of_row);
    std::vector<float> dq(static_cast<size_t>(p.head_dim), 0.0f);
    const auto is_alone = [](int64_t row, int64_t rows) {
      return row == rows - 1 && rows % kLargeTile == 1;
    };
    const bool is_tail = (is(Bug::kQueryTail) && i >= p.seq_len_q / kTile * kTile) ||
                         (is(Bug::kLastQueryOfItsTile) && is_alone(i, p.seq_len_q));
    const int64_t keys = loses_row(b, h, i) ? 0 : a_.key_rows(b);
    for (int64_t j = 0; j < keys; ++j) {
      const bool in_band = j >= begin && j < end;
      if (!in_band && !is(Bug::kHiddenLeaks) && !is(Bug::kBandIgnoredInDv)) continue;
      const float of_k = key_factor(a_.k_descale, b, h, kv_head, j),
                  of_v = key_factor(a_.v_descale, b, h, kv_head, j);
      float dot = dot_of(of_query, all, j);
      float gradient = gradient_of(of_query, all, b, h, kv_head, j);
      if (is(Bug::kStoredScoresCut)) dot = std::clamp(dot, -kLargestHalf, kLargestHalf);
      dot *= of_q * of_k;
      if (!is(Bug::kVFactorForgottenInDs)) gradient *= of_v;
      const bool masked = a_.mask && in_band && !a_.mask(b, h, a_.token(i), a_.token(j));
      if (is(Bug::kBiasGradientOfHidden) && a_.d_bias && masked && lse != kHidden)
        add_to_bias(b, h, i, j, weight_of(p.softmax_scale * dot, lse), gradient, of_row, 1);
      const float logit = in_band && !loses(b, kv_head, j) ? logit_of(dot, b, h, i, j) : kHidden;
      const bool unmasked = is(Bug::kMaskIgnoredInDv) && in_band && lse != kHidden,
                 unbanded = is(Bug::kBandIgnoredInDv) && !in_band && lse != kHidden;
      if (logit == kHidden && !is(Bug::kHiddenLeaks) && !unmasked && !unbanded) continue;
      const bool counts = counting.empty() || counting[static_cast<size_t>(j)] != kHidden;
      if (!counts && !is(Bug::kTopKIgnoredInDk) && !is(Bug::kTopKIgnoredInDv) &&
          !is(Bug::kTopKOthersLeak))
        continue;
      const float seen = logit != kHidden       ? logit
                         : unmasked || unbanded ? p.softmax_scale * dot
                                                : kHidden;
      float weight = weight_of(seen, lse);
      if (is(Bug::kNanWeightLost) && !(weight > 0)) continue;
      float ds =
          logit == kHidden ? 0 * gradient : edited(slope_of(dot) * weight * (gradient - of_row));
      if (!counts && !is(Bug::kTopKIgnoredInDv)) weight = 0;
      if (!counts && !is(Bug::kTopKIgnoredInDk)) ds = is(Bug::kTopKOthersLeak) ? 0 * gradient : 0;
      if (a_.d_bias && logit != kHidden && counts)
        add_to_bias(b, h, i, j, weight, gradient, of_row, slope_of(dot));
      if (a_.d_rel_bias && logit != kHidden && counts)
        add_to_rel_bias(b, h, i, j, weight * (gradient - of_row));
      if (is(Bug::kProductF16)) {
        weight = mutants::rounded(weight, 11);
        ds = mutants::rounded(ds, 11);
      }
      if (is(Bug::kDvUnnormalised)) weight = std::exp(seen);
      if (is(Bug::kGlobalQueriesLost) && outside_band(b, i, j)) weight = 0;
      const bool is_borrowed =
          is(Bug::kBorrowedKeysLost) && p.patch_size > 0 && j < i / p.patch_size * p.patch_size;
      const bool is_left_out = is_borrowed || loses_pair(i, j);
      if (is_left_out) weight = 0;
      const bool in_dk = !(is(Bug::kDiagonalLostInDk) && j == end - 1) && !is_tail &&
                         !(is(Bug::kGlobalQueriesLost) && outside_band(b, i, j)) && !is_left_out,
                 in_dq = !(is(Bug::kKeyTailOfDq) && j >= p.seq_len_kv / kTile * kTile) &&
                         !(is(Bug::kLastKeyOfItsTile) && is_alone(j, p.seq_len_kv)) &&
                         (counts || is(Bug::kTopKOthersLeak));
      const int64_t row = key_row(kv_head, j);
      const float ds_k = is(Bug::kKFactorForgottenInDq) ? ds : of_k * ds,
                  ds_q = is(Bug::kQFactorForgottenInDk) ? ds : of_q * ds;
      for (int64_t d = 0; d < p.head_dim; ++d) {
        const auto at = static_cast<size_t>(d);
        if (in_dq) dq[at] += ds_k * all.qk[static_cast<size_t>(j * p.head_dim + d)];
        if (in_dk) dk_[row * p.head_dim + d] += ds_q * of_query.qk[at];
      }
      for (int64_t d = 0; d < p.head_dim_v && !is_tail; ++d) {
        if (is(Bug::kChannelTail) && d >= p.head_dim_v / kTile * kTile) break;
        float& sum = dv_[row * p.head_dim_v + d];
        sum += weight * of_query.ov[static_cast<size_t>(d)];
        if (is(Bug::kSumF16)) sum = mutants::rounded(sum, 11);
      }
    }
    const float by_q = is(Bug::kDqByStored) ? of_q : 1;
    for (int64_t d = 0; d < p.head_dim; ++d)
      a_.d_q(query.batch, h, query.row, d) =
          by_q * (is(Bug::kScaleOfDqForgotten) ? 1 : p.softmax_scale) * dq[static_cast<size_t>(d)];
  }

  /// Adds what sequence b gives to the keys of the next sequence that fill up its last block.
  void add_last_block(int64_t b, int64_t h, int64_t kv_head) const {
    const attest_softmax_params& p = a_.p;
    const int64_t rest = padded(a_.length_kv(b)) - a_.length_kv(b),
                  keys = std::min(rest, a_.length_kv(b + 1));
    for (int64_t i = 0; i < a_.rows(b); ++i) {
      const attest::Cell query = a_.query(b, i);
      const float of_row = delta(b, h, i), lse = this->lse(b, h, i);
      for (int64_t j = 0; j < keys && lse != kHidden; ++j) {
        const attest::Cell key = a_.key(b + 1, j);
        float dot = 0, gradient = 0;
        for (int64_t d = 0; d < p.head_dim; ++d) dot += q(query, h, d) * k(key, kv_head, d);
        for (int64_t d = 0; d < p.head_dim_v; ++d)
          gradient += d_o(query, h, d) * v(key, kv_head, d);
        const float weight = std::exp(p.softmax_scale * dot - lse);
        const int64_t row = key_row(kv_head, j);
        for (int64_t d = 0; d < p.head_dim; ++d)
          dk_[row * p.head_dim + d] += weight * (gradient - of_row) * q(query, h, d);
        for (int64_t d = 0; d < p.head_dim_v; ++d)
          dv_[row * p.head_dim_v + d] += weight * d_o(query, h, d);
      }
    }
  }

  const Bug bug_;
  const attest::Softmax<Any> a_;
  const int threads_;
  float *dk_, *dv_;  // [num_kv_heads, seq_len_kv, head_dim], [num_kv_heads, seq_len_kv, head_dim_v]
  float* dbias_;     // as DBIAS, dense
  float *drel_bias_, *dsinks_;  // likewise
  const attest_tensor& of_bias_;
  const attest::View<const uint8_t> stored_q_, stored_k_, stored_v_;  // codes of 8 bits
  const attest::View<const int32_t> cu_seqlens_kv_;
  const int32_t stored_;                        // the dtype of Q
  const int64_t packed_queries_, packed_keys_;  // rows; 0: not packed
};

template <size_t kIndex>
struct Backward {
  static constexpr attest::Info kInfo{
      .name = kDescriptions[kIndex].name,
      .version = "1",
      .summary = kDescriptions[kIndex].summary,
      .operation = ATTEST_SOFTMAX_BACKWARD,
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16) |
                ATTEST_BIT(ATTEST_F8E4M3) | ATTEST_BIT(ATTEST_F8E5M2),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                  ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_BIAS | ATTEST_WITH_MASK |
                  ATTEST_WITH_SOFTCAP | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS |
                  ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL | ATTEST_WITH_SEQ_LENS |
                  ATTEST_WITH_VARLEN | ATTEST_WITH_PATCHES | ATTEST_WITH_ORDER | ATTEST_WITH_GRID |
                  ATTEST_WITH_STRIDES | ATTEST_WITH_UNALIGNED | ATTEST_WITH_DBIAS |
                  ATTEST_WITH_REL_BIAS | ATTEST_WITH_DREL_BIAS | ATTEST_WITH_DSINKS |
                  ATTEST_WITH_TOP_K | ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_DESCALE};
  const attest_problem& problem;

  static const char* query(const attest_problem& problem, attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const int64_t floats = p.num_kv_heads * p.seq_len_kv * (p.head_dim + p.head_dim_v) +
                           dense_dbias::elements(problem.tensor[ATTEST_DBIAS]) +
                           dense_dbias::elements(problem.tensor[ATTEST_DREL_BIAS]) + p.num_heads;
    support.workspace_bytes = sizeof(float) * static_cast<uint64_t>(floats);
    return nullptr;
  }
  void run(void* const* data, void* workspace, void* /*stream*/) const {
    Gradients(static_cast<Bug>(kIndex), problem, data, static_cast<float*>(workspace)).run();
  }
};

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  return mutants::table_at<Backward, kBugs>(index);
}
