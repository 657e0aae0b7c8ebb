// honest: kernels that do exactly what they declare, each in another order or another arithmetic.
// None of them may ever fail.
#include "honest/tables.hpp"

namespace {

using namespace honest;

constexpr Arithmetic half_probabilities() {
  Arithmetic a = kFloat;
  a.probability = a.pv = ATTEST_F16;
  a.ways = ATTEST_P_NORMALISED_FIRST;
  return a;
}
constexpr Arithmetic half_scores() {
  Arithmetic a = kFloat;
  a.score = ATTEST_F16;
  return a;
}
constexpr Arithmetic operands(int32_t dtype) {
  Arithmetic a = kFloat;
  a.qk = a.pv = a.probability = dtype;
  return a;
}
constexpr Method reversed(Method method) {
  method.reversed = true;
  return method;
}
constexpr Method split(Method method, int64_t splits) {
  method.splits = splits;
  return method;
}
constexpr Method merged_by_lse(Method method) {
  method.computes.ways |= ATTEST_WEIGHS_BY_LSE;
  method.declares.ways |= ATTEST_WEIGHS_BY_LSE;
  return method;
}
constexpr Method in_one_sum(Method method) {
  method.computes.one_sum = true;
  return method;
}
constexpr Method weighing_pairs(Method method) {
  method.weighs_pairs = true;
  method.declares.ways |= ATTEST_WEIGHS_PAIRS;
  return method;
}
constexpr Method folded(Method method) {
  method.folds_scale = true;
  return method;
}
constexpr SamplingArithmetic sampling_in(int32_t dtype) { return {dtype, dtype, dtype, dtype, 0}; }

// All of them take part in the count of false failures.
constexpr Method kNaive = honest_method("honest_naive", "whole rows, float32", kFloat, 0);
constexpr Method kTiled =
    honest_method("honest_tiled", "tiles of 16 to 256 keys, float32", kFloat, kAnyTile);
constexpr Method kReversed = reversed(
    honest_method("honest_reversed", "whole rows, the last key first, float32", kFloat, 0));
constexpr Method kSplit = merged_by_lse(
    split(honest_method("honest_split", "four parts merged by their lse, float32", kFloat, 64), 4));
constexpr Method kQuarters = in_one_sum(split(
    honest_method("honest_quarters", "four parts, each one float32 sum", kFloat, kQuarter), 4));
constexpr Method kHalf = honest_method(
    "honest_f16_probabilities", "unfused: probabilities cast to f16", half_probabilities(), 0);
constexpr Method kScores =
    honest_method("honest_f16_scores", "unfused: scores kept in f16", half_scores(), 0);
constexpr Method kBrain = folded(honest_method(
    "honest_bf16_operands", "tiles of 64 keys, bf16 operands", operands(ATTEST_BF16), 64));

constexpr Method kLinearNaive =
    honest_method("honest_linear_naive", "one sum over keys, float32", kFloat, 0);
constexpr Method kLinearTiled =
    honest_method("honest_linear_tiled", "tiles of 64 keys, float32", kFloat, 64);
constexpr Method kLinearReversed =
    reversed(honest_method("honest_linear_reversed", "the last key first, float32", kFloat, 0));
constexpr Method kLinearSplit =
    split(honest_method("honest_linear_split", "four parts, float32", kFloat, 0), 4);
constexpr Method kLinearPairs = weighing_pairs(
    honest_method("honest_linear_pairs", "a weight for each pair, float32", kFloat, 0));
constexpr Method kLinearHalf =
    honest_method("honest_linear_f16", "phi, V and state in f16", operands(ATTEST_F16), 64);
constexpr Method kLinearBrain =
    honest_method("honest_linear_bf16", "phi, V and state in bf16", operands(ATTEST_BF16), 64);

constexpr SamplingMethod kSamples = honest_sampling(
    "honest_deformable_samples", "samples, then weights, float32", Form::kSample, Sum::kForward);
constexpr SamplingMethod kFactors =
    honest_sampling("honest_deformable_factors", "weights and bilinear factors first, float32",
                    Form::kFactor, Sum::kForward);
constexpr SamplingMethod kBackward = honest_sampling(
    "honest_deformable_reversed", "the last point first, float32", Form::kSample, Sum::kBackward);
constexpr SamplingMethod kLevels = honest_sampling(
    "honest_deformable_levels", "a sum for each level, float32", Form::kFactor, Sum::kLevels);
constexpr SamplingMethod kCorners = honest_sampling(
    "honest_deformable_corners", "a sum for each corner, float32", Form::kFactor, Sum::kCorners);
constexpr SamplingMethod kDifferences =
    honest_sampling("honest_deformable_differences", "a + f (b - a), rows first, float32",
                    Form::kAlongRows, Sum::kForward);
constexpr SamplingMethod kHalfDifferences = honest_sampling(
    "honest_deformable_f16_differences", "b - a in f16, columns first, small numbers become 0",
    Form::kAlongColumns, Sum::kForward,
    {.weight = ATTEST_F16, .product = ATTEST_F16, .ways = ATTEST_FLUSHES_SUBNORMALS});
constexpr SamplingMethod kOnGrid =
    honest_sampling("honest_deformable_grid", "locations on grid_sample's scale, float32",
                    Form::kSample, Sum::kForward, {.ways = ATTEST_LOCATES_ON_GRID});
constexpr SamplingMethod kSampledHalf =
    honest_sampling("honest_deformable_f16", "everything in f16", Form::kFactor, Sum::kForward,
                    sampling_in(ATTEST_F16));
constexpr SamplingMethod kHalfSums =
    honest_sampling("honest_deformable_f16_sums", "sums over points in f16", Form::kSample,
                    Sum::kForward, {.accumulator = ATTEST_F16});
constexpr SamplingMethod kFlushing = honest_sampling(
    "honest_deformable_flushes", "f16 products, small numbers become 0", Form::kSample,
    Sum::kBackward,
    {.weight = ATTEST_F16, .product = ATTEST_F16, .ways = ATTEST_FLUSHES_SUBNORMALS});
constexpr SamplingMethod kSampledBrain =
    honest_sampling("honest_deformable_bf16", "weights and V in bf16, levels apart", Form::kFactor,
                    Sum::kLevels, {.weight = ATTEST_BF16, .product = ATTEST_BF16});

constexpr GradientMethod kPairs =
    honest_gradients("honest_backward_pairs", "one sum over the pairs, float32");
constexpr GradientMethod kPairTiles = honest_gradients(
    "honest_backward_tiled", "tiles of 32 keys and 32 queries, float32", {}, Forward::kGiven, 32);
constexpr GradientMethod kLastPair = honest_gradients(
    "honest_backward_reversed", "the last pair first, float32", {}, Forward::kGiven, 0, true);
constexpr GradientMethod kAgain =
    honest_gradients("honest_backward_again", "O and LSE before they were rounded, float32", {},
                     Forward::kAgain, 48);
constexpr GradientMethod kPairsHalf =
    honest_gradients("honest_backward_f16", "operands in f16", {.product = ATTEST_F16});
constexpr GradientMethod kPairsBrain =
    honest_gradients("honest_backward_bf16", "operands in bf16, tiles of 64, the last pair first",
                     {.product = ATTEST_BF16}, Forward::kGiven, 64, true);
constexpr GradientMethod kUnfusedHalf = honest_gradients(
    "honest_backward_f16_scores", "unfused: scores, probabilities and operands in f16",
    {.score = ATTEST_F16, .probability = ATTEST_F16, .product = ATTEST_F16});
constexpr GradientMethod kUnfusedBrain = honest_gradients(
    "honest_backward_bf16_scores", "unfused: scores, probabilities and operands in bf16",
    {.score = ATTEST_BF16, .probability = ATTEST_BF16, .product = ATTEST_BF16}, Forward::kAgain, 0,
    true);
constexpr GradientMethod kPairSumsHalf =
    honest_gradients("honest_backward_f16_sums", "sums in f16, tiles of 16",
                     {.accumulator = ATTEST_F16}, Forward::kGiven, 16);
constexpr GradientMethod kPairsFlushing = honest_gradients(
    "honest_backward_flushes", "operands in f16, small numbers become 0",
    {.product = ATTEST_F16, .ways = ATTEST_FLUSHES_SUBNORMALS}, Forward::kGiven, 0, true);
constexpr GradientMethod kPairsExp =
    honest_gradients("honest_backward_exp", "an exp that errs by 2^-13", {.exp_error = 0x1p-13f});
// Q, K, V, dO, O and all that is multiplied with them.
constexpr GradientArithmetic cast_to(int32_t dtype) {
  return {.product = dtype, .qk = dtype, .operand = dtype, .delta = dtype};
}
constexpr GradientMethod folded(GradientMethod method) {
  method.folds_scale = true;
  return method;
}
constexpr GradientMethod kCastBrain =
    honest_gradients("honest_backward_cast_bf16", "all inputs rounded to bf16, tiles of 32",
                     cast_to(ATTEST_BF16), Forward::kGiven, 32);
constexpr GradientMethod kCastHalf = folded(
    honest_gradients("honest_backward_cast_f16",
                     "scaled queries and all other inputs rounded to f16", cast_to(ATTEST_F16)));
constexpr GradientMethod kCastTf32 = folded(honest_gradients(
    "honest_backward_cast_tf32", "inputs rounded to tf32, the last pair first, O and LSE known",
    {.product = ATTEST_TF32, .qk = ATTEST_TF32, .operand = ATTEST_TF32}, Forward::kAgain, 0, true));

}  // namespace

