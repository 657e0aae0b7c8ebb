// Every term of sigma is needed and no larger than needed: without it an honest kernel is failed,
// eight times as large it lets a bug pass. Honest kernels are emulations that round exactly where
// they declare; a bug is sized to two gates.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "core/judge/gates.hpp"
#include "core/judge/testing/emulated_outputs.hpp"
#include "core/judge/testing/term_trial.hpp"
#include "core/operations/softmax/sigma/emulate.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"
#include "core/operations/softmax/testing/make_case.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using testing::Case;
using testing::edit;
using testing::make_case;
using Params = attest_softmax_params;

enum class Bug {
  kScale,         // softmax_scale is a little too large
  kNormaliser,    // the normaliser is a little too small: a key is left out of it
  kLse,           // that of the lse alone
  kAddition,      // every output is that much too large
  kTinyAddition,  // of 2^-100
  kLseAddition,   // every lse is that much too small
};

struct TermCase {
  SigmaTerm term;
  const char* name;
  const char* honest;  // the kernel that needs the term
  SoftmaxArithmetic arithmetic;
  std::function<Case()> inputs;
  Bug bug = Bug::kScale;
  EmulationStyle style;
  Fill fill = {};
  double bug_at_most = 0;  // a bug of that size is two gates at least; 0: of any size
};
void PrintTo(const TermCase& c, std::ostream* out) { *out << c.name << ": " << c.honest; }

// --- Inputs ---

struct Shape {
  int64_t keys = 1021, rows = 16, head_dim = 32;
  DType dtype = ATTEST_F32;
  double q_factor = 1, mean_v = 0;
  bool lse = false;         // its sigma knows float32 alone, so that few errors in o escape it
  bool row_bias = false;    // BIAS, one number a row
  float softmax_scale = 0;  // 0: 1 / sqrt(head_dim)
  float softcap = 0;        // 0: none
  float sink = 0;           // 0: none
};

// One head: rows of K and V are keys. Normal values.
Case dense(const Shape& s) {
  std::vector<int32_t> with;
  if (s.lse) with.push_back(ATTEST_LSE);
  if (s.row_bias) with.push_back(ATTEST_BIAS);
  if (s.sink != 0) with.push_back(ATTEST_SINKS);
  Case c = make_case(
      "",
      [&](Params& p) {
        p.num_heads = 1;
        p.seq_len_q = s.rows;
        p.seq_len_kv = s.keys;
        p.head_dim = s.head_dim;
        if (s.softmax_scale > 0) p.softmax_scale = s.softmax_scale;
        p.softcap = s.softcap;
      },
      with, s.dtype);
  if (s.row_bias) c = testing::broadcast(std::move(c), ATTEST_BIAS, {0, 1, 3});
  if (s.sink != 0) static_cast<float*>(c.tensors[ATTEST_SINKS].data)[0] = s.sink;
  edit(c, ATTEST_Q, [&](int64_t, int64_t, double x) { return x * s.q_factor; });
  edit(c, ATTEST_V, [&](int64_t, int64_t, double x) { return x + s.mean_v; });
  return c;
}

// Key `at` has a score above the others by `gap`, in every row; theirs have a standard deviation of
// spread^2.
Case dominated(Shape s, int64_t at, double gap, double spread = 0.3) {
  Case c = dense(s);
  const double length = gap * std::sqrt(double(s.head_dim));
  edit(c, ATTEST_Q, [&](int64_t, int64_t d, double x) { return d == 0 ? 1 : spread * x; });
  edit(c, ATTEST_K, [&](int64_t j, int64_t d, double x) {
    return d == 0 ? (j == at ? length : 0) : j == at ? 0 : spread * x;
  });
  return c;
}

Case equal_keys(Shape s) {
  Case c = dense(s);
  std::vector<double> first(size_t(s.head_dim));
  edit(c, ATTEST_K, [&](int64_t j, int64_t d, double x) {
    return j == 0 ? first[size_t(d)] = x : first[size_t(d)];
  });
  return c;
}

// A number that differs from `x` by 1e-5 of it or so, another one for each n.
double nearly(double x, int64_t n) {
  return x * (1 + 1e-5 * double(random_normal(7, uint64_t(n))));
}

// A picture of two flat halves: the keys of each are nearly equal, and have nearly equal values,
// `first` and `second`. So are all queries.
Case two_halves(Shape s, double first, double second) {
  Case c = dense(s);
  std::vector<double> keys(size_t(2 * s.head_dim)), query(size_t(s.head_dim));
  edit(c, ATTEST_K, [&](int64_t j, int64_t d, double x) {
    double& key = keys[size_t(2 * j / s.keys * s.head_dim + d)];
    if (j % (s.keys / 2) == 0) key = x;
    return nearly(key, j * s.head_dim + d);
  });
  edit(c, ATTEST_Q, [&](int64_t i, int64_t d, double x) {
    if (i == 0) query[size_t(d)] = x;
    return nearly(query[size_t(d)], i * s.head_dim + d);
  });
  edit(c, ATTEST_V, [&](int64_t j, int64_t d, double) {
    return nearly(2 * j < s.keys ? first : second, j * s.head_dim + d);
  });
  return c;
}

