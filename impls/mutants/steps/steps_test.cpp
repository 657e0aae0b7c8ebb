// Each bug of steps.so is one: on an input made for it by hand it is far from float64, and the
// healthy twin with its tile size is not.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "mutants/steps/steps.hpp"
#include "simd/testing/trial.hpp"

namespace {

using trial::Trial;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kHeadDim = 16, kWholeTiles = 6, kTail = 5;

/// One head; the logit of a key is the same for all queries, its value for all channels.
struct Input {
  int64_t queries = 1, keys;
  std::function<double(int64_t)> logit = [](int64_t) { return 0.0; };
  std::function<double(int64_t)> value;
  std::function<double(int64_t, int64_t)> bias = nullptr;  // of a pair; -inf hides it
  double query = 1;
  float scale = 1, softcap = 0;
  double least_error = 100;  // that the bug makes, as error_of counts
};

/// Unlike in every tile, largest in the second one.
double value_of(int64_t j, int64_t tile) {
  return static_cast<double>(j % 7 + 10 * (j / tile) + (j / tile == 1 ? 100 : 0));
}

using Made = std::function<void(Input&, int64_t tile, int64_t lanes)>;

Made rise(double by, const std::function<int64_t(int64_t tile)>& from) {
  return [=](Input& input, int64_t tile, int64_t) {
    input.logit = [by, first = from(tile)](int64_t j) { return j >= first ? by : 0.0; };
  };
}
Made rise_in_tile(double by, int64_t n) {
  return rise(by, [n](int64_t tile) { return n * tile; });
}
/// Key 0 has nearly all weight and no value: what is left is made of keys that lie `gap` below it.
Made gap(double by) {
  return [=](Input& input, int64_t, int64_t) {
    input.logit = [by](int64_t j) { return j == 0 ? by : 0.0; };
    input.value = [](int64_t j) { return j == 0 ? 0.0 : 1.0; };
  };
}
/// The last lane of a group of the second tile stands alone.
Made lane(double by) {
  return [=](Input& input, int64_t tile, int64_t lanes) {
    input.logit = [by, at = tile + lanes - 1](int64_t j) { return j == at ? by : 0.0; };
  };
}
/// Pairs for which `hides(row, key less the second tile's first, tile, lanes)` are hidden.
using Hides = std::function<bool(int64_t i, int64_t j, int64_t tile, int64_t lanes)>;
Made hidden(const Hides& hides, double from_there = 3) {
  return [=](Input& input, int64_t tile, int64_t lanes) {
    input.queries = std::max<int64_t>(lanes, 2);
    input.logit = [=](int64_t j) { return j >= tile ? from_there : 0.0; };
    input.bias = [=](int64_t i, int64_t j) {
      return hides(i, j - tile, tile, lanes) ? -trial::kInfinity : 0.0;
    };
  };
}
/// Of the first tile, and of all others.
/// float32 adds such biases with an error of 2^-9 from 32,768 on, and of 2^-4 from 1e6 on.
Made biases(double first, double others, double least_error = 30) {
  return [=](Input& input, int64_t tile, int64_t) {
    input.bias = [=](int64_t, int64_t j) { return j < tile ? first : others; };
    input.least_error = least_error;
  };
}
bool in_tile(int64_t j, int64_t tile) { return j >= 0 && j < tile; }
/// Of the first tile, and of all others. float32 adds large ones with an error: a bug's is at least
/// `least_error`.
Made scores(double first, double others, double least_error = 100) {
  return [=](Input& input, int64_t tile, int64_t) {
    input.logit = [=](int64_t j) { return j < tile ? first : others; };
    input.least_error = least_error;
  };
}
/// Of every other key, the first one included, and of all others.
Made scores_by_turns(double even, double odd) {
  return [=](Input& input, int64_t, int64_t) {
    input.logit = [=](int64_t j) { return j % 2 == 0 ? even : odd; };
  };
}
Made score(double of_one) {
  return [=](Input& input, int64_t tile, int64_t) {
    input.logit = [=](int64_t j) { return j == tile + 1 ? of_one : 0.0; };
  };
}
Made value(double of_one) {
  return [=](Input& input, int64_t tile, int64_t) {
    input.value = [=](int64_t j) { return j == tile + 1 ? of_one : 0.0; };
  };
}
/// At one key of the first or of the last tile, which is short.
int64_t in_end(const Input& input, bool first) { return first ? 1 : input.keys - 2; }
Made score_in_end(double of_one, bool first) {
  return [=](Input& input, int64_t, int64_t) {
    input.logit = [of_one, at = in_end(input, first)](int64_t j) { return j == at ? of_one : 0.0; };
  };
}
Made value_in_end(double of_one, bool first) {
  return [=](Input& input, int64_t, int64_t) {
    input.value = [of_one, at = in_end(input, first)](int64_t j) { return j == at ? of_one : 0.0; };
  };
}
void sum_beyond_half(Input& input, int64_t, int64_t) { input.keys = 70001; }

/// By the planted bug's word, without what part forgets: "sum_", "total_", "both_".
const std::map<std::string, Made>& inputs() {
  const auto tail = [](int64_t tile) { return kWholeTiles * tile; };
  const auto at_row = [](int64_t of_block) {  // counted from the block's first row, or its last
    return [=](int64_t i, int64_t j, int64_t tile, int64_t rows) {
      return in_tile(j, tile) && i == (of_block + rows) % rows;
    };
  };
  static const std::map<std::string, Made> all = {
      {"kept_last_tile", rise_in_tile(5, kWholeTiles - 1)},
      {"kept_short_tail", rise(5, tail)},
      {"kept_second_tile", rise_in_tile(5, 1)},
      {"kept_middle_tile", rise_in_tile(5, kWholeTiles / 2)},
      {"kept_rise_64", rise_in_tile(70, 1)},
      {"kept_flushed", rise_in_tile(100, 1)},
      {"kept_rise_2", rise_in_tile(1, 1)},
      {"kept_25th_rise",
       [](Input& input, int64_t tile, int64_t) {
         input.keys = 30 * tile + kTail;
         input.logit = [tile](int64_t j) { return 0.5 * static_cast<double>(j / tile); };
       }},
      {"max_of_first_tile", rise_in_tile(100, 1)},
      {"max_of_first_tile_half", rise_in_tile(20, 1)},
      {"max_of_16", lane(100)},
      {"max_of_32", lane(100)},
      {"max_of_8", lane(100)},
      {"max_of_16_half", lane(20)},
      {"max_without_tail", rise(100, tail)},
      {"max_without_tail_half", rise(20, tail)},
      {"max_of_padding", rise_in_tile(-200, 0)},
      {"weights_from_e16", gap(17)},
      {"weights_normal_in_half", gap(11)},
      {"tiles_from_1e6", gap(17)},
      {"scores_from_20", gap(30)},
      {"skip_by_first_row", hidden(at_row(0))},
      {"skip_by_last_row", hidden(at_row(-1))},
      {"skip_by_first_key", hidden([](int64_t, int64_t j, int64_t, int64_t) { return j == 0; })},
      {"skip_by_ends",
       hidden([](int64_t, int64_t j, int64_t tile, int64_t) { return j == 0 || j == tile - 1; })},
      {"skip_but_first",
       hidden([](int64_t, int64_t j, int64_t tile, int64_t) { return j > 0 && j < tile; })},
      {"skip_but_last",
       hidden([](int64_t, int64_t j, int64_t tile, int64_t) { return j >= 0 && j < tile - 1; })},
      {"terms_of_first_row",
       hidden([](int64_t i, int64_t j, int64_t, int64_t) { return i == 0 && j == 3; })},
      {"empty_by_first_tile", hidden([](int64_t, int64_t j, int64_t, int64_t) { return j < 0; })},
      {"keeps_after_hidden",
       hidden([](int64_t, int64_t j, int64_t tile, int64_t) { return in_tile(j, tile); })},
      {"restarts_after_hidden",
       hidden([](int64_t, int64_t j, int64_t tile, int64_t) { return in_tile(j, tile); }, 0)},
      {"run_ends",
       hidden([](int64_t, int64_t j, int64_t, int64_t run) { return j > 0 && j <= run; })},
      {"hidden_weigh_one", hidden([](int64_t i, int64_t, int64_t, int64_t) { return i == 1; })},
      {"hidden_max_zero", hidden([](int64_t, int64_t j, int64_t, int64_t) { return j < 0; }, -200)},
      {"nan_score_dropped", score(kNan)},
      {"inf_score_hidden", score(trial::kInfinity)},
      {"nan_value_zero", value(kNan)},
      {"nan_row_zero", score(kNan)},
      {"nan_bias_zero",
       [](Input& input, int64_t tile, int64_t) {
         input.bias = [tile](int64_t, int64_t j) { return j == tile ? kNan : 0.0; };
       }},
      {"nan_score_dropped_first_tile", score_in_end(kNan, true)},
      {"nan_score_dropped_last_tile", score_in_end(kNan, false)},
      {"nan_score_dropped_inner_tile", score(kNan)},
      {"inf_score_hidden_first_tile", score_in_end(trial::kInfinity, true)},
      {"inf_score_hidden_last_tile", score_in_end(trial::kInfinity, false)},
      {"minus_inf_score_nan_first_tile", score_in_end(-trial::kInfinity, true)},
      {"minus_inf_score_nan_last_tile", score_in_end(-trial::kInfinity, false)},
      {"nan_value_zero_first_tile", value_in_end(kNan, true)},
      {"nan_value_zero_last_tile", value_in_end(kNan, false)},
      {"nan_value_zero_inner_tile", value(kNan)},
      {"inf_value_cut_first_tile", value_in_end(trial::kInfinity, true)},
      {"inf_value_cut_last_tile", value_in_end(trial::kInfinity, false)},
      {"normaliser_to_65504", sum_beyond_half},
      {"f16_normaliser", sum_beyond_half},
      {"f16_normaliser_saturated", sum_beyond_half},
      {"f16_normaliser_tiles", sum_beyond_half},
      {"bf16_normaliser_tiles", sum_beyond_half},
      {"values_to_6", value(2000)},
      {"values_to_448", value(2000)},
      {"values_to_1000", value(2000)},
      {"scores_to_50", scores(70, 80)},
      {"scores_to_64", scores(70, 80)},
      {"scores_to_40000", scores(110000, 120000, 2)},
      {"scores_to_65504", scores(110000, 120000, 2)},
      {"scores_to_100000", scores(110000, 120000, 2)},
      {"scores_raised_to_minus_40000", scores(-110000, -120000, 2)},
      {"scores_raised_to_minus_65504", scores(-110000, -120000, 2)},
      {"scores_raised_to_minus_100000", scores(-110000, -120000, 2)},
      {"dots_to_65504",
       [](Input& input, int64_t tile, int64_t) {  // q.k of 80,000 and 70,000
         input.scale = 0x1p-10f;
         input.logit = [tile](int64_t j) { return (j < tile ? 80000 : 70000) * 0x1p-10; };
       }},
  };
  return all;
}

/// The same, for bugs that show where finite biases hide.
const std::map<std::string, Made>& inputs_of_biases() {
  static const std::map<std::string, Made> all = {
      {"bias_hides_from_minus_1e4", biases(-40960, -40960)},
      {"bias_to_minus_1e4", biases(-40704, -40960)},
      {"max_from_minus_32768", biases(-40960, -40960)},
      {"bias_hides_from_minus_65504", biases(-70000, -70000, 15)},
      {"bias_hides_from_minus_1e6", biases(-1.05e6, -1.05e6, 1)},
      {"bias_to_minus_65504", biases(-70000, -71000, 15)},
      {"bias_in_f16", biases(-70000, -70000, 15)},
      {"max_from_minus_65504", biases(-70000, -70000, 15)},
      {"max_from_minus_1e6", biases(-1.05e6, -1.05e6, 1)},
      {"bias_overflows_in_base_2", biases(std::numeric_limits<float>::lowest(), 0)},
  };
  return all;
}

/// The same, for bugs that show where an operand has subnormal numbers of f16.
const std::map<std::string, Made>& inputs_of_subnormals() {
  const auto query = [](double of_all) {
    return [=](Input& input, int64_t tile, int64_t) {
      input.query = of_all;
      input.logit = [tile](int64_t j) { return j < tile ? 0.5 : -0.5; };
    };
  };
  static const std::map<std::string, Made> all = {
      {"queries_flushed", query(0x1p-15)},
      {"keys_flushed", query(0x1p14)},
      {"values_flushed",
       [](Input& input, int64_t, int64_t) { input.value = [](int64_t) { return 0x1p-15; }; }},
  };
  return all;
}

/// The same, for bugs that show where scores are far apart.
const std::map<std::string, Made>& inputs_far_apart() {
  static const std::map<std::string, Made> all = {
      {"kept_rise_200", rise_in_tile(300, 1)},
      {"kept_rise_2000", scores(0, 3000, 5)},
      {"max_lags_12_half", rise_in_tile(11.5, 1)},
      {"least_of_negative", scores_by_turns(-10, -200)},
      {"far_weigh_from_1000", gap(2000)},
      {"far_weigh_from_20000", gap(30000)},
      {"exponent_wraps", gap(30000)},
  };
  return all;
}

/// The same, for bugs that only a softcap has.
const std::map<std::string, Made>& inputs_with_softcap() {
  static const std::map<std::string, Made> all = {
      {"nan_score_capped", score(kNan)},
      {"nan_score_capped_first_tile", score_in_end(kNan, true)},
      {"nan_score_capped_last_tile", score_in_end(kNan, false)},
      {"softcap_overflows", score(400)},
      {"tanh_flat_from_4", scores(16.25, 32, 10)},
  };
  return all;
}

/// Returns whether there is one.
bool make_input(const std::string& word, const steps::Variant& variant, Input& input) {
  for (const auto* known : {&inputs(), &inputs_of_biases(), &inputs_of_subnormals(),
                            &inputs_far_apart(), &inputs_with_softcap()}) {
    const auto found = known->find(word);
    if (found == known->end()) continue;
    found->second(input, variant.tile, variant.lanes);
    input.softcap = known == &inputs_with_softcap() ? 4 : 0;
    return true;
  }
  return false;
}

Trial made(const Input& input) {
  Trial t;
  attest_softmax_params& p = t.softmax();
  p.struct_size = sizeof p;
  p.batch = p.num_heads = p.num_kv_heads = 1;
  p.seq_len_q = input.queries;
  p.seq_len_kv = input.keys;
  p.head_dim = p.head_dim_v = kHeadDim;
  p.window_left = p.window_right = -1;
  p.softmax_scale = input.scale;
  p.softcap = input.softcap;
  if (input.softcap > 0) t.features |= ATTEST_WITH_SOFTCAP;
  for (const int role : {ATTEST_Q, ATTEST_O})
    t.tensor[role] = trial::make(ATTEST_F32, {1, 1, input.queries, kHeadDim});
  for (const int role : {ATTEST_K, ATTEST_V})
    t.tensor[role] = trial::make(ATTEST_F32, {1, 1, input.keys, kHeadDim});
  for (int64_t i = 0; i < input.queries; ++i) t.tensor[ATTEST_Q].set(i * kHeadDim, input.query);
  for (int64_t j = 0; j < input.keys; ++j) {
    t.tensor[ATTEST_K].set(j * kHeadDim, input.logit(j) / input.query / input.scale);
    for (int64_t d = 0; d < kHeadDim; ++d) t.tensor[ATTEST_V].set(j * kHeadDim + d, input.value(j));
  }
  if (!input.bias) return t;
  t.features |= ATTEST_WITH_BIAS;
  trial::Tensor& bias = t.tensor[ATTEST_BIAS] =
      trial::make(ATTEST_F32, {1, 1, input.queries, input.keys});
  for (int64_t i = 0; i < input.queries; ++i)
    for (int64_t j = 0; j < input.keys; ++j) bias.set(i * input.keys + j, input.bias(i, j));
  return t;
}

/// The error of a table on an input, as a share of what float32 may err; above 1 it is wrong.
double error_of(const attest_impl& impl, const Input& input) {
  Trial t = made(input);
  if (trial::execute(impl, t).status != ATTEST_OK) return kNan;
  return trial::judge_softmax(t);
}

std::string without_part(std::string word) {
  for (const std::string part : {"sum_", "total_", "both_"})
    if (word.rfind(part + "kept", 0) == 0) return word.substr(part.size());
  return word;
}

TEST(Steps, EachBugIsWrongOnItsInputAndItsTwinIsNot) {
  void* library = dlopen((ATTEST_BINARY_DIR "/tests/plugins/steps.so"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  void* symbol = dlsym(library, "attest_plugin_v1");
  const auto table = reinterpret_cast<const attest_impl* (*)(size_t)>(symbol);
  std::map<int32_t, const attest_impl*> twins;  // by tile size
  for (size_t n = 0; n < steps::kTables; ++n) {
    const steps::Step& step = steps::kSteps[n];
    const int32_t tile = step.variant.tile;
    if (step.planted->bug == steps::Bug::kNone) {
      twins[tile] = table(n);
      continue;
    }
    SCOPED_TRACE(table(n)->name);
    Input input{.keys = kWholeTiles * tile + kTail,
                .value = [tile](int64_t j) { return value_of(j, tile); }};
    ASSERT_TRUE(make_input(without_part(step.planted->word), step.variant, input))
        << "has no input";
    EXPECT_LE(error_of(*twins.at(tile), input), 1);
    EXPECT_GT(error_of(*table(n), input), input.least_error);
  }
  EXPECT_EQ(table(steps::kTables), nullptr);
}

}  // namespace
