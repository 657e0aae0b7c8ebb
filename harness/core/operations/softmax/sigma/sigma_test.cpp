// Honest kernels in every arithmetic stay within the gates, planted bugs do not. The kernels are
// emulations, written here, that round exactly where they say.
#include "core/operations/softmax/sigma/sigma.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <numeric>

#include "core/operations/softmax/sigma/phases.hpp"
#include "core/operations/softmax/testing/brute_force.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using testing::Case;
using testing::make_case;
using Params = attest_softmax_params;

constexpr double kLargestGate = 6, kRmsGate = 1.5;

double rounded(double x, DType dtype) {
  if (dtype == ATTEST_TF32 ||
      dtype == ATTEST_3XTF32) {  // by Veltkamp's splitting: as many bits as the roundoff says
    const double factor = 0x1p53 * unit_roundoff(dtype) + 1, t = factor * x;
    return t - (t - x);
  }
  // What is rounded here is a float32 already, or a product of two halves
  const float narrow = float(x);
  if (dtype == ATTEST_F32) return double(narrow);
  char bytes[8];
  double back;
  store_row(bytes, dtype, 0, 1, 1, &narrow);
  load_row(bytes, dtype, 0, 1, 1, &back);
  return back;
}
double truncated(double x, DType dtype) {
  if (x < smallest_normal(dtype))
    return std::floor(x / (2 * half_subnormal(dtype))) * 2 * half_subnormal(dtype);
  const double y = rounded(x, dtype);
  return y <= x ? y
                : rounded(x * (1 - unit_roundoff(dtype)), dtype);  // half an ulp to one ulp lower
}

enum class Bug { kNone, kDroppedTile, kSkippedRescale, kWrongScale, kSwappedHead, kLostKey };

// One dense kernel; its accumulator is float32.
struct Emulation {
  const char* name;
  SoftmaxArithmetic arithmetic;
  int64_t tile = 64;         // 0: unfused, the maximum is known before
  bool folds_scale = false;  // Q is scaled before it is rounded to the operand
  Bug bug = Bug::kNone;

  // o [num_heads, seq_len_q, head_dim_v] as stored, then lse [num_heads, seq_len_q].
  std::pair<std::vector<double>, std::vector<double>> run(const Case& c) const;
};

std::pair<std::vector<double>, std::vector<double>> Emulation::run(const Case& c) const {
  const Params& p = c.params();
  const SoftmaxArithmetic& a = arithmetic;
  std::vector<double> out, lses;
  const int64_t n = p.seq_len_kv, d_qk = p.head_dim, d_v = p.head_dim_v;
  auto f32 = [](double x) { return double(float(x)); };
  auto load_head = [&](int32_t role, int64_t h, int64_t rows, int64_t width) {
    std::vector<double> x(size_t(rows * width));
    load_row(c.tensors[size_t(role)].data, c.tensors[size_t(role)].spec.dtype, h * rows * width,
             rows * width, 1, x.data());
    return x;
  };
  for (int64_t h = 0; h < p.num_heads; ++h) {
    const int64_t head = bug == Bug::kSwappedHead ? p.num_heads - 1 - h : h;
    std::vector<double> q = load_head(ATTEST_Q, h, p.seq_len_q, d_qk),
                        k = load_head(ATTEST_K, head, n, d_qk),
                        v = load_head(ATTEST_V, head, n, d_v);
    const double scale = double(p.softmax_scale) * (bug == Bug::kWrongScale ? 1.02 : 1);
    for (double& x : q) x = rounded(folds_scale ? f32(x * scale) : x, a.qk);
    for (double& x : k) x = rounded(x, a.qk);
    for (double& x : v) x = rounded(x, a.pv);
    for (int64_t i = 0; i < p.seq_len_q; ++i) {
      std::vector<double> s(static_cast<size_t>(n));
      for (int64_t j = 0; j < n; ++j) {
        float dot = 0;
        for (int64_t d = 0; d < d_qk; ++d)
          dot += float(q[size_t(i * d_qk + d)] * k[size_t(j * d_qk + d)]);
        s[size_t(j)] = rounded(folds_scale ? double(dot) : f32(double(dot) * scale), a.score);
      }
      const int64_t width = tile > 0 ? tile : n;
      double m = tile > 0 ? -INFINITY : *std::max_element(s.begin(), s.end());
      double total = 0;
      std::vector<double> sum(size_t(d_v), 0.0);
      if (a.has(ATTEST_P_NORMALISED_FIRST))
        for (const double x : s) total = f32(total + f32(std::exp(x - m)));
      const int64_t last = bug == Bug::kDroppedTile ? n - width : bug == Bug::kLostKey ? n - 1 : n;
      for (int64_t first = 0; first < last; first += width) {
        const int64_t end = std::min(first + width, last);
        const double before = m;
        for (int64_t j = first; j < end; ++j) m = std::max(m, s[size_t(j)]);
        const double rescale =
            bug == Bug::kSkippedRescale || before == m ? 1 : f32(std::exp(before - m));
        total = a.has(ATTEST_P_NORMALISED_FIRST) ? total : f32(total * rescale);
        for (double& x : sum) x = f32(x * rescale);
        for (int64_t j = first; j < end; ++j) {
          double e = f32(std::exp(f32(s[size_t(j)] - m)) *
                         (1 + a.exp_error * (2 * double(random_uniform(5, uint64_t(j))) - 1)));
          if (a.has(ATTEST_P_NORMALISED_FIRST)) e = f32(e / total);
          double low =
              a.has(ATTEST_P_TRUNCATED) ? truncated(e, a.probability) : rounded(e, a.probability);
          if (a.has(ATTEST_FLUSHES_SUBNORMALS) && low < smallest_normal(a.probability)) low = 0;
          if (!a.has(ATTEST_P_NORMALISED_FIRST))
            total = f32(total + (a.has(ATTEST_SUMS_ROUNDED_P) ? low : e));
          low = rounded(low, a.pv);
          for (int64_t d = 0; d < d_v; ++d)
            sum[size_t(d)] = f32(sum[size_t(d)] + low * v[size_t(j * d_v + d)]);
        }
      }
      for (const double x : sum)
        out.push_back(rounded(a.has(ATTEST_P_NORMALISED_FIRST) ? x : f32(x / total), a.output));
      lses.push_back(f32(m + f32(std::log(total))));
    }
  }
  return {out, lses};
}