// Pairs of channels change places in the second half of the keys, and queries are nearly alike in
// both: so are the scores of both halves, until the queries are rounded.
void swap_channels_of_second_half(const Case& c) {
  const int64_t keys = c.params().seq_len_kv, head_dim = c.params().head_dim;
  std::vector<double> first(static_cast<size_t>(head_dim));
  edit(c, ATTEST_K, [&](int64_t j, int64_t d, double x) {
    if (j == 0) first[size_t(d)] = x;
    return 2 * j < keys ? x : nearly(first[size_t(d ^ 1)], j * head_dim + d);
  });
  double even = 0;
  edit(c, ATTEST_Q, [&](int64_t, int64_t d, double x) {
    if (d % 2 == 0) even = x;
    return d % 2 == 0 ? x : even * 1.003;
  });
}

// Scores of each key are the same in all rows, but for 0.01.
Case scored(Shape s, const std::function<double(int64_t key)>& score) {
  Case c = dense(s);
  edit(c, ATTEST_Q, [](int64_t, int64_t d, double x) { return d == 0 ? 1 : 0.1 * x; });
  edit(c, ATTEST_K, [&](int64_t j, int64_t d, double x) {
    return d == 0 ? score(j) * std::sqrt(double(s.head_dim)) : 0.1 * x;
  });
  return c;
}

// The same, but for 0.001.
Case nearly_scored(Shape s, const std::function<double(int64_t key)>& score) {
  Case c = scored(s, score);
  edit(c, ATTEST_Q, [](int64_t, int64_t d, double x) { return d == 0 ? x : 0.1 * x; });
  return c;
}

SoftmaxArithmetic in(DType output,
                     std::initializer_list<std::pair<DType SoftmaxArithmetic::*, DType>> fields,
                     uint32_t flags = 0, int64_t chain = 0) {
  SoftmaxArithmetic a{.output = output, .ways = flags, .sum_chain = chain};
  for (const auto& [field, dtype] : fields) a.*field = dtype;
  return a;
}
SoftmaxArithmetic rough_exp(double error) {
  SoftmaxArithmetic a;
  a.exp_error = error;
  return a;
}

// --- Terms ---

using T = SigmaTerm;
constexpr auto kQk = &SoftmaxArithmetic::qk, kPv = &SoftmaxArithmetic::pv,
               kProbability = &SoftmaxArithmetic::probability, kScore = &SoftmaxArithmetic::score,
               kAccumulator = &SoftmaxArithmetic::accumulator;
constexpr uint32_t kFirst = ATTEST_P_NORMALISED_FIRST;

std::vector<TermCase> terms_of_dot_products() {
  return {
      {T::kDotProduct, "dot_product", "q k sums to nearly 0 over large products",
       in(ATTEST_F32, {}, 0, 16),
       [] {
         Case c = dense({.q_factor = 100});
         std::vector<double> half(16);
         edit(c, ATTEST_Q, [&](int64_t, int64_t d, double x) {
           return d < 16 ? half[size_t(d)] = x : half[size_t(d - 16)];
         });
         edit(c, ATTEST_K, [&](int64_t, int64_t d, double x) {
           return d < 16 ? half[size_t(d)] = x : 1e-3 * x - half[size_t(d - 16)];
         });
         return c;
       }},
      {T::kDotGrowth, "dot_growth", "1,024 products of one sign in one sum",
       in(ATTEST_F32, {}, 0, 16),
       [] {
         Case c = dense({.keys = 197, .head_dim = 1024});
         for (const int32_t role : {int32_t(ATTEST_Q), int32_t(ATTEST_K)})
           edit(c, role, [](int64_t, int64_t, double x) { return 1 + 0.1 * x; });
         return c;
       }},
      {T::kOwnOrder,
       "own_order",
       "equal keys, every eighth product summed in halves",
       in(ATTEST_F32, {}, 0, 16),
       [] { return equal_keys({.q_factor = 30}); },
       Bug::kNormaliser,
       {.mixed_orders = true}},
      {T::kOperands, "operands", "Q and K as bf16", in(ATTEST_F32, {{kQk, ATTEST_BF16}}),
       [] { return dense({}); }},
      {T::kQuery, "query", "Q and K as bf16 where values are the keys",
       in(ATTEST_F32, {{kQk, ATTEST_BF16}}),
       [] {
         Case c = dense({.keys = 4099});
         std::memcpy(c.tensors[ATTEST_V].data, c.tensors[ATTEST_K].data,
                     size_t(extent_bytes(c.tensors[ATTEST_K].spec)));
         return c;
       }},
      {T::kFoldedScale,
       "folded_scale",
       "Q times 0.0622 rounded to bf16 again, where queries are keys",
       in(ATTEST_BF16, {{kQk, ATTEST_BF16}}),
       [] {
         Case c = dense({.keys = 100,
                         .rows = 100,
                         .head_dim = 256,
                         .dtype = ATTEST_BF16,
                         .lse = true,
                         .softmax_scale = 0.0622416f});
         std::memcpy(c.tensors[ATTEST_Q].data, c.tensors[ATTEST_K].data,
                     size_t(extent_bytes(c.tensors[ATTEST_Q].spec)));
         return c;
       },
       Bug::kLse,
       {.scale = ScalePlace::kQueries}},
      {T::kSmallOperands,
       "small_operands",
       "Q times 0.177 rounded to f16 again, where Q or K is subnormal in each channel",
       in(ATTEST_F16, {{kQk, ATTEST_F16}}),
       [] {
         Case c = dense({.dtype = ATTEST_F16});
         softmax_operation().fill(c.problem, {"subnormal", 1}, c.tensors, false);
         return c;
       },
       Bug::kScale,
       {.scale = ScalePlace::kQueries},
       {"subnormal"}},
      {T::kAverage, "average", "scores of 60 from operands in f8e5m2",
       in(ATTEST_F32, {{kQk, ATTEST_F8E5M2}}),
       [] {
         Case c = dense({.keys = 7, .rows = 2000, .q_factor = 60});
         edit(c, ATTEST_V, [](int64_t, int64_t, double x) { return 0.01 * x; });
         return c;
       },
       Bug::kAddition},
  };
}

