// The planted bugs of steps: each shows only where the inputs make a step of a tiled online softmax
// happen. Tile sizes, lanes and blocks of rows are those that kernels have.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace steps {

enum class Bug {
  kNone,
  // The rescale of what is summed so far is forgotten ...
  kRescaleLastTile,
  kRescaleShortTail,
  kRescaleSecondTile,
  kRescaleMiddleTile,
  kRescaleLargeRise,
  kRescaleFlushed,
  kRescaleSmallRise,
  kRescale25thRise,
  // The maximum that is subtracted leaves keys out, or takes some in that are none.
  kMaxOfFirstTile,
  kMaxOfLanes,
  kMaxWithoutTail,
  kMaxOfPadding,
  // Small weights that count.
  kWeightsCut,
  kTilesCut,
  kScoresFrom,
  // Tiles that are hidden as a whole, or taken for it.
  kSkipByFirstRow,
  kSkipByLastRow,
  kSkipByFirstKey,
  kSkipByEnds,
  kSkipButFirst,
  kSkipButLast,
  kTermsOfFirstRow,
  kEmptyByFirstTile,
  kKeepsAfterHidden,
  kRestartsAfterHidden,
  kRunEnds,
  kHiddenWeighOne,
  kHiddenMaxZero,
  // NaN and Inf that a row sees.
  kNanScoreDropped,
  kInfScoreHidden,
  kNanValueZero,
  kNanRowZero,
  kNanBiasZero,
  // The range and roundings of the normaliser.
  kNormaliserStops,
  kNormaliserF16,
  kNormaliserF16Saturated,
  kNormaliserF16Tiles,
  kNormaliserBf16Tiles,
  // Clipped.
  kValuesTo,
  kScoresTo,
  kDotsTo,
};

/// What a forgotten rescale leaves as it is.
enum class Part { kSum, kTotal, kBoth };

/// One implementation each: step_<word>_t<tile>, with _l<lanes> behind it where lanes matter.
struct Variant {
  int32_t tile;       // keys of a tile: a multiple of 16, at most kLargestTile; 0: none
  int32_t lanes = 0;  // lanes of a group, rows of a block, keys of a run
};
constexpr int32_t kLargestTile = 256;

struct Planted {
  const char* word;
  Bug bug;
  std::array<Variant, 5> variants;
  const char* summary;
  float limit = 0;  // what the summary counts in: a rise, a weight, a value
  Part part = Part::kSum;
  float largest_weight = 0;  // a weight beyond is infinite, as in f16; 0: none is
};

constexpr Part kTotal = Part::kTotal, kBoth = Part::kBoth;
constexpr float kE16 = 1.12535175e-7f;  // e^-16
constexpr float kLargestHalf = 65504;

