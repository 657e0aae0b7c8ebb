#include "testing/mutants/expectations.hpp"

#include <algorithm>
#include <sstream>

namespace attest::testing {
namespace {

constexpr const char* kAll = "f32 f16 bf16";

bool has_word(const char* words, const std::string& wanted) {
  std::istringstream stream(words);
  for (std::string word; stream >> word;)
    if (word == wanted) return true;
  return false;
}

// Of mutants.so.
const std::vector<Expected>& mutant_expectations() {
  static const std::vector<Expected> all = {
      {"mutant_dropped_key", kDense},
      {"mutant_doubled_key", kDense},
      {"mutant_dropped_tile", kDense, 197},
      {"mutant_doubled_tile", kDense, 197},
      {"mutant_swapped_tiles", kDense, 197},
      {"mutant_tile_off_by_one", kDense, 197},
      {"mutant_value_off_by_one", kDense},
      {"mutant_key_tail", kDense},
      {"mutant_padding_counted", "plain"},
      {"mutant_query_tail", kDense},
      {"mutant_last_row", kDense},
      {"mutant_rare_row", kDense, 1021},
      {"mutant_channel_tail", "window gqa"},
      {"mutant_value_tail", "window gqa"},
      {"mutant_swapped_heads", kDense},
      {"mutant_head_off_by_one", "plain causal gqa"},
      {"mutant_batch_off_by_one", "gqa"},
      {"mutant_gqa_tiled", "gqa"},
      {"mutant_head_dim_v_stride", "gqa"},
      {"mutant_window_left_exclusive", "window"},
      {"mutant_window_right_exclusive", "window"},
      {"mutant_causal_off_by_one", "causal"},
      {"mutant_causal_top_left", "causal varlen"},
      {"mutant_causal_top_left", "alibi", 61, "random"},
      {"mutant_causal_local_row", "causal window", 197},
      {"mutant_diagonal_offset_ignored", "empty_rows"},
      {"mutant_diagonal_clamped", "empty_rows"},
      {"mutant_diagonal_of_longest", "varlen"},
      {"mutant_mask_inverted", "mask", 61, "random"},
      {"mutant_mask_head_as_batch", "mask", 61, "random"},
      {"mutant_mask_finite", "mask", 61, "random"},
      {"mutant_bias_transposed", "bias", 61, "random"},
      {"mutant_bias_inf_as_zero", "bias", 61, "random"},
      {"mutant_softcap_after_bias", "bias", 61, "random"},
      {"mutant_softcap_before_scale", "bias", 61, "random"},
      {"mutant_alibi_sign", "alibi", 61, "random"},
      {"mutant_alibi_top_left", "alibi", 61, "random"},
      {"mutant_alibi_head_0", "alibi", 61, "random"},
      {"mutant_sink_dropped", "sinks"},
      {"mutant_sink_of_next_head", "sinks"},
      {"mutant_sink_from_zero", "sinks", 61, "random"},
      {"mutant_max_without_sink", "sinks capped_sinks", 61, "huge"},
      {"mutant_max_of_sink", "sinks", 61, "huge"},
      {"mutant_max_of_sink", "capped_sinks", 61, "wild"},
      {"mutant_wrong_scale", kDense},
      {"mutant_scale_twice", kDense},
      {"mutant_scale_forgotten", kDense},
      {"mutant_coarse_exp", kDense},
      {"mutant_exp_of_15_bits", "plain causal gqa", 61, "cancelling"},
      {"mutant_probability_bf16", kDense},
      {"mutant_accumulator_f16", kDense, 197},
      {"mutant_score_f16", kDense},
      {"mutant_score_overflow", kDense, 61, "huge"},
      {"mutant_operand_bf16", kDense, 61, "codebook", "f32 f16"},
      {"mutant_output_truncated", "plain", 61, "codebook", "f16 bf16"},
      {"mutant_sum_not_rescaled", kDense, 197},
      {"mutant_total_not_rescaled", kDense, 197},
      {"mutant_max_from_minus_1e4", kDense, 61, "huge"},
      {"mutant_no_max", kDense, 61, "huge"},
      {"mutant_lse_base_2", kDense},
      {"mutant_lse_without_max", kDense},
      {"mutant_empty_row_nan", "empty_rows seq_lens", 61, "random"},
      {"mutant_hidden_leaks", "empty_rows mask", 61, "huge"},
      {"mutant_hidden_leaks", "seq_lens", 61, nullptr, kAll,
       "its leak is of masked keys, and a length masks none"},
      {"mutant_zeros", kDense},
      {"mutant_cu_seqlens_off_by_one", "varlen"},
      {"mutant_keys_of_queries", "varlen"},
      {"mutant_empty_sequence_row", "varlen"},
      {"mutant_last_sequence", "varlen"},
      {"mutant_seq_lens_ignored", "seq_lens pages"},
      {"mutant_page_table_ignored", "pages"},
      {"mutant_page_offset", "pages"},
      {"mutant_order_of_output", "patches"},
      {"mutant_patch_not_filled", "patches"},
      {"mutant_shift_sign", "grid", 61, "random"},
      {"mutant_shift_bias_missing", "grid", 61, "random"},
      {"mutant_rel_bias_mirrored", "grid", 61, "random"},
      {"mutant_index_32", "far_keys", 61, "random"},
      {"mutant_grid_of_65535", "many_heads", 61, "random"},
      {"mutant_head_16_bit", "many_heads", 61, "random"},
      {"mutant_query_tile_16_bit", "many_queries"},
      {"mutant_query_row_16_bit", "many_packed_queries", 61, "random"},
      {"mutant_key_row_16_bit", "many_packed_keys", 61, "random"},
      {"mutant_page_8_bit", "many_pages", 61, "random"},
      {"mutant_page_16_bit", "many_pages", 61, "random"},
      {"mutant_race", kDense, 197},
      {"mutant_linear_eps_forgotten", "linear_masked", 61, "random"},
      {"mutant_linear_eps_forgotten", "linear", 61, "faint"},
      {"mutant_linear_eps_per_channel", "linear_masked", 61, "random"},
      {"mutant_linear_eps_per_channel", "linear", 61, "faint"},
      {"mutant_linear_phi_without_one", "linear linear_masked", 61, "random"},
      {"mutant_linear_phi_relu", "linear linear_masked", 61, "random"},
      {"mutant_linear_phi_cut", "linear linear_masked", 61, "faint"},
      {"mutant_linear_phi_cut_10", "linear linear_masked", 61, "faint"},
      {"mutant_linear_phi_cut_12", "linear linear_masked", 61, "faint"},
      {"mutant_linear_exp_off", "linear linear_masked", 16411, nullptr, "f16 bf16",
       "among so many keys the rounding of the output hides it"},
      {"mutant_linear_exp_off", "linear linear_masked", 61, "faint"},
      {"mutant_linear_mask_of_values_only", "linear_masked", 61, "random"},
      {"mutant_linear_mask_inverted", "linear_masked", 61, "random"},
      {"mutant_linear_query_mask_ignored", "linear_masked", 61, "random"},
      {"mutant_linear_dropped_key", "linear", 61, "random"},
      {"mutant_linear_doubled_key", "linear", 61, "random"},
      {"mutant_linear_dropped_chunk", "linear linear_masked", 197, "random"},
      {"mutant_linear_stops_at_hidden", "linear_masked", 61, "faint"},
      {"mutant_linear_sum_f16", "linear linear_masked", 61, "random"},
      {"mutant_linear_gqa_tiled", "linear", 61, "random"},
      {"mutant_linear_hidden_leaks", "linear_masked", 61, nullptr, kAll,
       "no fill hides Inf or NaN"},
      {"mutant_linear_channel_tail", "linear", 61, "random"},
      {"mutant_linear_nan_as_zero", "linear", 61, "wild"},
      {"mutant_linear_nan_value_zero", "linear", 61, "wild"},
      {"mutant_linear_nan_tail", "linear", 61, "wild"},
      {"mutant_linear_phi_of_both", "linear linear_masked", 61, "large"},
      {"mutant_linear_phi_capped", "linear linear_masked", 61, "large"},
      {"mutant_linear_value_cut", "linear linear_masked", 61, "large"},
      {"mutant_linear_eps_fixed", "linear_masked", 61, "faint"},
      {"mutant_deformable_swapped_xy", "deformable deformable_aligned", 61, "random"},
      {"mutant_deformable_other_corners", "deformable deformable_aligned", 61, "random"},
      {"mutant_deformable_no_half_pixel", "deformable", 61, "random"},
      {"mutant_deformable_border", "deformable deformable_aligned", 61, "borders"},
      {"mutant_deformable_level_offset", "deformable", 61, "alone"},
      {"mutant_deformable_next_weight", "deformable deformable_aligned", 61, "random"},
      {"mutant_deformable_weights_turned", "deformable", 61, "alone"},
      {"mutant_deformable_truncated", "deformable deformable_aligned", 61, "borders"},
      {"mutant_deformable_last_row", "deformable deformable_aligned", 61, "borders"},
      {"mutant_deformable_last_column", "deformable deformable_aligned", 61, "borders"},
      {"mutant_deformable_turned_level", "deformable deformable_aligned", 61, "random"},
      {"mutant_deformable_channel_tail", "deformable deformable_aligned", 61, "random"},
      {"mutant_deformable_sum_f16", "deformable deformable_aligned", 61, "cancelling"},
      {"mutant_deformable_location_f16", "deformable deformable_aligned", 61, "cancelling", "f32"},
      {"mutant_deformable_wrap_32", "deformable deformable_aligned", 61, "far", "f32 bf16"},
      {"mutant_deformable_nan_location", "deformable deformable_aligned", 61, "wild"},
      {"mutant_deformable_outside_times_zero", "deformable deformable_aligned", 61, "wild"},
      {"mutant_deformable_outside_clamped", "deformable deformable_aligned", 61, "wild"},
      {"mutant_deformable_nan_pixel_zero", "deformable deformable_aligned", 61, "wild"},
      {"mutant_deformable_nan_inner_level", "deformable_levels", 61, "wild"},
      {"mutant_deformable_beyond_level", "deformable_levels", 61, "wild"},
      {"mutant_deformable_nan_weight_zero", "deformable deformable_aligned", 61, "wild"},
      {"mutant_deformable_weight_cut", "deformable deformable_aligned", 61, "borders"},
      {"mutant_deformable_small_weight", "deformable deformable_aligned", 61, "borders"},
      {"mutant_deformable_value_cut", "deformable deformable_aligned", 61, "borders"},
      {"mutant_deformable_one_pixel", "deformable_aligned", 61, "random"},
      {"mutant_deformable_nearest_row", "deformable deformable_aligned", 61, "borders"},
  };
  return all;
}

std::string first_word(const char* words) {
  std::istringstream stream(words);
  std::string word;
  stream >> word;
  return word;
}

}  // namespace

const std::vector<Expected>& expectations() {
  static const std::vector<Expected> all = [] {
    std::vector<Expected> rows = mutant_expectations();
    for (const Expected& row : step_expectations()) rows.push_back(row);
    return rows;
  }();
  return all;
}

MutantCase smallest_case(const Expected& row) {
  return make_case(family(first_word(row.families)), row.from, first_word(row.dtypes));
}

const Expected* expected(const std::string& mutant, const MutantCase& wanted) {
  for (const Expected& row : expectations())
    if (row.mutant == mutant && has_word(row.families, wanted.family->name) &&
        wanted.tokens >= row.from && has_word(row.dtypes, wanted.dtype))
      return &row;
  return nullptr;
}

bool concerns(const std::string& mutant, const Family& family) {
  return std::any_of(expectations().begin(), expectations().end(), [&](const Expected& row) {
    return row.mutant == mutant && has_word(row.families, family.name);
  });
}

}  // namespace attest::testing