std::vector<TermCase> terms_of_scores() {
  return {
      {T::kScore, "score", "keeps scores in f16", in(ATTEST_F32, {{kScore, ATTEST_F16}}),
       [] { return dense({.keys = 197}); }},
      {T::kCommonAddend, "common_addend", "f16 scores, each rounded again with the same bias",
       in(ATTEST_F32, {{kScore, ATTEST_F16}}),
       [] {
         Case c = dense({.keys = 16411, .rows = 4, .lse = true, .row_bias = true});
         // Scores near 12, where f16 has an ulp of 2^-7
         const double length = 12 * std::sqrt(32.0);
         edit(c, ATTEST_Q, [](int64_t, int64_t d, double x) { return d == 0 ? 1 : 0.5 * x; });
         edit(c, ATTEST_K, [&](int64_t, int64_t d, double x) { return d == 0 ? length : 0.5 * x; });
         edit(c, ATTEST_BIAS, [](int64_t, int64_t, double) { return 0.9 * 0x1p-8; });
         return c;
       },
       Bug::kLse},
      {T::kAtCap, "at_cap", "f16 scores, half of which are at the softcap, which f16 does not have",
       in(ATTEST_F32, {{kScore, ATTEST_F16}}),
       [] {
         Case c = dense({.rows = 4, .softcap = 1 + 0.48F * 0x1p-10F});
         const double length = 40 * std::sqrt(32.0);
         edit(c, ATTEST_Q, [](int64_t, int64_t d, double x) { return d == 0 ? 1 : 0.3 * x; });
         edit(c, ATTEST_K, [&](int64_t j, int64_t d, double x) {
           return d == 0 && j % 2 == 0 ? length : 0.3 * x;
         });
         edit(c, ATTEST_V,
              [](int64_t j, int64_t, double x) { return j % 2 == 0 ? 0 : 1 + 0.1 * x; });
         return c;
       },
       Bug::kNormaliser},
      {T::kSinkLead,
       "sink_lead",
       "subtracts a sink of 60 from 16 scores near 0 in f32",
       {},
       [] { return dense({.keys = 16, .q_factor = 0.3, .sink = 60}); }},
      {T::kWeighsByLse, "weighs_by_lse", "p = exp(s - lse) with an lse of 400",
       in(ATTEST_F32, {}, ATTEST_WEIGHS_BY_LSE, 16),
       [] {
         Case c = dense({.mean_v = 1});
         edit(c, ATTEST_Q, [](int64_t, int64_t d, double x) { return d == 0 ? 1 : x; });
         edit(c, ATTEST_K,
              [](int64_t, int64_t d, double x) { return d == 0 ? 400 * std::sqrt(32.0) : x; });
         return c;
       },
       Bug::kNormaliser},
  };
}

