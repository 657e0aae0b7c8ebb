// What is expected of the mutants of steps.so (impls/mutants/steps/steps.hpp): each from the size
// on at which its step first happens, and the inputs that make it happen.
#include <algorithm>

#include "testing/mutants/expectations.hpp"

namespace attest::testing {
namespace {

constexpr const char* kPairs = "pair_mask pair_bias";
constexpr const char* kLongSums = "cross_head cross";
constexpr const char* kHidesIt = "the output's own rounding is as large";

// A maximum rises where the step is: late, or by much.
const std::vector<Expected> kRescale = {
    {"step_sum_kept_last_tile_t16", kDense, 61, "rising"},
    {"step_total_kept_last_tile_t64", kDense, 197, "rising"},
    {"step_both_kept_last_tile_t256", kDense, 1021, "rising"},
    {"step_sum_kept_short_tail_t256", kDense, 1021, "rising"},
    {"step_total_kept_short_tail_t32", kDense, 61, "rising"},
    {"step_both_kept_short_tail_t64", kDense, 197, "rising"},
    {"step_sum_kept_second_tile_t64", kDense, 197, "rising"},
    {"step_total_kept_second_tile_t256", kDense, 1021, "rising"},
    {"step_sum_kept_middle_tile_t128", kDense, 1021, "rising"},
    {"step_total_kept_middle_tile_t16", kDense, 61, "rising"},
    {"step_both_kept_middle_tile_t64", kDense, 197, "rising"},
    {"step_sum_kept_rise_64_t64", kDense, 197, "rising"},
    {"step_both_kept_rise_64_t128", kDense, 1021, "rising"},
    {"step_both_kept_rise_200_t16", kDense, 61, "wide"},
    {"step_both_kept_rise_200_t64", kDense, 197, "wide"},
    {"step_sum_kept_rise_2000_t32", kDense, 61, "wide"},
    {"step_sum_kept_flushed_t32", kDense, 61, "rising"},
    {"step_both_kept_flushed_t64", kDense, 197, "rising"},
    {"step_total_kept_rise_2_t64", kDense, 197, "rising"},
    {"step_both_kept_rise_2_t32", kDense, 61, "rising"},
    {"step_sum_kept_25th_rise_t16", kDense, 1021, "rising"},
    {"step_both_kept_25th_rise_t64", kDense, 4099, "rising"},
    {"step_max_of_first_tile_t16", kDense, 61, "rising"},
    {"step_max_of_first_tile_t64", kDense, 197, "rising"},
    {"step_max_of_first_tile_half_t256", kDense, 1021, "rising"},
    {"step_max_of_16_t64_l64", kDense, 61, "rising"},
    {"step_max_of_32_t128_l64", kDense, 197, "rising"},
    {"step_max_of_8_t16_l16", kDense, 61, "rising"},
    {"step_max_of_16_half_t64_l32", kDense, 61, "rising"},
    {"step_max_without_tail_t64", kDense, 197, "rising"},
    {"step_max_without_tail_half_t256", kDense, 1021, "rising"},
    {"step_max_lags_12_half_t16", kDense, 61, "wide"},
    {"step_max_lags_12_half_t64", kDense, 197, "wide"},
    {"step_least_of_negative_t16", kDense, 61, "wide"},
    {"step_least_of_negative_t64", kDense, 61, "wide"},
};

// Numbers at the ends of what is kept: small weights, large values and scores, long sums.
const std::vector<Expected> kRange = {
    {"step_max_of_padding_t32", kDense, 61, "huge"},
    {"step_max_of_padding_t256", kDense, 61, "huge"},
    {"step_weights_from_e16_t64", kDense, 61, "rising"},
    {"step_weights_from_e16_t256", kDense, 61, "rising"},
    {"step_weights_normal_in_half_t32", kDense, 61, "rising"},
    {"step_weights_normal_in_half_t128", kDense, 61, "rising"},
    {"step_tiles_from_1e6_t16", kDense, 61, "rising"},
    {"step_tiles_from_1e6_t128", kDense, 197, "rising"},
    {"step_far_weigh_from_1000_t64", kDense, 61, "wide"},
    {"step_far_weigh_from_20000_t64", kDense, 61, "wide"},
    {"step_exponent_wraps_t64", kDense, 61, "wide"},
    {"step_scores_from_20_t64", kDense, 61, "rising"},
    {"step_queries_flushed_t64", kDense, 61, "subnormal", "f16"},
    {"step_keys_flushed_t16", kDense, 61, "subnormal", "f16"},
    {"step_keys_flushed_t64", kDense, 197, "subnormal", "f16"},
    {"step_values_flushed_t64", kDense, 61, "subnormal", "f16"},
    {"step_normaliser_to_65504_t64", kLongSums, 65551, "huge", "f32"},
    {"step_normaliser_to_65504_t64", kLongSums, 262147, "huge", "f16 bf16"},
    {"step_normaliser_to_65504_t64", kLongSums, 65551, nullptr, "f16 bf16", kHidesIt},
    {"step_f16_normaliser_t64", kLongSums, 65551, "huge", "f16 bf16"},
    {"step_f16_normaliser_t64", kLongSums, 61, "codebook", "f32"},
    {"step_f16_normaliser_t64", kLongSums, 61, nullptr, "f16 bf16", kHidesIt},
    {"step_f16_normaliser_saturated_t64", kLongSums, 262147, "huge", "f16 bf16"},
    {"step_f16_normaliser_saturated_t64", kLongSums, 61, "codebook", "f32"},
    {"step_f16_normaliser_saturated_t64", kLongSums, 61, nullptr, "f16 bf16", kHidesIt},
    {"step_f16_normaliser_tiles_t16", kLongSums, 65551, "huge", "f16 bf16"},
    {"step_f16_normaliser_tiles_t16", kLongSums, 61, "codebook", "f32"},
    {"step_f16_normaliser_tiles_t16", kLongSums, 61, nullptr, "f16 bf16", kHidesIt},
    {"step_f16_normaliser_tiles_t64", kLongSums, 65551, "huge", "f16 bf16"},
    {"step_f16_normaliser_tiles_t64", kLongSums, 61, "codebook", "f32"},
    {"step_f16_normaliser_tiles_t64", kLongSums, 61, nullptr, "f16 bf16", kHidesIt},
    {"step_bf16_normaliser_tiles_t256", kLongSums, 61, "codebook", "f32 f16"},
    {"step_bf16_normaliser_tiles_t256", kLongSums, 61, nullptr, "bf16", kHidesIt},
    {"step_values_to_6_t64", kDense, 61, "rising"},
    {"step_values_to_448_t64", kDense, 61, "rising"},
    {"step_values_to_1000_t64", kDense, 61, "rising"},
    {"step_scores_to_50_t64", kDense, 61, "huge"},
    {"step_scores_to_64_t64", kDense, 61, "huge"},
    {"step_scores_to_40000_t64", kDense, 61, "wide"},
    {"step_scores_to_65504_t64", kDense, 61, "wide"},
    {"step_scores_to_100000_t64", kDense, 61, "wide"},
    {"step_scores_raised_to_minus_40000_t64", kDense, 61, "wide"},
    {"step_scores_raised_to_minus_65504_t64", kDense, 61, "wide"},
    {"step_scores_raised_to_minus_100000_t64", kDense, 61, "wide"},
    {"step_dots_to_65504_t64", kDense, 61, "huge"},
    {"step_softcap_overflows_t64", "softcap", 61, "huge"},
    {"step_tanh_flat_from_4_t64", "softcap", 61, "wide"},
};

// Tiles that are hidden as a whole, by masks and by biases of -inf; runs of 16 to 512 keys.
const std::vector<Expected> kHidden = {
    {"step_skip_by_first_row_t64_l16", kPairs, 197, "codebook"},
    {"step_skip_by_first_row_t128_l128", kPairs, 1021, "codebook"},
    {"step_skip_by_last_row_t16_l16", kPairs, 61, "codebook"},
    {"step_skip_by_last_row_t64_l64", kPairs, 197, "codebook"},
    {"step_skip_by_first_key_t32", kPairs, 61, "codebook"},
    {"step_skip_by_first_key_t256", kPairs, 61, "codebook"},
    {"step_skip_by_ends_t64", kPairs, 61, "codebook"},
    {"step_skip_by_ends_t128", kPairs, 61, "codebook"},
    {"step_skip_but_first_t128", kPairs, 1021, "codebook"},
    {"step_skip_but_last_t16", kPairs, 61, "codebook"},
    {"step_skip_but_last_t64", kPairs, 197, "codebook"},
    {"step_terms_of_first_row_t64_l16", kPairs, 61, "codebook"},
    {"step_terms_of_first_row_t64_l64", kPairs, 61, "codebook"},
    {"step_empty_by_first_tile_t16", kPairs, 61, "codebook"},
    {"step_empty_by_first_tile_t64", kPairs, 197, "codebook"},
    {"step_keeps_after_hidden_t64", kPairs, 1021, "codebook"},
    {"step_restarts_after_hidden_t32", kPairs, 197, "codebook"},
    {"step_restarts_after_hidden_t128", kPairs, 1021, "codebook"},
    {"step_run_ends_t64_l16", kPairs, 61, "codebook"},
    {"step_run_ends_t64_l64", kPairs, 197, "codebook"},
    {"step_hidden_weigh_one_t64", kPairs, 61, "codebook"},
    {"step_hidden_max_zero_t64", kPairs, 197, "huge"},
};

// Biases that hide though they are finite.
const std::vector<Expected> kFinite = {
    {"step_bias_hides_from_minus_1e4_t16", "pair_bias", 61, "random"},
    {"step_bias_hides_from_minus_1e4_t64", "pair_bias", 61, "random"},
    {"step_bias_to_minus_1e4_t16", "pair_bias", 61, "random"},
    {"step_bias_to_minus_1e4_t64", "pair_bias", 61, "random"},
    {"step_bias_hides_from_minus_65504_t64", "pair_bias", 61, "wide", "f32 bf16"},
    {"step_bias_hides_from_minus_1e6_t64", "pair_bias", 61, "wide", "f32 bf16"},
    {"step_bias_to_minus_65504_t64", "pair_bias", 61, "wide", "f32 bf16"},
    {"step_bias_in_f16_t16", "pair_bias", 61, "wide", "bf16"},
    {"step_bias_in_f16_t64", "pair_bias", 197, "wide", "bf16"},
    {"step_max_from_minus_1e6_t32", "pair_bias", 61, "wide", "f32 bf16"},
    {"step_max_from_minus_65504_t64", kDense, 61, "wide"},
    {"step_max_from_minus_32768_t32", "pair_bias", 61, "random"},
    {"step_max_from_minus_32768_t128", "pair_bias", 61, "random"},
    {"step_bias_overflows_in_base_2_t16", "pair_bias", 61, "random", "f32 bf16"},
    {"step_bias_overflows_in_base_2_t64", "pair_bias", 197, "random", "f32 bf16"},
};

// NaN and Inf that rows see.
const std::vector<Expected> kWild = {
    {"step_nan_score_dropped_t16", kDense, 61, "wild"},
    {"step_nan_score_dropped_t64", kDense, 61, "wild"},
    {"step_inf_score_hidden_t64", kDense, 61, "wild"},
    {"step_nan_value_zero_t64", kDense, 61, "wild"},
    {"step_nan_row_zero_t64", kDense, 61, "wild"},
    {"step_nan_bias_zero_t64", "pair_bias", 61, "wild"},
    {"step_nan_score_capped_t64", "softcap", 61, "wild"},
    {"step_nan_score_capped_first_tile_t16", "softcap", 61, "wild"},
    {"step_nan_score_capped_first_tile_t64", "softcap", 197, "wild"},
    {"step_nan_score_capped_last_tile_t16", "softcap", 61, "wild"},
    {"step_nan_score_capped_last_tile_t64", "softcap", 197, "wild"},
    {"step_inf_score_hidden_t64", "narrow", 61, "wild"},
    {"step_nan_score_dropped_first_tile_t16", "narrow", 61, "wild"},
    {"step_nan_score_dropped_last_tile_t16", "narrow", 61, "wild"},
    {"step_inf_score_hidden_last_tile_t16", "narrow", 61, "wild"},
    {"step_minus_inf_score_nan_first_tile_t16", "narrow", 61, "wild"},
    {"step_nan_score_dropped_first_tile_t16", kDense, 61, "wild"},
    {"step_nan_score_dropped_first_tile_t64", kDense, 197, "wild"},
    {"step_nan_score_dropped_last_tile_t16", kDense, 61, "wild"},
    {"step_nan_score_dropped_last_tile_t64", kDense, 197, "wild"},
    {"step_nan_score_dropped_inner_tile_t16", kDense, 61, "wild"},
    {"step_inf_score_hidden_first_tile_t64", kDense, 197, "wild"},
    {"step_inf_score_hidden_last_tile_t16", kDense, 61, "wild"},
    {"step_minus_inf_score_nan_first_tile_t16", kDense, 61, "wild"},
    {"step_minus_inf_score_nan_last_tile_t64", kDense, 197, "wild"},
    {"step_nan_value_zero_first_tile_t16", kDense, 61, "wild"},
    {"step_nan_value_zero_last_tile_t64", kDense, 197, "wild"},
    {"step_nan_value_zero_inner_tile_t16", kDense, 61, "wild"},
    {"step_inf_value_cut_first_tile_t64", kDense, 197, "wild"},
    {"step_inf_value_cut_last_tile_t16", kDense, 61, "wild"},
};

}  // namespace

std::vector<Expected> step_expectations() {
  std::vector<Expected> all;
  for (const auto* some : {&kRescale, &kRange, &kHidden, &kFinite, &kWild})
    all.insert(all.end(), some->begin(), some->end());
  return all;
}

}  // namespace attest::testing
