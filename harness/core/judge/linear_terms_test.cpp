// Every term of linear attention's sigma is needed and no larger than needed, as
// sigma_terms_test.cpp has it for softmax.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "core/judge/testing/emulated_outputs.hpp"
#include "core/judge/testing/term_trial.hpp"
#include "core/operations/linear/linear_sigma.hpp"
#include "core/operations/linear/testing/linear_cases.hpp"

namespace attest::core::linear {
namespace {

using testing::Edit, testing::edit, testing::LinearCase;

struct TermCase {
  Term term;
  const char* name;
  const char* honest;  // the kernel that needs the term
  LinearArithmetic arithmetic;
  std::function<LinearCase()> inputs;
  bool adds = false;  // the bug: every output is a little too large, in place of a normaliser a
                      // little too small
};
void PrintTo(const TermCase& c, std::ostream* out) { *out << c.name << ": " << c.honest; }

struct Shape {
  int64_t keys = 1021, rows = 64, head_dim = 32, head_dim_v = -1;
  DType dtype = ATTEST_F32, v_dtype = ATTEST_NONE;
};

LinearCase dense(const Shape& s) {
  return LinearCase({.seq_len_q = s.rows,
                     .seq_len_kv = s.keys,
                     .head_dim = s.head_dim,
                     .head_dim_v = s.head_dim_v,
                     .v_dtype = s.v_dtype},
                    s.dtype, {"random", 1});
}

LinearCase with(Shape s, std::initializer_list<std::pair<int32_t, Edit>> edits) {
  LinearCase c = dense(s);
  for (const auto& [role, change] : edits) edit(c, role, change);
  return c;
}

// Values are the first keys' channels: where they follow from the keys, errors of features do not
// average out.
LinearCase following(const Shape& s) {
  LinearCase c = dense(s);
  const Tensor& k = c.tensors[ATTEST_K];
  edit(c, ATTEST_V, [&](int64_t j, int64_t d, double) {
    return load(k.data, k.spec.dtype, j * s.head_dim + d);
  });
  return c;
}

// Channels of Q and K that lie near a number, values that are nearly the same for all keys.
LinearCase alike(const Shape& s, double q, double k) {
  return with(s, {{ATTEST_Q, [=](int64_t, int64_t, double x) { return q + 0.1 * x; }},
                  {ATTEST_K, [=](int64_t, int64_t, double x) { return k + 0.1 * x; }},
                  {ATTEST_V, [](int64_t, int64_t, double x) { return -1.3 + 0.01 * x; }}});
}

std::vector<TermCase> term_cases() {
  using T = Term;
  return {
      {T::kOutput,
       "output",
       "stores o in f16",
       {.output = ATTEST_F16},
       [] { return dense({.keys = 7, .dtype = ATTEST_F16}); }},
      {T::kOutputSubnormal,
       "output_subnormal",
       "stores o near 2^-18 in f16",
       {.output = ATTEST_F16},
       [] {
         return with({.keys = 7, .dtype = ATTEST_F16},
                     {{ATTEST_V, [](int64_t, int64_t, double x) { return x * 0x1p-18; }}});
       }},
      {T::kQueryFeatures,
       "query_features",
       "phi in f16, values that are keys",
       {.features = ATTEST_F16},
       [] { return following({.keys = 4099}); }},
      {T::kKeyFeatures,
       "key_features",
       "phi in bf16, keys that differ by little",
       {.features = ATTEST_BF16},
       [] {
         return with({}, {{ATTEST_K, [](int64_t, int64_t, double x) { return 0.5 + 0.05 * x; }}});
       }},
      {T::kEqualKeys,
       "equal_keys",
       "phi in f16, two keys that half of all keys are each, with values of 1 and -1",
       {.features = ATTEST_F16},
       [] {
         return with({},
                     {{ATTEST_K,
                       [](int64_t j, int64_t d, double) {
                         return j % 2 ? 0.1 + 0.01 * double(d) : 0.1 + 0.013 * double(d);
                       }},
                      {ATTEST_V, [](int64_t j, int64_t, double) { return j % 2 ? 1.0 : -1.0; }}});
       }},
      {T::kExp,
       "exp",
       "an exp that is good to 1e-3",
       {.exp_error = 1e-3},
       [] { return dense({}); }},
      {T::kState,
       "state",
       "state kept in bf16",
       {.state = ATTEST_BF16},
       [] { return dense({.v_dtype = ATTEST_BF16}); }},
      {T::kSmallState,
       "small_state",
       "a state of some 2^-20 kept in f16",
       {.state = ATTEST_F16, .output = ATTEST_F32},
       [] {
         return with({.keys = 7, .v_dtype = ATTEST_F16},
                     {{ATTEST_K, [](int64_t, int64_t, double x) { return -15 + 0.1 * x; }},
                      {ATTEST_V, [](int64_t, int64_t, double x) { return 1 + 0.1 * x; }}});
       }},
      {T::kStalled,
       "stalled",
       "one bf16 sum over 4,099 keys",
       {.accumulator = ATTEST_BF16, .output = ATTEST_F32},
       [] { return dense({.keys = 4099}); },
       true},
      {T::kFlushed,
       "flushed",
       "flushes a state of some 2^-14 to 0",
       {.state = ATTEST_F16, .ways = ATTEST_FLUSHES_SUBNORMALS},
       [] {
         return with({.keys = 4},
                     {{ATTEST_K, [](int64_t, int64_t, double x) { return x - 10.5; }}});
       }},
      {T::kValues,
       "values",
       "V as bf16, all of it 1.003",
       {.state = ATTEST_BF16},
       [] {
         return with({.head_dim = 256, .head_dim_v = 16},
                     {{ATTEST_V, [](int64_t, int64_t, double) { return 1.003; }}});
       }},
      {T::kKeySum,
       "key_sum",
       "one f32 sum over 16,411 keys",
       {},
       [] { return dense({.keys = 16411}); }},
      {T::kReach,
       "reach",
       "values that are 100 in the first half, -100 in the second",
       {},
       [] {
         return with({.keys = 4098}, {{ATTEST_V, [](int64_t j, int64_t, double x) {
                                         return x + (j < 2049 ? 100 : -100);
                                       }}});
       }},
      {T::kRepeated,
       "repeated",
       "one key and one value 16,411 times in f32",
       {},
       [] {
         return with(
             {.keys = 16411},
             {{ATTEST_K, [](int64_t, int64_t d, double) { return 0.7 + 0.01 * double(d); }},
              {ATTEST_V, [](int64_t, int64_t d, double) { return 0.3 + 0.013 * double(d); }}});
       }},
      {T::kChannelSum,
       "channel_sum",
       "1,024 channels in one sum",
       {},
       [] { return dense({.keys = 2, .head_dim = 1024, .head_dim_v = 16}); }},
      {T::kPairs,
       "pairs",
       "a weight for each pair, on the fill cancelling",
       {.ways = ATTEST_WEIGHS_PAIRS},
       [] {
         const Shape s{.keys = 197, .head_dim = 64};
         return LinearCase({.seq_len_q = s.rows, .seq_len_kv = s.keys, .head_dim = s.head_dim},
                           s.dtype, {"cancelling", 1});
       },
       true},
      {T::kSmallSums,
       "small_sums",
       "a state of some 2^-20 summed in f16",
       {.accumulator = ATTEST_F16, .output = ATTEST_F32},
       [] { return alike({.keys = 3, .head_dim = 4}, 0, -15); }},
      {T::kSmallSums,
       "lost_keys",
       "1,021 phi(k) of some 2^-26, none of which an f16 sum sees",
       {.accumulator = ATTEST_F16, .output = ATTEST_F32},
       [] { return alike({}, 0, -18); },
       true},
      {T::kSmallChannels,
       "small_channels",
       "phi(q) S of some 2^-23 summed in f16",
       {.accumulator = ATTEST_F16, .output = ATTEST_F32},
       [] { return alike({.keys = 1, .head_dim = 4}, -13, -3); }},
      {T::kSmallChannels,
       "lost_channels",
       "1,024 phi(q) S of some 2^-26, none of which an f16 sum sees",
       {.accumulator = ATTEST_F16, .output = ATTEST_F32},
       [] { return alike({.keys = 7, .head_dim = 1024, .head_dim_v = 16}, -20.5, 0); },
       true},
      {T::kSmallPairs,
       "small_pairs",
       "phi(q) phi(k) of some 2^-23 summed in f16",
       {.accumulator = ATTEST_F16, .output = ATTEST_F32, .ways = ATTEST_WEIGHS_PAIRS},
       [] { return alike({.keys = 3, .head_dim = 4}, -7.5, -7.5); }},
      {T::kSmallPairs,
       "small_weights",
       "weights of some 2^-23 kept in f16",
       {.state = ATTEST_F16, .output = ATTEST_F32, .ways = ATTEST_WEIGHS_PAIRS},
       [] { return alike({.keys = 7, .head_dim = 4, .v_dtype = ATTEST_F16}, -8.5, -8.5); }},
      {T::kSmallPairs,
       "alike_weights",
       "1,021 weights of some 2^-22 that are kept in f16 and rounded alike",
       {.state = ATTEST_F16, .output = ATTEST_F32, .ways = ATTEST_WEIGHS_PAIRS},
       [] { return alike({.head_dim = 16, .v_dtype = ATTEST_F16}, -9, -9); }},
      {T::kSmallPairs,
       "lost_pairs",
       "phi(q) phi(k) of some 2^-26, none of which an f16 sum sees",
       {.accumulator = ATTEST_F16, .output = ATTEST_F32, .ways = ATTEST_WEIGHS_PAIRS},
       [] { return alike({}, -9.2, -9.2); },
       true},
  };
}

class LinearTerms : public ::testing::TestWithParam<TermCase> {};

TEST_P(LinearTerms, IsNeededAndNoLargerThanNeeded) {
  const TermCase& term = GetParam();
  const LinearCase c = term.inputs();
  testing::put_on_trial(term, c, term.adds ? "o off" : "normaliser off", [&](double size) {
    const double addition = term.adds ? size : 0, normaliser = term.adds ? 1 : 1 - size;
    emulate_linear(c.problem, c.tensors, term.arithmetic, testing::all_rows(c.tensors[ATTEST_O]),
                   testing::store_into(c.tensors, [&](int32_t, double value) {
                     return value / normaliser + addition;
                   }));
  });
}

INSTANTIATE_TEST_SUITE_P(Linear, LinearTerms, ::testing::ValuesIn(term_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(LinearTermTable, HasEveryTerm) { testing::expect_every_term(term_cases()); }
TEST(LinearTermTable, IsOnThePage) {
  testing::expect_rows_on_page(
      term_cases(), std::filesystem::path(ATTEST_SOURCE_DIR) / "harness/core/judge/SIGMA.md");
}

}  // namespace
}  // namespace attest::core::linear