std::vector<TermCase> terms_of_probabilities() {
  return {
      {T::kProbability, "probability", "keeps p in bf16",
       in(ATTEST_F32, {{kProbability, ATTEST_BF16}}), [] { return dense({}); }},
      {T::kSubnormal, "subnormal", "one key takes the weight, the other p are subnormal in f16",
       in(ATTEST_F32, {{kProbability, ATTEST_F16}}, ATTEST_SUMS_ROUNDED_P, 16),
       [] { return dominated({}, 1020, 15.5, 1); }, Bug::kNormaliser},
      {T::kExp, "exp", "an exp that is good to 1e-3", rough_exp(1e-3),
       [] { return dense({.keys = 13}); }},
      {T::kRescale,
       "rescale",
       "the same exp rescales what was summed, values 1 in the first half, -1 in the second",
       rough_exp(1e-3),
       [] {
         Case c = dense({});
         edit(c, ATTEST_V,
              [](int64_t j, int64_t, double x) { return 0.01 * x + (j < 510 ? 1 : -1); });
         return c;
       },
       Bug::kScale,
       {.online = true}},
      {T::kCutSum, "cut_sum", "the normaliser sums p that are cut to bf16",
       in(ATTEST_F32, {{kProbability, ATTEST_BF16}}, ATTEST_P_TRUNCATED | ATTEST_SUMS_ROUNDED_P),
       [] { return dense({.lse = true}); }, Bug::kLse},
      {T::kTwoRoundings, "two_roundings",
       "p rounded to bf16 for the normaliser, and exp(s - lse) once more for the product",
       in(ATTEST_F32, {{kProbability, ATTEST_BF16}},
          ATTEST_SUMS_ROUNDED_P | ATTEST_WEIGHS_BY_LSE | kFirst, 16),
       [] {
         // Nearly all weight is that of two keys whose values are 0, and not a power of two below
         // their maximum.
         Case c = dominated({}, 1020, 9);
         edit(c, ATTEST_K, [](int64_t j, int64_t d, double x) {
           return j == 1019 ? (d == 0 ? 8.7 * std::sqrt(32.0) : 0) : x;
         });
         edit(c, ATTEST_V,
              [](int64_t j, int64_t, double x) { return j >= 1019 ? 0 : 1 + 0.1 * x; });
         return c;
       },
       Bug::kNormaliser},
      {T::kEqualScores, "equal_scores", "p of equal keys rounded to f16 after it was normalised",
       in(ATTEST_F32, {{kProbability, ATTEST_F16}}, kFirst),
       [] { return equal_keys({.keys = 1100, .mean_v = 1}); }, Bug::kNormaliser},
      {T::kEqualScores, "scores_of_few_numbers",
       "p rounded to f16, whose f32 scores a bias of -262,144 leaves 1/32 apart",
       in(ATTEST_F32, {{kProbability, ATTEST_F16}}),
       [] {
         Case c = dense({.keys = 8191, .q_factor = 0.05, .row_bias = true});
         edit(c, ATTEST_BIAS, [](int64_t, int64_t, double) { return -262144; });
         edit(c, ATTEST_V, [](int64_t, int64_t, double x) { return 1 + 1e-3 * x; });
         return c;
       },
       Bug::kNormaliser},
      {T::kNormaliser, "normaliser", "the normaliser sums p rounded to bf16",
       in(ATTEST_F32, {{kProbability, ATTEST_BF16}}, ATTEST_SUMS_ROUNDED_P),
       [] { return dense({.keys = 7, .lse = true}); }, Bug::kLse},
      {T::kLeaning, "leaning",
       "the normaliser sums p in f8e4m3, half of which lose 0.0275, the others 0.0215",
       in(ATTEST_F32, {{kProbability, ATTEST_F8E4M3}}, ATTEST_SUMS_ROUNDED_P),
       [] {
         return nearly_scored(
             {.lse = true}, [](int64_t j) { return j == 0 ? 0 : std::log(j % 2 ? 0.715 : 0.959); });
       },
       Bug::kLse},
      {T::kTruncation, "truncation", "cuts p to f16",
       in(ATTEST_F32, {{kProbability, ATTEST_F16}}, ATTEST_P_TRUNCATED),
       [] { return dense({.mean_v = 1}); }, Bug::kNormaliser},
      {T::kCutSteps, "cut_steps",
       "cuts p of some eight subnormal steps of f16 beside a key without a value",
       in(ATTEST_F32, {{kProbability, ATTEST_F16}}, ATTEST_P_TRUNCATED),
       [] {
         Case c = dominated({.keys = 4099}, 4098, 14.5);
         edit(c, ATTEST_V,
              [](int64_t j, int64_t, double x) { return j == 4098 ? 0 : 1 + 0.1 * x; });
         return c;
       },
       Bug::kAddition},
  };
}