// The first one is the healthy twin of all others, tile size by tile size.
constexpr Planted kPlanted[] = {
    {"none", Bug::kNone, {{{64}, {16}, {32}, {128}, {256}}}, "tiled online softmax, healthy"},

    {"sum_kept_last_tile",
     Bug::kRescaleLastTile,
     {{{16}}},
     "the last whole tile does not rescale the sum"},
    {"total_kept_last_tile",
     Bug::kRescaleLastTile,
     {{{64}}},
     "the last whole tile does not rescale the normaliser",
     0,
     kTotal},
    {"both_kept_last_tile",
     Bug::kRescaleLastTile,
     {{{256}}},
     "the last whole tile rescales nothing",
     0,
     kBoth},
    {"sum_kept_short_tail",
     Bug::kRescaleShortTail,
     {{{256}}},
     "the short last tile does not rescale the sum"},
    {"total_kept_short_tail",
     Bug::kRescaleShortTail,
     {{{32}}},
     "the short last tile does not rescale the normaliser",
     0,
     kTotal},
    {"both_kept_short_tail",
     Bug::kRescaleShortTail,
     {{{64}}},
     "the short last tile rescales nothing",
     0,
     kBoth},
    {"sum_kept_second_tile",
     Bug::kRescaleSecondTile,
     {{{64}}},
     "the second tile does not rescale the sum"},
    {"total_kept_second_tile",
     Bug::kRescaleSecondTile,
     {{{256}}},
     "the second tile does not rescale the normaliser",
     0,
     kTotal},
    {"sum_kept_middle_tile",
     Bug::kRescaleMiddleTile,
     {{{128}}},
     "the middle tile does not rescale the sum"},
    {"total_kept_middle_tile",
     Bug::kRescaleMiddleTile,
     {{{16}}},
     "the middle tile does not rescale the normaliser",
     0,
     kTotal},
    {"both_kept_middle_tile",
     Bug::kRescaleMiddleTile,
     {{{64}}},
     "the middle tile rescales nothing",
     0,
     kBoth},
    {"sum_kept_rise_64",
     Bug::kRescaleLargeRise,
     {{{64}}},
     "a rise beyond 64 does not rescale the sum",
     64},
    {"both_kept_rise_64",
     Bug::kRescaleLargeRise,
     {{{128}}},
     "a rise beyond 64 rescales nothing",
     64,
     kBoth},
    {"sum_kept_flushed",
     Bug::kRescaleFlushed,
     {{{32}}},
     "a rise whose exp is flushed to 0 does not rescale the sum"},
    {"both_kept_flushed",
     Bug::kRescaleFlushed,
     {{{64}}},
     "a rise whose exp is flushed to 0 rescales nothing",
     0,
     kBoth},
    {"total_kept_rise_2",
     Bug::kRescaleSmallRise,
     {{{64}}},
     "a rise below 2 does not rescale the normaliser",
     2,
     kTotal},
    {"both_kept_rise_2",
     Bug::kRescaleSmallRise,
     {{{32}}},
     "a rise below 2 rescales nothing",
     2,
     kBoth},
    {"sum_kept_25th_rise",
     Bug::kRescale25thRise,
     {{{16}}},
     "a row's 25th rise does not rescale the sum",
     25},
    {"both_kept_25th_rise",
     Bug::kRescale25thRise,
     {{{64}}},
     "a row's 25th rise rescales nothing",
     25,
     kBoth},

    {"max_of_first_tile",
     Bug::kMaxOfFirstTile,
     {{{16}, {64}}},
     "the maximum is that of a row's first tile"},
    {"max_of_first_tile_half",
     Bug::kMaxOfFirstTile,
     {{{256}}},
     "the maximum is that of a row's first tile; weights overflow at 65504",
     0,
     {},
     kLargestHalf},
    {"max_of_16", Bug::kMaxOfLanes, {{{64, 64}}}, "the maximum of 16 lanes of 64", 16},
    {"max_of_32", Bug::kMaxOfLanes, {{{128, 64}}}, "the maximum of 32 lanes of 64", 32},
    {"max_of_8", Bug::kMaxOfLanes, {{{16, 16}}}, "the maximum of 8 lanes of 16", 8},
    {"max_of_16_half",
     Bug::kMaxOfLanes,
     {{{64, 32}}},
     "the maximum of 16 lanes of 32, and weights overflow at 65504",
     16,
     {},
     kLargestHalf},
    {"max_without_tail",
     Bug::kMaxWithoutTail,
     {{{64}}},
     "the short last tile does not raise the maximum"},
    {"max_without_tail_half",
     Bug::kMaxWithoutTail,
     {{{256}}},
     "the short last tile does not raise the maximum; weights overflow at 65504",
     0,
     {},
     kLargestHalf},
    {"max_of_padding",
     Bug::kMaxOfPadding,
     {{{32}, {256}}},
     "zeros of the last tile's padding raise the maximum"},

    {"weights_from_e16",
     Bug::kWeightsCut,
     {{{64}, {256}}},
     "weights below e^-16 of the largest so far are 0",
     kE16},
    {"weights_normal_in_half",
     Bug::kWeightsCut,
     {{{32}, {128}}},
     "weights below 2^-14 of the largest so far are 0, undeclared",
     0x1p-14f},
    {"tiles_from_1e6",
     Bug::kTilesCut,
     {{{16}, {128}}},
     "tiles whose largest weight is below 1e-6 are left out",
     1e-6f},
    {"scores_from_20",
     Bug::kScoresFrom,
     {{{64}}},
     "keys that lie 20 and more below the maximum weigh e^-20",
     -20},

    {"skip_by_first_row",
     Bug::kSkipByFirstRow,
     {{{64, 16}, {128, 128}}},
     "a block of rows skips a tile that its first row does not see"},
    {"skip_by_last_row",
     Bug::kSkipByLastRow,
     {{{16, 16}, {64, 64}}},
     "a block of rows skips a tile that its last row does not see"},
    {"skip_by_first_key",
     Bug::kSkipByFirstKey,
     {{{32}, {256}}},
     "a row skips a tile whose first key it does not see"},
    {"skip_by_ends",
     Bug::kSkipByEnds,
     {{{64}, {128}}},
     "a row skips a tile whose first and last key it does not see"},
    {"skip_but_first",
     Bug::kSkipButFirst,
     {{{128}}},
     "a row skips a tile of which it sees the first key alone"},
    {"skip_but_last",
     Bug::kSkipButLast,
     {{{16}, {64}}},
     "a row skips a tile of which it sees the last key alone"},
    {"terms_of_first_row",
     Bug::kTermsOfFirstRow,
     {{{64, 16}, {64, 64}}},
     "a block of rows has mask and bias of its first row"},
    {"empty_by_first_tile",
     Bug::kEmptyByFirstTile,
     {{{16}, {64}}},
     "a row whose first tile is hidden sees nothing"},
    {"keeps_after_hidden",
     Bug::kKeepsAfterHidden,
     {{{64}}},
     "the tile after a hidden one rescales nothing",
     0,
     kBoth},
    {"restarts_after_hidden",
     Bug::kRestartsAfterHidden,
     {{{32}, {128}}},
     "after a hidden tile the maximum starts anew"},
    {"run_ends",
     Bug::kRunEnds,
     {{{64, 16}, {64, 64}}},
     "so many hidden keys in a row end the sequence"},
    {"hidden_weigh_one",
     Bug::kHiddenWeighOne,
     {{{64}}},
     "-inf less -inf is taken for 0; in rows that see nothing"},
    {"hidden_max_zero",
     Bug::kHiddenMaxZero,
     {{{64}}},
     "the maximum of a hidden tile is taken for 0"},

    {"nan_score_dropped",
     Bug::kNanScoreDropped,
     {{{16}, {64}}},
     "a key whose score is NaN is left out"},
    {"inf_score_hidden", Bug::kInfScoreHidden, {{{64}}}, "a key whose score is Inf is left out"},
    {"nan_value_zero", Bug::kNanValueZero, {{{64}}}, "NaN in V is 0"},
    {"nan_row_zero", Bug::kNanRowZero, {{{64}}}, "a row whose normaliser is NaN is 0"},
    {"nan_bias_zero", Bug::kNanBiasZero, {{{64}}}, "NaN in the bias is 0"},

    {"normaliser_to_65504",
     Bug::kNormaliserStops,
     {{{64}}},
     "the normaliser stops at 65504",
     kLargestHalf},
    {"f16_normaliser",
     Bug::kNormaliserF16,
     {{{64}}},
     "the normaliser is stored in f16, infinite from 65520 on"},
    {"f16_normaliser_saturated",
     Bug::kNormaliserF16Saturated,
     {{{64}}},
     "the normaliser is stored in f16, which stops at 65504"},
    {"f16_normaliser_tiles",
     Bug::kNormaliserF16Tiles,
     {{{16}, {64}}},
     "the normaliser is stored in f16 after each tile"},
    {"bf16_normaliser_tiles",
     Bug::kNormaliserBf16Tiles,
     {{{256}}},
     "the normaliser is stored in bf16 after each tile"},

    {"values_to_6", Bug::kValuesTo, {{{64}}}, "values are clipped at 6", 6},
    {"values_to_448", Bug::kValuesTo, {{{64}}}, "values are clipped at 448", 448},
    {"values_to_1000", Bug::kValuesTo, {{{64}}}, "values are clipped at 1000", 1000},
    {"scores_to_50", Bug::kScoresTo, {{{64}}}, "scores are clipped at 50", 50},
    {"scores_to_64", Bug::kScoresTo, {{{64}}}, "scores are clipped at 64", 64},
    {"dots_to_65504",
     Bug::kDotsTo,
     {{{64}}},
     "q.k is clipped at 65504, before softmax_scale",
     kLargestHalf},
};

/// One table of the plugin.
struct Step {
  const Planted* planted;
  Variant variant;
};

constexpr size_t count_tables() {
  size_t tables = 0;
  for (const Planted& planted : kPlanted)
    for (const Variant& variant : planted.variants) tables += variant.tile > 0;
  return tables;
}
constexpr size_t kTables = count_tables();

constexpr std::array<Step, kTables> all_steps() {
  std::array<Step, kTables> steps{};
  size_t next = 0;
  for (const Planted& planted : kPlanted)
    for (const Variant& variant : planted.variants)
      if (variant.tile > 0) steps[next++] = {&planted, variant};
  return steps;
}
constexpr std::array<Step, kTables> kSteps = all_steps();

constexpr bool tiles_fit() {
  for (const Step& step : kSteps)
    if (step.variant.tile % 16 != 0 || step.variant.tile > kLargestTile) return false;
  return true;
}
static_assert(tiles_fit());

}  // namespace steps