struct Ratio {
  double largest = 0, rms = 0, lse = 0, lse_rms = 0;
  bool within() const {
    return largest <= kLargestGate && rms <= kRmsGate && lse <= kLargestGate && lse_rms <= kRmsGate;
  }
};
std::ostream& operator<<(std::ostream& out, const Ratio& r) {
  return out << "largest " << r.largest << " rms " << r.rms << " lse " << r.lse << " rms "
             << r.lse_rms;
}

Ratio ratio(const Case& c, const Golden& golden, const Emulation& kernel) {
  const auto [o, lse] = kernel.run(c);
  Ratio found;
  double squares = 0, lse_squares = 0;
  golden.expect(kernel.arithmetic, [&](const Expected& e) {
    for (size_t r = 0; r < e.rows.size(); ++r)
      for (int64_t d = 0; d < e.width; ++d) {
        const size_t at = size_t(e.rows[r] * e.width + d),
                     in = e.shared ? size_t(d) : r * size_t(e.width) + size_t(d);
        const double x = std::fabs((e.role == ATTEST_O ? o : lse)[at] - e.value[in]) / e.sigma[in];
        (e.role == ATTEST_O ? found.largest : found.lse) =
            std::max(e.role == ATTEST_O ? found.largest : found.lse, x);
        (e.role == ATTEST_O ? squares : lse_squares) += x * x;
      }
  });
  found.rms = std::sqrt(squares / double(o.size()));
  found.lse_rms = std::sqrt(lse_squares / double(lse.size()));
  return found;
}
Ratio ratio(const Case& c, const Emulation& kernel) {
  return ratio(c, *softmax_operation().golden(c.problem, {"random", 1}, c.tensors), kernel);
}