std::vector<TermCase> terms_of_flushed_probabilities() {
  return {
      {T::kFlushed, "flushed", "flushes p below 2^-14 to 0",
       in(ATTEST_F32, {{kProbability, ATTEST_F16}}, ATTEST_FLUSHES_SUBNORMALS),
       [] { return dominated({.keys = 4099, .mean_v = 1}, 4098, 14); }, Bug::kNormaliser},
      {T::kFlushedApart,
       "flushed_apart",
       "the same in each half of the keys, beside its own maximum; the halves' values cancel",
       in(ATTEST_F32, {{kProbability, ATTEST_F16}}, ATTEST_FLUSHES_SUBNORMALS),
       [] {
         constexpr int64_t kKeys = 63;
         Case c = dominated({.keys = kKeys}, kKeys - 1, 14, 0.1);
         std::vector<double> values(size_t(kKeys * 32));
         edit(c, ATTEST_V, [&](int64_t j, int64_t d, double x) {
           values[size_t(j * 32 + d)] = x;
           if (j == kKeys - 1) return 0.0;
           return j < kKeys / 2 ? x : -values[size_t((kKeys - 2 - j) * 32 + d)];
         });
         return c;
       },
       Bug::kAddition,
       {.parts = 2}},
      {T::kFlushedRun,
       "flushed_run",
       "the same, where values grow from key to key and cancel over the row",
       in(ATTEST_F32, {{kProbability, ATTEST_F16}}, ATTEST_FLUSHES_SUBNORMALS),
       [] {
         constexpr int64_t kKeys = 4099;
         Case c = dominated({.keys = kKeys}, kKeys - 1, 14, 0.1);
         edit(c, ATTEST_V, [&](int64_t j, int64_t, double) {
           return j == kKeys - 1 ? 0 : double(2 * j) / double(kKeys - 2) - 1;
         });
         return c;
       },
       Bug::kAddition,
       {.parts = 2}},
      {T::kUnderflow,
       "underflow",
       "exp is 0 below the smallest normal float32, and the other keys' values are 0",
       {},
       [] {
         Case c = dominated({}, 1020, 87.5, 0.1);
         edit(c, ATTEST_V,
              [](int64_t j, int64_t, double x) { return j == 1020 ? 0 : 1 + 0.1 * x; });
         return c;
       },
       Bug::kTinyAddition},
  };
}