ATTEST_PLUGIN(attest::table<Softmax<kNaive>>(), attest::table<Softmax<kTiled>>(),
              attest::table<Softmax<kReversed>>(), attest::table<Softmax<kSplit>>(),
              attest::table<Softmax<kQuarters>>(), attest::table<Softmax<kHalf>>(),
              attest::table<Softmax<kScores>>(), attest::table<Softmax<kBrain>>(),
              attest::table<Linear<kLinearNaive>>(), attest::table<Linear<kLinearTiled>>(),
              attest::table<Linear<kLinearReversed>>(), attest::table<Linear<kLinearSplit>>(),
              attest::table<Linear<kLinearPairs>>(), attest::table<Linear<kLinearHalf>>(),
              attest::table<Linear<kLinearBrain>>(), attest::table<Deformable<kSamples>>(),
              attest::table<Deformable<kFactors>>(), attest::table<Deformable<kBackward>>(),
              attest::table<Deformable<kLevels>>(), attest::table<Deformable<kCorners>>(),
              attest::table<Deformable<kDifferences>>(),
              attest::table<Deformable<kHalfDifferences>>(), attest::table<Deformable<kOnGrid>>(),
              attest::table<Deformable<kSampledHalf>>(), attest::table<Deformable<kHalfSums>>(),
              attest::table<Deformable<kFlushing>>(), attest::table<Deformable<kSampledBrain>>(),
              attest::table<Backward<kPairs>>(), attest::table<Backward<kPairTiles>>(),
              attest::table<Backward<kLastPair>>(), attest::table<Backward<kAgain>>(),
              attest::table<Backward<kPairsHalf>>(), attest::table<Backward<kPairsBrain>>(),
              attest::table<Backward<kUnfusedHalf>>(), attest::table<Backward<kUnfusedBrain>>(),
              attest::table<Backward<kPairSumsHalf>>(), attest::table<Backward<kPairsFlushing>>(),
              attest::table<Backward<kPairsExp>>(), attest::table<Backward<kCastBrain>>(),
              attest::table<Backward<kCastHalf>>(), attest::table<Backward<kCastTf32>>())