// Every arithmetic that the contract can declare, in storage of `output`.
std::vector<Emulation> honest(DType output) {
  SoftmaxArithmetic f32{.output = output}, f16 = f32, bf16 = f32, tf32 = f32, scores = f32,
                                           normalised = f32, truncating = f32, sums = f32,
                                           flushing = f32, rough = f32, three = f32;
  f16.qk = f16.pv = f16.probability = ATTEST_F16;
  bf16.qk = bf16.pv = bf16.probability = ATTEST_BF16;
  tf32.qk = tf32.pv = tf32.probability = ATTEST_TF32;
  three.qk = three.pv = ATTEST_3XTF32;
  scores.score = ATTEST_F16;
  normalised = f16;
  normalised.ways = ATTEST_P_NORMALISED_FIRST;
  truncating = f16;
  truncating.ways = ATTEST_P_TRUNCATED;
  sums = f16;
  sums.ways = ATTEST_SUMS_ROUNDED_P;
  flushing = f16;
  flushing.ways = ATTEST_P_NORMALISED_FIRST | ATTEST_FLUSHES_SUBNORMALS;
  rough.exp_error = 1e-4;
  return {{"unfused f32", f32, 0},
          {"tiled f32", f32},
          {"tiled f32, scale folded", f32, 64, true},
          {"f16 operands", f16},
          {"f16 operands, scale folded", f16, 64, true},
          {"bf16 operands, scale folded", bf16, 64, true},
          {"tf32", tf32},
          {"3xtf32", three},
          {"f16 scores", scores, 0},
          {"unfused f16, normalised first", normalised, 0},
          {"truncated f16", truncating},
          {"sums rounded f16", sums},
          {"flushed f16", flushing, 0},
          {"rough exp", rough}};
}

Case dense(int64_t n, DType dtype, double q_factor = 1, double v_mean = 0, int64_t rows = 24) {
  Case c = make_case(
      "",
      [&](Params& p) {
        p.seq_len_q = rows;
        p.seq_len_kv = n;
        p.num_heads = 2;
        p.head_dim = 32;
      },
      {ATTEST_LSE}, dtype);
  auto change = [&](int32_t role, double factor, double offset) {
    const Tensor& x = c.tensors[size_t(role)];
    for (int64_t k = 0; k < element_count(x.spec); ++k)
      store(x.data, dtype, k, load(x.data, dtype, k) * factor + offset);
  };
  change(ATTEST_Q, q_factor, 0);
  change(ATTEST_V, 1, v_mean);
  return c;
}

TEST(Sigma, HonestKernelsStayWithinTheGates) {
  struct Input {
    int64_t n;
    double q_factor, v_mean;
  };
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16})
    for (const Input& in : {Input{1, 1, 0},
                            {7, 1, 0},
                            {61, 1, 0},
                            {197, 1, 1},
                            {1021, 1, 0},
                            {1021, 4, 0},
                            {1021, 0.001, 1},
                            {509, 12, 0}}) {
      const Case c = dense(in.n, dtype, in.q_factor, in.v_mean, in.n > 1000 ? 16 : 24);
      const auto golden = softmax_operation().golden(c.problem, {"random", 1}, c.tensors);
      for (const Emulation& kernel : honest(dtype)) {
        const Ratio r = ratio(c, *golden, kernel);
        EXPECT_TRUE(r.within()) << kernel.name << " in " << dtype_name(dtype) << " over " << in.n
                                << " keys, q times " << in.q_factor << ", mean(v) " << in.v_mean
                                << ": " << r;
      }
    }
}

// However many queries there are, rounded keys have few errors to share. A closed form has the same
// key vectors in all sequences.
TEST(Sigma, RowsOfAKeyHeadShareTheErrorsOfItsKeys) {
  const auto independent = [](DType qk, int32_t role, const char* fill, DType dtype = ATTEST_F32) {
    Case c = testing::make_case(
        "",
        [](attest_softmax_params& p) {
          p.batch = 2;
          p.num_heads = 4;
          p.num_kv_heads = 2;
          p.seq_len_q = 400;
          p.head_dim = 3;
          p.head_dim_v = 5;
        },
        {ATTEST_LSE}, dtype);
    softmax_operation().fill(c.problem, {fill, 1}, c.tensors, false);
    return softmax_operation()
        .golden(c.problem, {fill, 1}, c.tensors)
        ->independent_rows(SoftmaxArithmetic{.qk = qk}, role);
  };
  const std::pair<const char*, int64_t> sequences[] = {{"random", 2}, {"codebook", 1}};
  for (const auto& [fill, own] : sequences) {
    EXPECT_EQ(independent(ATTEST_BF16, ATTEST_LSE, fill), own * 2 * 3);
    EXPECT_EQ(independent(ATTEST_TF32, ATTEST_LSE, fill), own * 2 * 3);
    // bf16 keys may be scaled, and rounded again.
    EXPECT_EQ(independent(ATTEST_BF16, ATTEST_LSE, fill, ATTEST_BF16), own * 2 * 3);
    EXPECT_EQ(independent(ATTEST_BF16, ATTEST_O, fill), own * 2 * 3 * 5);
    EXPECT_GT(independent(ATTEST_F32, ATTEST_LSE, fill), 95);
  }
}