std::vector<TermCase> terms_of_sums() {
  return {
      {T::kSmallSums, "small_sums", "sums of some 2^-28 kept in f16",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}, 0, 16),
       [] {
         Case c = dense({});
         edit(c, ATTEST_V, [](int64_t, int64_t, double x) { return 0x1p-28 * x; });
         return c;
       },
       Bug::kAddition},
      {T::kSmallSums, "flushed_sums", "f16 sums of some 2^-16 become 0 below 2^-14",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}, ATTEST_FLUSHES_SUBNORMALS, 16),
       [] {
         Case c = dense({});
         edit(c, ATTEST_V, [](int64_t, int64_t, double x) { return 0x1p-16 * x; });
         return c;
       },
       Bug::kAddition},
      {T::kAbsorbed, "flushed_in_normaliser", "f16 sums of 16 p below 2^-14, in the normaliser",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}, ATTEST_FLUSHES_SUBNORMALS, 16),
       [] { return dominated({.keys = 4099, .lse = true}, 4098, 14); }, Bug::kLse},
      {T::kAbsorbed,
       "flushed_before_division",
       "the same of p that are divided later: those of 2^-14.3 are lost, those of 2^-10 are not",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}, ATTEST_FLUSHES_SUBNORMALS | kFirst, 16),
       [] {
         return scored({.keys = 16400, .rows = 4, .lse = true}, [](int64_t j) {
           return j < 8192 ? -14.3 * M_LN2 : j < 16384 ? -10 * M_LN2 : 0;
         });
       },
       Bug::kLse,
       {},
       {},
       0.5},
      {T::kSmallSums,
       "flushed_beside_one",
       "16,410 p of some 2^-19 become 0 in f16 sums beside one of 1",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}, ATTEST_FLUSHES_SUBNORMALS, 16),
       [] {
         Case c = dominated({.keys = 16411, .rows = 4}, 16410, 13.2, 0.1);
         edit(c, ATTEST_V,
              [](int64_t j, int64_t, double x) { return (j == 16410 ? 0.3 : -1.2) + 0.01 * x; });
         return c;
       },
       Bug::kAddition,
       {},
       {},
       0.3},
      {T::kAbsorbed,
       "much_flushed",
       "8,192 p of 2^-14.3, in the normaliser: 0.29 of it is lost",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}, ATTEST_FLUSHES_SUBNORMALS, 16),
       [] {
         return scored({.keys = 8193, .rows = 4, .lse = true},
                       [](int64_t j) { return j < 8192 ? -14.3 * M_LN2 : 0; });
       },
       Bug::kLseAddition,
       {},
       {},
       2.2},
      {T::kAbsorbed,
       "mostly_flushed",
       "98,304 p of 2^-14.3, in the normaliser: 0.83 of it is lost",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}, ATTEST_FLUSHES_SUBNORMALS, 16),
       [] {
         return scored({.keys = 98'305, .rows = 4, .head_dim = 4, .lse = true},
                       [](int64_t j) { return j < 98'304 ? -14.3 * M_LN2 : 0; });
       },
       Bug::kLseAddition,
       {},
       {},
       14},
      {T::kAbsorbed, "flushed_beside_large_values",
       "20,000 p of 2^-14.3: half of the normaliser is lost; products of values near 100 are not, "
       "so o doubles",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}, ATTEST_FLUSHES_SUBNORMALS, 16),
       [] {
         return scored({.keys = 20'001, .rows = 4, .head_dim = 4, .mean_v = 100},
                       [](int64_t j) { return j < 20'000 ? -14.3 * M_LN2 : 0; });
       },
       Bug::kAddition},
      {T::kStalled, "stalled",
       "one bf16 sum over 16,384 keys, values 3 in the first eighth, -3/7 in the rest",
       in(ATTEST_F32, {{kAccumulator, ATTEST_BF16}}),
       [] {
         Case c = dense({.keys = 16384, .rows = 4});
         edit(c, ATTEST_V,
              [](int64_t j, int64_t, double x) { return 0.1 * x + (j < 2048 ? 3 : -3.0 / 7); });
         return c;
       },
       Bug::kAddition},
      {T::kBlocks, "blocks",
       "a key of 0.9 of the weight, then four keys 4,160 times in one f32 sum, in the first of "
       "four",
       in(ATTEST_F32, {}, 0, 4161),
       [] {
         Case c = dominated({.keys = 4 * 4161, .rows = 4, .mean_v = 1, .lse = true}, 0, 11.9);
         std::vector<double> known(4 * 32);
         edit(c, ATTEST_K, [&](int64_t j, int64_t d, double x) {
           if (j == 0) return x;
           double& kept =
               known[size_t((j <= 4 ? j - 1 : int64_t(random_bits(3, uint64_t(j)) % 4)) * 32 + d)];
           return j <= 4 ? kept = x : kept;
         });
         return c;
       },
       Bug::kLse},
      {T::kParts, "parts", "eight keys, 131,200 in all, in four f32 sums",
       in(ATTEST_F32, {}, 0, 32'804),
       [] {
         Case c = dense({.keys = 131'200, .rows = 4, .mean_v = 1, .lse = true});
         std::vector<double> known(8 * 32);
         edit(c, ATTEST_K, [&](int64_t j, int64_t d, double x) {
           double& kept =
               known[size_t((j < 8 ? j : int64_t(random_bits(3, uint64_t(j)) % 8)) * 32 + d)];
           return j < 8 ? kept = x : kept;
         });
         return c;
       },
       Bug::kLse},
      {T::kRepeated, "nearly_equal", "one f16 sum of 480 p that differ by 3 %",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}),
       [] { return dense({.keys = 480, .q_factor = 0.03, .lse = true}); }, Bug::kLse},
      {T::kRepeated, "clusters", "one f16 sum of 740 p, of which half are 0.35 of the others",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}),
       [] {
         return nearly_scored({.keys = 740, .lse = true},
                              [](int64_t j) { return j % 2 ? std::log(0.35) : 0; });
       },
       Bug::kLse},
      {T::kRepeated, "beside_heavy_keys", "one f16 sum of 700 p of 1.45 ulps after eight of 1",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}),
       [] {
         return nearly_scored({.keys = 708, .lse = true},
                              [](int64_t j) { return j < 8 ? 0 : std::log(1.45 * 0x1p-7); });
       },
       Bug::kLse},
      {T::kRepeated,
       "nearly_equal_in_f32",
       "one f32 sum of 20,000 p that differ by 0.01 %",
       {},
       [] { return dense({.keys = 20000, .rows = 4, .q_factor = 1e-4, .lse = true}); },
       Bug::kLse},
      {T::kAlikeProducts,
       "alike_products",
       "one f32 sum of 32,768 p that differ by 0.01 %, values 3.0093 in the first eighth, "
       "-3.0093/7 in the rest",
       {},
       [] {
         Case c = dense({.keys = 32768, .rows = 4, .q_factor = 1e-4});
         edit(c, ATTEST_V,
              [](int64_t j, int64_t, double) { return j < 4096 ? 3.0093 : -3.0093 / 7; });
         return c;
       },
       Bug::kAddition},
      {T::kParts, "clusters_of_parts",
       "1,560 p in four f16 sums, of which half are 0.306 of the others",
       in(ATTEST_F32, {{kAccumulator, ATTEST_F16}}, 0, 390),
       [] {
         return nearly_scored({.keys = 1560, .rows = 128, .lse = true},
                              [](int64_t j) { return j % 2 ? std::log(0.306) : 0; });
       },
       Bug::kLse},
      {T::kAccumulator,
       "accumulator",
       "one f32 sum over 16,411 keys with mean(v) = 1",
       {},
       [] { return dense({.keys = 16411, .rows = 4, .mean_v = 1}); },
       Bug::kNormaliser},
      {T::kReach,
       "reach",
       "values that are 100 in the first half, -100 in the second",
       {},
       [] {
         Case c = dense({.keys = 4098});
         edit(c, ATTEST_V,
              [](int64_t j, int64_t, double x) { return x + (j < 2049 ? 100 : -100); });
         return c;
       }},
      {T::kAbsorbed,
       "absorbed",
       "16,410 p of 2^-26 after one of 1",
       {},
       [] { return dominated({.keys = 16411, .rows = 4, .mean_v = 1, .lse = true}, 0, 18); },
       Bug::kLse},
      {T::kRepeated,
       "repeated",
       "0.7 added 16,410 times in f32",
       {},
       [] {
         Case c = dense({.keys = 16411, .rows = 4, .mean_v = 1});
         edit(c, ATTEST_Q, [](int64_t, int64_t d, double) { return d == 0; });
         edit(c, ATTEST_K, [](int64_t j, int64_t d, double) {
           return d == 0 && j == 0 ? 0.35 * std::sqrt(32.0) : 0;
         });
         return c;
       },
       Bug::kNormaliser},
  };
}

