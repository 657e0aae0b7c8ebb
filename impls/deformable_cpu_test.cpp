// deformable_cpu against float64 by definition: random problems of small odd sizes with every
// layout and mix of element types, on every instruction set that this machine has.
#include <gtest/gtest.h>

#include "simd/testing/sweep.hpp"
#include "simd/testing/trial.hpp"

namespace {

using trial::Random, trial::Tensor, trial::Trial;

// Locations that are multiples of it have coordinates that float32 holds.
constexpr double kStep = 1.0 / 32;

/// The same elements, the first dim fastest and the last slowest.
void turn(Tensor& t) {
  int64_t stride = 1;
  for (int n = 0; n < t.spec.rank; ++n) {
    t.spec.stride[n] = t.spec.dim[n] == 1 ? 0 : stride;
    stride *= t.spec.dim[n];
  }
}

/// The same elements of [batch, num_heads, tokens, channels], the heads of a token side by side.
void put_heads_between(Tensor& t) {
  const auto stride = [&](int dim, int64_t dense) {
    t.spec.stride[dim] = t.spec.dim[dim] == 1 ? 0 : dense;
  };
  stride(1, t.spec.dim[3]);
  stride(2, t.spec.dim[1] * t.spec.dim[3]);
}

double location(Random& r, bool exact) {
  const double far[] = {-1, 2, 60000, -60000, std::nan(""), trial::kInfinity, -trial::kInfinity};
  if (r.chance(10)) return far[r.upto(7) - 1];
  const double at = kStep * static_cast<double>(r.upto(44) - 6);
  return exact ? at : at + static_cast<double>(r.upto(1000)) * 1e-5;
}

/// `exact`: coordinates are exact, and some pixels are NaN or infinite. `queries`: how many at
/// most.
Trial make_trial(uint64_t seed, bool exact, int64_t queries) {
  Random r{std::mt19937_64(seed)};
  Trial t;
  t.operation = ATTEST_DEFORMABLE;
  attest_deformable_params& p = t.deformable();
  p.struct_size = sizeof p;
  p.batch = r.upto(2);
  p.num_heads = r.upto(3);
  p.seq_len_q = r.upto(queries);
  p.num_levels = static_cast<int32_t>(r.upto(3));
  p.num_points = r.upto(r.chance(10) ? 70 : 9);
  p.head_dim_v = std::min<int64_t>(trial::any_head_dim(r), 160);
  p.align_corners = r.chance(40);
  int64_t tokens = 0;
  for (int level = 0; level < p.num_levels; ++level) {
    p.level_height[level] = static_cast<int32_t>(r.chance(20) ? 1 : r.upto(50));
    p.level_width[level] = static_cast<int32_t>(r.chance(20) ? 1 : r.upto(50));
    tokens += p.level_height[level] * p.level_width[level];
  }
  t.threads = static_cast<int32_t>(r.upto(3));
  t.features = ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE;
  if (p.align_corners != 0) t.features |= ATTEST_WITH_ALIGN_CORNERS;
  const auto make = [&](int role, const std::vector<int64_t>& dims) -> Tensor& {
    t.tensor[role] = trial::make(r.pick<int32_t>({ATTEST_F32, ATTEST_F16, ATTEST_BF16}), dims,
                                 r.chance(20) ? r.upto(5) : 0);
    if (t.tensor[role].elements() > 0 && r.chance(15)) {
      t.tensor[role] = trial::make(t.tensor[role].spec.dtype, dims);
      turn(t.tensor[role]);
    }
    return t.tensor[role];
  };
  Tensor& v = make(ATTEST_V, {p.batch, p.num_heads, tokens, p.head_dim_v});
  if (r.chance(40)) {
    v = trial::make(v.spec.dtype, {p.batch, p.num_heads, tokens, p.head_dim_v});
    put_heads_between(v);
  }
  trial::randomize(v, r.engine, 1);
  for (size_t n = 0; exact && n < v.elements(); n += static_cast<size_t>(r.upto(2000)))
    v.set(static_cast<int64_t>(n), r.pick({std::nan(""), trial::kInfinity, -trial::kInfinity}));
  Tensor& locations =
      make(ATTEST_LOCATIONS, {p.batch, p.num_heads, p.seq_len_q, p.num_levels, p.num_points, 2});
  for (size_t n = 0; n < locations.elements(); ++n)
    locations.set(static_cast<int64_t>(n), location(r, exact));
  Tensor& weights =
      make(ATTEST_WEIGHTS, {p.batch, p.num_heads, p.seq_len_q, p.num_levels, p.num_points});
  trial::randomize(weights, r.engine, 1);
  make(ATTEST_O, {p.batch, p.num_heads, p.seq_len_q, p.head_dim_v});
  return t;
}

TEST(DeformableCpu, MatchesDefinition) {
  trial::sweep(
      "deformable_cpu", 60, [](uint64_t seed) { return make_trial(seed, false, 40); },
      [](Trial& t) { return trial::judge_deformable(t, false); });
}

// Every pixel that a point touches counts, with a factor of 0 too; no other one does.
TEST(DeformableCpu, NanAndInfinityOfThePixelsThatAreTouched) {
  trial::sweep(
      "deformable_cpu", 60, [](uint64_t seed) { return make_trial(seed, true, 40); },
      [](Trial& t) { return trial::judge_deformable(t, true); });
}

/// Some weights are NaN or infinite.
Trial make_extreme_weights(uint64_t seed) {
  Trial t = make_trial(seed, true, 40);
  Random r{std::mt19937_64(seed)};
  Tensor& weights = t.tensor[ATTEST_WEIGHTS];
  for (size_t n = 0; n < weights.elements(); n += static_cast<size_t>(r.upto(60)))
    weights.set(static_cast<int64_t>(n),
                r.pick({trial::kInfinity, -trial::kInfinity, trial::kInfinity, std::nan("")}));
  return t;
}

// Pixels outside of a level add nothing then, and neither do points outside.
TEST(DeformableCpu, NanAndInfiniteWeightsCountInPixelsOfTheLevelOnly) {
  trial::sweep("deformable_cpu", 60, make_extreme_weights,
               [](Trial& t) { return trial::judge_deformable(t, true); });
}

/// Levels of some 60 pixels each, and so many points that a block has one query.
Trial make_many_levels(uint64_t seed) {
  Random r{std::mt19937_64(seed)};
  Trial t;
  t.operation = ATTEST_DEFORMABLE;
  attest_deformable_params& p = t.deformable();
  p.struct_size = sizeof p;
  p.batch = 1;
  p.num_heads = 2;
  p.seq_len_q = 5;
  p.head_dim_v = 24;
  p.num_levels = 8;
  p.num_points = 200;
  int64_t tokens = 0;
  for (int level = 0; level < p.num_levels; ++level) {
    p.level_height[level] = 5 + level;
    p.level_width[level] = 12 - level;
    tokens += p.level_height[level] * p.level_width[level];
  }
  t.threads = 2;
  t.tensor[ATTEST_V] = trial::make(ATTEST_F32, {1, 2, tokens, p.head_dim_v});
  t.tensor[ATTEST_LOCATIONS] = trial::make(ATTEST_F32, {1, 2, 5, 8, 200, 2});
  t.tensor[ATTEST_WEIGHTS] = trial::make(ATTEST_F32, {1, 2, 5, 8, 200});
  t.tensor[ATTEST_O] = trial::make(ATTEST_F32, {1, 2, 5, p.head_dim_v});
  trial::randomize(t.tensor[ATTEST_V], r.engine, 1);
  trial::randomize(t.tensor[ATTEST_WEIGHTS], r.engine, 1);
  Tensor& locations = t.tensor[ATTEST_LOCATIONS];
  for (size_t n = 0; n < locations.elements(); ++n)
    locations.set(static_cast<int64_t>(n), location(r, false));
  return t;
}

TEST(DeformableCpu, ManyLevelsMatchDefinition) {
  trial::sweep("deformable_cpu", 3, make_many_levels,
               [](Trial& t) { return trial::judge_deformable(t, false); });
}

/// Queries that are sorted by place, with V of another dtype and layout by the seed: dense, heads
/// between its rows, or channels apart.
Trial make_sorted(uint64_t seed) {
  Random r{std::mt19937_64(seed)};
  const int32_t dtype[] = {ATTEST_F32, ATTEST_F16, ATTEST_BF16};
  Trial t;
  t.operation = ATTEST_DEFORMABLE;
  attest_deformable_params& p = t.deformable();
  p = {sizeof p, 1, 1, 2, 1000, 32, 2, {70}, {80}, 0, 0};
  t.features = ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE;
  t.threads = 2;
  Tensor& v = t.tensor[ATTEST_V];
  v = trial::make(dtype[seed % 3], {1, 2, 70 * 80, 32});
  if (seed / 3 % 3 == 1) put_heads_between(v);
  if (seed / 3 % 3 == 2) turn(v);
  t.tensor[ATTEST_LOCATIONS] = trial::make(ATTEST_F32, {1, 2, 1000, 1, 2, 2});
  t.tensor[ATTEST_WEIGHTS] = trial::make(ATTEST_F32, {1, 2, 1000, 1, 2});
  t.tensor[ATTEST_O] = trial::make(ATTEST_F32, {1, 2, 1000, 32});
  trial::randomize(v, r.engine, 1);
  trial::randomize(t.tensor[ATTEST_WEIGHTS], r.engine, 1);
  Tensor& locations = t.tensor[ATTEST_LOCATIONS];
  for (size_t n = 0; n < locations.elements(); ++n)
    locations.set(static_cast<int64_t>(n), location(r, false));
  return t;
}

TEST(DeformableCpu, SortedQueriesMatchDefinitionInEveryLayout) {
  trial::sweep("deformable_cpu", 9, make_sorted,
               [](Trial& t) { return trial::judge_deformable(t, false); });
}

// So many queries that they are sorted by place, and that heads are cut into parts.
TEST(DeformableCpu, SortedQueriesMatchDefinitionAndGiveTheSameBitsForAnyNumberOfThreads) {
  const attest_impl* const impl = trial::load("deformable_cpu");
  ASSERT_NE(impl, nullptr);
  std::vector<char> first;
  for (const int32_t threads : {1, 2, 3}) {
    Trial t;
    t.operation = ATTEST_DEFORMABLE;
    Random r{std::mt19937_64(5)};
    attest_deformable_params& p = t.deformable();
    p = {sizeof p, 2, 1, 1, 5000, 16, 2, {70, 9}, {80, 7}, 0, 0};
    t.features = ATTEST_WITH_STRIDES;
    t.threads = threads;
    // Rows apart, which are copied together
    t.tensor[ATTEST_V] = trial::make(ATTEST_F32, {1, 1, 70 * 80 + 9 * 7, 16}, 3);
    t.tensor[ATTEST_LOCATIONS] = trial::make(ATTEST_F32, {1, 1, 5000, 2, 2, 2});
    t.tensor[ATTEST_WEIGHTS] = trial::make(ATTEST_F32, {1, 1, 5000, 2, 2});
    t.tensor[ATTEST_O] = trial::make(ATTEST_F32, {1, 1, 5000, 16});
    trial::randomize(t.tensor[ATTEST_V], r.engine, 1);
    trial::randomize(t.tensor[ATTEST_WEIGHTS], r.engine, 1);
    for (int64_t n = 0; n < 5000 * 8; ++n) t.tensor[ATTEST_LOCATIONS].set(n, location(r, false));
    ASSERT_EQ(trial::execute(*impl, t).status, ATTEST_OK);
    EXPECT_LE(trial::judge_deformable(t, false), 1) << threads << " threads";
    const std::vector<char>& o = t.tensor[ATTEST_O].bytes;
    if (threads == 1) first = o;
    EXPECT_TRUE(o == first) << threads << " threads";
  }
}

TEST(DeformableCpu, RefusesMoreTokensThanItCounts) {
  Trial t = make_trial(3, false, 10);
  t.tensor[ATTEST_V].spec.dim[2] = int64_t{1} << 31;
  const trial::Outcome outcome = trial::execute(*trial::load("deformable_cpu"), t);
  EXPECT_EQ(outcome.status, ATTEST_UNSUPPORTED);
  EXPECT_EQ(outcome.reason, "more than 2^31 - 1 tokens of V");
}

}  // namespace