// What is left of the errors of addends that lie anywhere in their ulps
double alike(std::initializer_list<double> turns, double repeats) {
  Phases phases;
  for (const double x : turns) phases.add(x, repeats);
  return phases.alike(double(turns.size()) * repeats);
}

TEST(Phases, KnowAddendsThatRoundAlike) {
  EXPECT_NEAR(alike({3.2}, 100), 1, 1e-12);
  EXPECT_NEAR(alike({3.2, 5.2, 17.2}, 100), 1, 1e-12);
  // Half an ulp apart: the sum had their distance as its ulp before it doubled.
  EXPECT_NEAR(alike({3.2, 5.7}, 100), 0.25 + 1. / 16, 2e-2);
  EXPECT_LT(alike({0.1, 0.3, 0.5, 0.7, 0.9}, 100), 1e-2);
  EXPECT_EQ(alike({0.3}, 1), 0);
  Phases few;
  few.add(0.3, 50);
  EXPECT_NEAR(few.alike(100), 0.25 * 1.42, 1e-2);  // those that were not added round like no other
}

// Any number of addends, whole vectors or not, has the harmonics of the unit circle.
TEST(Phases, TurnOnTheUnitCircle) {
  double most = 0;
  for (int64_t count : {1, 3, 8, 13, 64, 1001}) {
    std::vector<double> turns, sizes;
    std::complex<double> sums[kernels::kPhaseHarmonics];
    for (int64_t n = 0; n < count; ++n) {
      turns.push_back(double(n * n) / 10'000 + 1e-5 * double(n % 7));
      sizes.push_back(n % 3 == 0 ? -0.5 : 2);
      for (int k = 1; k <= kernels::kPhaseHarmonics; ++k)
        sums[k - 1] += sizes.back() * std::polar(1.0, 2 * M_PI * double(k) * turns.back());
    }
    const double all = std::transform_reduce(sizes.begin(), sizes.end(), 0.0, std::plus(),
                                             [](double size) { return std::fabs(size); });
    double got[2 * kernels::kPhaseHarmonics] = {};
    kernels::sum_phases(turns.data(), sizes.data(), count, got);
    for (int k = 1; k <= kernels::kPhaseHarmonics; ++k)
      most = std::max(most,
                      std::abs(std::complex(got[2 * k - 2], got[2 * k - 1]) - sums[k - 1]) / all);
  }
  EXPECT_LT(most, 6e-6);
  EXPECT_EQ(alike({0x1p60}, 100), 1);  // what has no fraction counts as whole
}

// Addends that wait for others count, and once.
TEST(Phases, AreTheSameOfAddendsOneByOneAndOfMany) {
  Phases one_by_one, many;
  for (int n = 0; n < 130; ++n) one_by_one.add(0.3 + n % 2 * 0.25);
  many.add(0.3, 65);
  many.add(0.55, 65);
  EXPECT_NEAR(one_by_one.alike(130), many.alike(130), 1e-6);
}

// A head of one channel has no room for the queries of "rising": all are 0, and all rows err alike.
TEST(Sigma, EqualQueriesOfClosedFormsErrAlike) {
  const auto distinct = [](int64_t head_dim) {
    Case c = testing::make_case("", [&](attest_softmax_params& p) {
      p.num_heads = 4;
      p.num_kv_heads = 2;
      p.seq_len_q = 400;
      p.head_dim = head_dim;
    });
    softmax_operation().fill(c.problem, {"rising", 1}, c.tensors, false);
    const auto golden = softmax_operation().golden(c.problem, {"rising", 1}, c.tensors);
    EXPECT_EQ(golden->method(), "closed form, all rows");
    return golden->independent_rows({}, ATTEST_O);
  };
  EXPECT_EQ(distinct(1), 2);
  EXPECT_GT(distinct(8), 16);
}

// Values that follow from the keys, as those of real tokens do: the rounding of a query moves all
// scores together.
TEST(Sigma, ValuesThatFollowFromKeys) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16}) {
    const Case c = dense(2039, dtype, 1, 0, 16);
    std::memcpy(c.tensors[ATTEST_V].data, c.tensors[ATTEST_K].data,
                size_t(extent_bytes(c.tensors[ATTEST_K].spec)));
    const auto golden = softmax_operation().golden(c.problem, {"random", 1}, c.tensors);
    for (const Emulation& kernel : honest(dtype)) {
      const Ratio r = ratio(c, *golden, kernel);
      EXPECT_TRUE(r.within()) << kernel.name << " in " << dtype_name(dtype) << ": " << r;
    }
  }
}