std::vector<TermCase> terms_of_values() {
  return {
      {T::kSmallValues, "small_values", "V near 2^-13 kept in f8e4m3",
       in(ATTEST_F32, {{kPv, ATTEST_F8E4M3}}),
       [] {
         Case c = dense({});
         edit(c, ATTEST_V, [](int64_t, int64_t, double x) { return 0x1p-13 * x; });
         return c;
       },
       Bug::kAddition},
      {T::kValues, "values", "V as bf16, all of it 1.003", in(ATTEST_F32, {{kPv, ATTEST_BF16}}),
       [] {
         Case c = dense({});
         edit(c, ATTEST_V, [](int64_t, int64_t, double) { return 1.003; });
         return c;
       },
       Bug::kNormaliser},
      {T::kOutput, "output", "stores o in f16", in(ATTEST_F16, {}),
       [] { return dense({.keys = 7, .dtype = ATTEST_F16}); }, Bug::kNormaliser},
      {T::kOutputSubnormal, "output_subnormal", "stores o near 2^-18 in f16", in(ATTEST_F16, {}),
       [] {
         Case c = dense({.keys = 7, .dtype = ATTEST_F16});
         edit(c, ATTEST_V, [](int64_t, int64_t, double x) { return x * 0x1p-18; });
         return c;
       },
       Bug::kNormaliser},
  };
}

std::vector<TermCase> terms_of_shared_roundings() {
  return {
      {T::kSharedRoundings,
       "shared_query",
       "Q as bf16, tokens of two flat halves of a picture that score alike",
       in(ATTEST_F32, {{kQk, ATTEST_BF16}}),
       [] {
         Case c = two_halves({.keys = 1024}, 1, -1);
         swap_channels_of_second_half(c);
         return c;
       },
       Bug::kAddition,
       {},
       {"tokens"}},
      {T::kSharedRoundings,
       "shared_keys",
       "K as bf16, tokens of two flat halves of a picture, a large common part in all keys",
       in(ATTEST_F32, {{kQk, ATTEST_BF16}}),
       [] {
         Case c = two_halves({.keys = 1024, .q_factor = 0.1}, 1, -1);
         edit(c, ATTEST_K, [](int64_t, int64_t d, double x) { return x + 20 + double(d); });
         return c;
       },
       Bug::kAddition,
       {},
       {"tokens"}},
      {T::kSharedRoundings,
       "shared_values",
       "V as bf16, tokens of two flat halves of a picture whose values cancel",
       in(ATTEST_F32, {{kPv, ATTEST_BF16}}),
       [] { return two_halves({.keys = 1024, .q_factor = 1e-3}, 1.003, -1.007); },
       Bug::kAddition,
       {},
       {"tokens"}},
      {T::kLeaning,
       "shared_probabilities",
       "P as bf16, tokens of two flat halves of a picture",
       in(ATTEST_F32, {{kProbability, ATTEST_BF16}}),
       [] { return two_halves({.keys = 1024}, 1, -1); },
       Bug::kAddition,
       {},
       {"tokens"}},
  };
}