// A sum over all keys in one float32 chain, with a mean that does not cancel.
TEST(Sigma, OneLongChain) {
  const Case c = dense(16411, ATTEST_F32, 1, 1, 2);
  const Ratio r = ratio(c, Emulation{"", {}, 0});
  EXPECT_TRUE(r.within()) << r;
}

// Roundings of equal scores are equal: they add up.
TEST(Sigma, EqualScores) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16}) {
    Case repeated = dense(1021, dtype, 1, 0.5, 16), zero = repeated, few = repeated;
    zero.allocate();
    few.allocate();
    for (Case* c : {&repeated, &zero, &few}) {
      c->fill();
      const Tensor &k = c->tensors[ATTEST_K], &q = c->tensors[ATTEST_Q];
      const int64_t d = c->params().head_dim, n = c->params().seq_len_kv;
      // One key for all; no query; seven keys, each many times, beside a few lone ones.
      for (int64_t row = 0; row < 2 * n; ++row)
        for (int64_t x = 0; x < d; ++x) {
          const int64_t h = row / n, from = c == &repeated                ? 0
                                            : c == &few && row % n < 1000 ? row % n % 7
                                                                          : row % n;
          store(k.data, dtype, row * d + x, load(k.data, dtype, (h * n + from) * d + x));
        }
      for (int64_t x = 0; c == &zero && x < element_count(q.spec); ++x) store(q.data, dtype, x, 0);
      const auto golden = softmax_operation().golden(c->problem, {"random", 1}, c->tensors);
      for (const Emulation& kernel : honest(dtype)) {
        const Ratio r = ratio(*c, *golden, kernel);
        EXPECT_TRUE(r.within()) << kernel.name << " in " << dtype_name(dtype)
                                << (c == &repeated ? " one key"
                                    : c == &zero   ? " no query"
                                                   : " seven keys")
                                << ": " << r;
      }
    }
  }
}

// The exact values with equal keys are those without: they only take another way through the
// golden.
TEST(Sigma, EqualKeysDoNotChangeTheOutput) {
  Case c = make_case("",
                     [](Params& p) {
                       p.seq_len_q = 90;
                       p.window_right = 3;
                       p.window_left = 40;
                     },
                     {ATTEST_LSE, ATTEST_MASK});
  const Tensor& k = c.tensors[ATTEST_K];
  for (int64_t row = 0; row < 180; ++row)
    for (int64_t d = 0; row % 3 != 1 && d < 8; ++d)
      store(k.data, ATTEST_F32, row * 8 + d,
            load(k.data, ATTEST_F32, (row / 90 * 90 + row % 5) * 8 + d));
  const auto rows = testing::Brute(c).rows();
  const testing::Brute brute(c);
  const auto golden = softmax_operation().golden(c.problem, {"random", 1}, c.tensors);
  golden->expect({}, [&](const Expected& e) {
    for (size_t r = 0; r < e.rows.size(); ++r) {
      const testing::BruteRow& row = rows.at(e.rows[r]);
      const std::vector<long double> o = brute.o(row, e.rows[r] / 90);
      for (int64_t d = 0; d < e.width; ++d) {
        const double expected = double(e.role == ATTEST_O ? o[size_t(d)] : brute.lse(row)),
                     got = e.value[(e.shared ? 0 : r * size_t(e.width)) + size_t(d)];
        if (std::isfinite(expected))
          ASSERT_NEAR(got, expected, 1e-13);
        else
          ASSERT_EQ(got, expected);
      }
    }
  });
}

// One key takes nearly all the weight, the others fall under float16's subnormals.
TEST(Sigma, OneDominantKey) {
  for (const int64_t at : {0, 63, 64, 1020}) {
    Case c = dense(1021, ATTEST_F16, 1, 0, 8);
    const Tensor &k = c.tensors[ATTEST_K], &q = c.tensors[ATTEST_Q];
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t d = 0; d < 32; ++d) {
        for (int64_t i = 0; i < 8; ++i)
          store(q.data, ATTEST_F16, (h * 8 + i) * 32 + d, load(q.data, ATTEST_F16, h * 8 * 32 + d));
        store(k.data, ATTEST_F16, (h * 1021 + at) * 32 + d,
              3 * load(q.data, ATTEST_F16, h * 8 * 32 + d));
      }
    const auto golden = softmax_operation().golden(c.problem, {"random", 1}, c.tensors);
    for (const Emulation& kernel : honest(ATTEST_F16)) {
      const Ratio r = ratio(c, *golden, kernel);
      EXPECT_TRUE(r.within()) << kernel.name << " at " << at << ": " << r;
    }
  }
}

TEST(Sigma, PlantedBugsExceedTheGates) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16})
    for (const int64_t n : {61, 197, 1021}) {
      const Case c = dense(n, dtype, 1, 0, 16);
      const auto golden = softmax_operation().golden(c.problem, {"random", 1}, c.tensors);
      for (Emulation kernel : honest(dtype))
        for (const Bug bug : {Bug::kDroppedTile, Bug::kSkippedRescale, Bug::kWrongScale,
                              Bug::kSwappedHead, Bug::kLostKey}) {
          if (kernel.tile == 0 || kernel.arithmetic.has(ATTEST_P_NORMALISED_FIRST)) continue;
          if (kernel.tile >= n && (bug == Bug::kDroppedTile || bug == Bug::kSkippedRescale))
            continue;  // no such tile, nothing to rescale
          if (bug == Bug::kWrongScale &&
              (dtype == ATTEST_BF16 || kernel.arithmetic.probability == ATTEST_BF16))
            continue;  // 2 % of a score of 1 is four roundoffs
          kernel.bug = bug;
          const Ratio r = ratio(c, *golden, kernel);
          EXPECT_TRUE(r.largest > kLargestGate || r.rms > kRmsGate)
              << kernel.name << " in " << dtype_name(dtype) << " with bug " << int(bug) << " over "
              << n << " keys: " << r;
        }
    }
}

// A sequential sum whose first product is -12,000 and whose others are near 1. Each of its
// roundings has the ulp of the whole sum, so their variance is three times that of a sum that grows
// evenly.
TEST(Sigma, DotProductsOfSpreadScoresMayHaveTheirSizeFromTheFirstProductOn) {
  constexpr int64_t kProducts = 1000, kTrials = 2000;
  SigmaModel model({}, ATTEST_F32, kProducts);
  model.take_spread_scores();
  double squares = 0, size = 0;
  for (int64_t trial = 0; trial < kTrials; ++trial) {
    float sum = -12000;
    double exact = sum;
    for (int64_t n = 1; n < kProducts; ++n) {
      const float product = random_normal(3, uint64_t(trial * kProducts + n));
      sum += product;
      exact += double(product);
    }
    squares += (double(sum) - exact) * (double(sum) - exact) / double(kTrials);
    size += exact * exact / double(kTrials);
  }
  EXPECT_GT(model.growth() * size, squares);
  EXPECT_LT(model.growth() * size, 4 * squares);
  EXPECT_LT(model.growth() / SigmaModel::kUneven * size, squares) << "of sums that grow evenly";
}

// Slack must not be for sale: what a term adds is what its declaration costs, and the accumulator's
// dtype is no back door.
TEST(Sigma, TermsGrowWithWhatIsDeclared) {
  const SigmaModel f32({}, ATTEST_F32, 64),
      f16({.qk = ATTEST_F16, .pv = ATTEST_F16, .probability = ATTEST_F16}, ATTEST_F16, 64);
  EXPECT_FALSE(f32.squares());
  EXPECT_TRUE(f16.squares());
  EXPECT_EQ(f16.u_v, 0) << "V is stored as the operand: it is not rounded again";
  EXPECT_EQ(SigmaModel({.pv = ATTEST_TF32}, ATTEST_F32, 64).u_v, 0x1p-11);
  EXPECT_NEAR(std::sqrt(f32.qk_variance(5)) / (6 * 0x1p-24), 1, 1e-12);
  // Rounded operands: of the size of the score's own spread, not of sum |q k|, which is
  // sqrt(head_dim) larger.
  EXPECT_NEAR(std::sqrt(f16.qk_variance(1)) / 0x1p-11, std::sqrt(2.0 / 3), 0.01);
  const ElementSums sums{.o = 0.5, .rounding = 1e-6, .score = 1e-8, .p2v2 = 1e-4};
  EXPECT_LT(f32.element_sigma(sums, 100), f32.element_sigma(sums, 10000));
  EXPECT_EQ(SigmaModel({.sum_chain = 64}, ATTEST_F32, 64).element_sigma(sums, 10000),
            SigmaModel({.sum_chain = 64}, ATTEST_F32, 64).element_sigma(sums, 64));
}

}  // namespace
}  // namespace attest::core