std::vector<TermCase> terms_of_top_k() {
  return {
      {T::kSwapped,
       "swapped",
       "keys at the edge of top_k whose scores differ by the order of their sums alone",
       {},
       [] {
         Case c = dense({.keys = 300});
         c.problem.as<Params>().top_k = 14;
         finish_problem(c.problem);
         softmax_operation().fill(c.problem, {"top_k_close", 1}, c.tensors, false);
         return c;
       },
       Bug::kAddition,
       {.mixed_orders = true},
       {"top_k_close"}},
      {T::kSwapped, "swapped_far", "f16 scores near -40,960, of which all are equal, with top_k 1",
       in(ATTEST_F32, {{kScore, ATTEST_F16}}),
       [] {
         Case c = dense({.keys = 300, .row_bias = true});
         c.problem.as<Params>().top_k = 1;
         finish_problem(c.problem);
         edit(c, ATTEST_BIAS, [](int64_t, int64_t, double) { return -40960; });
         edit(c, ATTEST_V, [](int64_t, int64_t, double x) { return 1e-3 * x; });
         return c;
       },
       Bug::kAddition},
      {T::kSwapped,
       "swapped_ties",
       "f16 scores of which those at the edge are equal, and all of them count",
       in(ATTEST_F32, {{kScore, ATTEST_F16}}),
       [] {
         Case c = dense({.keys = 4099, .lse = true});
         c.problem.as<Params>().top_k = 1902;
         c.problem.as<Params>().top_k_ties = ATTEST_TOP_K_ALL_TIES;
         finish_problem(c.problem);
         softmax_operation().fill(c.problem, {"top_k_close", 1}, c.tensors, false);
         return c;
       },
       Bug::kLse,
       {},
       {"top_k_close"}},
      {T::kFewScores,
       "few_scores",
       "f16 scores of 16 levels, all of which are 1e-4 of a level beside a number of f16",
       in(ATTEST_F16, {{kScore, ATTEST_F16}}),
       [] {
         // With four channels, the fill has no other rows.
         Case c = dense({.keys = 4099,
                         .head_dim = 4,
                         .dtype = ATTEST_F16,
                         .lse = true,
                         .softmax_scale = 0.17677669f});
         c.problem.as<Params>().top_k = 2000;
         finish_problem(c.problem);
         softmax_operation().fill(c.problem, {"top_k_levels", 1}, c.tensors, false);
         return c;
       },
       Bug::kLse,
       {},
       {"top_k_levels"}},
      {T::kRepeated,
       "repeated_scores",
       "f32 sums of 1,420 equal p of different keys; a sink makes p smaller than 1",
       {},
       [] {
         Case c = dense({.keys = 20000, .rows = 8, .head_dim = 4, .lse = true, .sink = 1});
         c.problem.as<Params>().top_k = 1420;
         finish_problem(c.problem);
         softmax_operation().fill(c.problem, {"top_k_levels", 1}, c.tensors, false);
         static_cast<float*>(c.tensors[ATTEST_SINKS].data)[0] = 5;
         return c;
       },
       Bug::kLse,
       {},
       {"top_k_levels"}},
  };
}

std::vector<TermCase> term_cases() {
  std::vector<TermCase> all;
  for (auto* const terms : {terms_of_dot_products, terms_of_scores, terms_of_probabilities,
                            terms_of_flushed_probabilities, terms_of_sums, terms_of_values,
                            terms_of_shared_roundings, terms_of_top_k}) {
    for (TermCase& c : terms()) all.push_back(std::move(c));
  }
  return all;
}

// --- Emulating ---

void emulate_into(const Case& c, const TermCase& term, double bug_size) {
  Problem problem = c.problem;
  if (term.bug == Bug::kScale) problem.as<Params>().softmax_scale *= float(1 + bug_size);
  const double normaliser = term.bug == Bug::kNormaliser ? 1 - bug_size : 1;
  const double lse_normaliser =
      term.bug == Bug::kNormaliser || term.bug == Bug::kLse ? 1 - bug_size : 1;
  const double addition = term.bug == Bug::kAddition       ? bug_size
                          : term.bug == Bug::kTinyAddition ? bug_size * 0x1p-100
                                                           : 0;
  emulate_softmax(
      problem, c.tensors, term.arithmetic, term.style, testing::all_rows(c.tensors[ATTEST_O]),
      testing::store_into(c.tensors, [&](int32_t role, double value) {
        if (role == ATTEST_O) return value / normaliser + addition;
        return value + std::log(lse_normaliser) - (term.bug == Bug::kLseAddition ? bug_size : 0);
      }));
}

static_assert(SigmaModel::kGate == Gates::kLargest);

class SigmaTerms : public ::testing::TestWithParam<TermCase> {};

TEST_P(SigmaTerms, IsNeededAndNoLargerThanNeeded) {
  const TermCase& term = GetParam();
  const Case c = term.inputs();
  const char* bug = term.bug == Bug::kScale          ? "softmax_scale off"
                    : term.bug == Bug::kAddition     ? "o off"
                    : term.bug == Bug::kTinyAddition ? "o off in units of 2^-100"
                    : term.bug == Bug::kLseAddition  ? "lse off"
                                                     : "normaliser off";
  testing::put_on_trial(term, c, bug, [&](double size) { emulate_into(c, term, size); }, term.fill);
}

INSTANTIATE_TEST_SUITE_P(Softmax, SigmaTerms, ::testing::ValuesIn(term_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(SigmaTermTable, HasEveryTerm) { testing::expect_every_term(term_cases()); }
TEST(SigmaTermTable, IsOnThePage) {
  testing::expect_rows_on_page(
      term_cases(), std::filesystem::path(ATTEST_SOURCE_DIR) / "harness/core/judge/SIGMA.md");
}

}  // namespace
}  // namespace attest::core
