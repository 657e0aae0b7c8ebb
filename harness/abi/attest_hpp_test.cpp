// attest.hpp against the definition: element types exhaustively, places and keys against
// testing/reference.hpp on random problems, and what the table makes of exceptions, reasons and
// dtypes.
#include "attest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "testing/reference.hpp"

namespace {

using abi_test::Tensor, abi_test::Trial;

constexpr uint64_t kSoftmaxFeatures = (uint64_t{ATTEST_WITH_GLOBAL} << 1) - 1;
constexpr uint64_t kDtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) |
                             ATTEST_BIT(ATTEST_BF16) | ATTEST_BIT(ATTEST_F64);

// --- Element types ---

struct Format {
  int32_t dtype;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
};
const Format kFormats[] = {{ATTEST_F16, attest::float_from_half, attest::half_from_float},
                           {ATTEST_BF16, attest::float_from_bfloat16, attest::bfloat16_from_float}};

bool is_nan(const Format& format, uint16_t bits) {
  return std::isnan(abi_test::decode(format.dtype, bits));
}

void expect_all_values_right(const Format& format) {
  for (uint32_t n = 0; n < 65536; ++n) {
    const auto bits = static_cast<uint16_t>(n);
    const float value = format.widen(bits);
    if (is_nan(format, bits)) {
      ASSERT_TRUE(std::isnan(value)) << n;
      ASSERT_TRUE(is_nan(format, format.narrow(value))) << n;
    } else {
      ASSERT_EQ(attest::bits_of(value),
                attest::bits_of(static_cast<float>(abi_test::decode(format.dtype, bits))))
          << n;
      ASSERT_EQ(format.narrow(value), bits);
    }
  }
}

TEST(ElementTypes, All65536ValuesWidenExactlyAndComeBack) {
  for (const Format& format : kFormats) expect_all_values_right(format);
}

TEST(ElementTypes, RoundToNearestEvenBetweenAllNeighbours) {
  for (const Format& format : kFormats)
    for (const uint32_t sign : {0u, 0x8000u})
      for (uint32_t n = sign; !is_nan(format, static_cast<uint16_t>(n + 1)); ++n) {
        // The number above the largest finite one, as far as rounding goes, is the next power of
        // two.
        const auto low = static_cast<uint16_t>(n), high = static_cast<uint16_t>(n + 1);
        const double from = abi_test::decode(format.dtype, low);
        const double to = std::isinf(abi_test::decode(format.dtype, high))
                              ? 2 * from - abi_test::decode(format.dtype, n - 1)
                              : abi_test::decode(format.dtype, high);
        const auto middle = static_cast<float>((from + to) / 2);
        ASSERT_EQ(format.narrow(middle), n % 2 == 0 ? low : high) << n;
        ASSERT_EQ(format.narrow(std::nextafterf(middle, 0)), low) << n;
        ASSERT_EQ(format.narrow(std::nextafterf(middle, sign ? -INFINITY : INFINITY)), high) << n;
      }
}

TEST(ElementTypes, RandomFloatsRoundAsTheDefinitionSays) {
  std::mt19937 random(5);
  for (int n = 0; n < 300000; ++n) {
    const float value = attest::float_of_bits(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    for (const Format& format : kFormats)
      ASSERT_EQ(format.narrow(value), abi_test::encode(format.dtype, static_cast<double>(value)))
          << value;
  }
}

TEST(ElementTypes, EveryNanStaysNan) {
  for (uint32_t payload = 1; payload < 0x800000; payload += 0xfff)
    for (const uint32_t sign : {0u, 0x80000000u})
      for (const Format& format : kFormats)
        ASSERT_TRUE(
            is_nan(format, format.narrow(attest::float_of_bits(sign | 0x7f800000 | payload))))
            << payload;
}

TEST(ElementTypes, FlushToZeroModeChangesNoHalf) {
#ifdef __SSE2__
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040);  // FTZ, DAZ
  std::vector<uint32_t> wrong;
  for (uint32_t n = 0; n < 0x7c00; ++n) {
    const float value = attest::float_from_half(static_cast<uint16_t>(n));
    if (attest::half_from_float(value) != n) wrong.push_back(n);
  }
  _mm_setcsr(mode);
  EXPECT_THAT(wrong, ::testing::IsEmpty());
#else
  GTEST_SKIP() << "no SSE: the mode is set in another way here";
#endif
}

// --- Views ---

TEST(View, IsFalseWhereThereIsNoTensor) {
  Trial trial;
  const std::vector<void*> data = trial.finish();
  EXPECT_FALSE(attest::View<float>(trial.problem(), data.data(), ATTEST_BIAS));
  EXPECT_FALSE(attest::View<float>());
}

TEST(View, FollowsStridesAndBroadcasts) {
  Trial trial;
  Tensor& bias = trial.tensor[ATTEST_BIAS] = abi_test::make_tensor(ATTEST_F32, {1, 3, 1, 5}, 4);
  bias.each([&](const abi_test::Index& index) {
    bias.set(index, static_cast<double>(10 * index[1] + index[3]));
  });
  const std::vector<void*> data = trial.finish();
  const attest::View<float> view(trial.problem(), data.data(), ATTEST_BIAS);
  ASSERT_TRUE(view);
  EXPECT_EQ(view(7, 2, 9, 4), 24);
  EXPECT_EQ(view.stride(0), 0);
  EXPECT_EQ(view.dim(1), 3);
  view(0, 1, 0, 2) = 5;
  EXPECT_EQ(bias.at({0, 1, 0, 2}), 5);
  EXPECT_TRUE(bias.surroundings_untouched());
}

TEST(View, AnyReadsAndWritesEveryFloatType) {
  for (const int32_t dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16, ATTEST_F64}) {
    Trial trial;
    Tensor& q = trial.tensor[ATTEST_Q] = abi_test::make_tensor(dtype, {1, 1, 2, 3});
    q.set({0, 0, 1, 2}, -1.5);
    const std::vector<void*> data = trial.finish();
    const attest::View<attest::Any> view(trial.problem(), data.data(), ATTEST_Q);
    EXPECT_EQ(static_cast<float>(view(0, 0, 1, 2)), -1.5f);
    view(0, 0, 0, 1) = 0.75f;
    EXPECT_EQ(q.at({0, 0, 0, 1}), 0.75);
  }
}

// Against decoders written from the definition of the formats.
TEST(View, AnyReadsEveryCodeOf8Bits) {
  for (const int32_t dtype : {ATTEST_F8E4M3, ATTEST_F8E5M2})
    for (int code = 0; code < 256; ++code) {
      unsigned char bytes[2] = {0x38, static_cast<unsigned char>(code)};
      const double expected = abi_test::decode(dtype, static_cast<uint64_t>(code));
      const float read = attest::AnyElement(bytes, dtype, 1);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(read)) << code;
        continue;
      }
      EXPECT_EQ(static_cast<double>(read), expected) << dtype << " " << code;
      EXPECT_EQ(std::signbit(read), code >= 128);
      EXPECT_EQ(abi_test::encode(dtype, expected), static_cast<uint64_t>(code));
    }
}

// Whoever takes a dtype for f64 that it has no word for reads beyond the tensor.
TEST(View, AnyReadsNoBytesAsDoubles) {
  for (const int32_t dtype : {ATTEST_F8E4M3, ATTEST_F8E5M2, ATTEST_I32}) {
    unsigned char bytes[16];
    std::fill_n(bytes, 16, static_cast<unsigned char>(0x38));
    const attest::AnyElement element(bytes, dtype, 1);
    EXPECT_EQ(std::isnan(static_cast<float>(element)), dtype == ATTEST_I32);
    element = 2;
    EXPECT_EQ(std::count(bytes, bytes + 16, 0x38), 16);
  }
}

TEST(View, HalvesComputeAndAreAssignedAsFloats) {
  attest::Half half{};
  half = 1.5f;
  EXPECT_EQ(half.bits, 0x3e00);
  EXPECT_EQ(half * half, 2.25f);
  attest::BFloat16 other{};
  other = -2;
  EXPECT_EQ(other + half, -0.5f);
}

// --- Places and keys ---

using Cells = std::multiset<std::pair<int64_t, int64_t>>;

Cells keys_by_definition(const Trial& trial, int64_t b, int64_t i) {
  Cells cells;
  for (int64_t j = 0; j < abi_test::length_kv(trial, b); ++j)
    if (abi_test::in_reach(trial, b, i, j)) {
      const abi_test::Cell at = abi_test::key_cell(trial, b, j);
      cells.emplace(at.batch, at.row);
    }
  return cells;
}

Cells keys_by_interval(const attest::Sequences& sequences, int64_t b, int64_t i) {
  Cells cells;
  const auto [begin, end] = sequences.keys(b, i);
  EXPECT_LE(begin, end);
  for (int64_t j = begin; j < end; ++j) {
    if (sequences.p.global_tokens > 0 && sequences.hidden_by_band(b, i, j)) continue;
    const attest::Cell at = sequences.key(b, j);
    cells.emplace(at.batch, at.row);
  }
  return cells;
}

TEST(Sequences, PlacesAndKeysAreThoseOfTheDefinition) {
  uint64_t met = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Trial trial;
    abi_test::randomize(trial, seed, kSoftmaxFeatures, kDtypes);
    const std::vector<void*> data = trial.finish();
    const attest::Sequences sequences(trial.problem(), data.data());
    met |= trial.features;
    Cells rows;
    for (int64_t b = 0; b < trial.p().batch; ++b) {
      ASSERT_EQ(sequences.length_q(b), abi_test::length_q(trial, b));
      ASSERT_EQ(sequences.length_kv(b), abi_test::length_kv(trial, b));
      for (int64_t i = 0; i < sequences.rows(b); ++i) {
        const attest::Cell at = sequences.query(b, i);
        rows.emplace(at.batch, at.row);
        ASSERT_EQ(sequences.position(sequences.token(i)), i);
        // On a grid the definition counts tokens, which are rows there.
        const int64_t same = trial.p().grid_height > 0 ? at.row : i;
        const abi_test::Cell expected = abi_test::query_cell(trial, b, same);
        ASSERT_EQ(at.batch, expected.batch);
        ASSERT_EQ(at.row, expected.row);
        ASSERT_EQ(keys_by_interval(sequences, b, i), keys_by_definition(trial, b, same))
            << "sequence " << b << ", place " << i;
      }
    }
    const Tensor& q = trial.tensor[ATTEST_Q];
    ASSERT_EQ(rows.size(), static_cast<size_t>(q.spec.dim[0] * q.spec.dim[2]))
        << "every row is written";
    ASSERT_EQ(rows.size(), (std::set<std::pair<int64_t, int64_t>>(rows.begin(), rows.end()).size()))
        << "and once";
  }
  EXPECT_EQ(met, kSoftmaxFeatures) << "a feature that no random problem had";
}

TEST(Sequences, ShortLastPatchSeesTheLastPlaces) {
  Trial trial;
  trial.p().seq_len_q = trial.p().seq_len_kv = 10;
  trial.p().patch_size = 4;
  const std::vector<void*> data = trial.finish();
  const attest::Sequences sequences(trial.problem(), data.data());
  EXPECT_EQ(sequences.keys(0, 3).begin, 0);
  EXPECT_EQ(sequences.keys(0, 3).end, 4);
  EXPECT_EQ(sequences.keys(0, 8).begin, 6);
  EXPECT_EQ(sequences.keys(0, 8).end, 10);
  trial.p().patch_size = 11;
  EXPECT_EQ(sequences.keys(0, 8).begin, 0);
  EXPECT_EQ(sequences.keys(0, 8).end, 10);
}

TEST(Sequences, NegativeDiagonalLeavesLeadingRowsEmpty) {
  Trial trial;
  trial.p().seq_len_q = 6;
  trial.p().seq_len_kv = 4;
  trial.p().window_right = 0;
  trial.p().diagonal = ATTEST_BOTTOM_RIGHT;
  const std::vector<void*> data = trial.finish();
  const attest::Sequences sequences(trial.problem(), data.data());
  EXPECT_EQ(sequences.keys(0, 1).begin, sequences.keys(0, 1).end);
  EXPECT_EQ(sequences.keys(0, 2).end, 1);
  EXPECT_EQ(sequences.keys(0, 5).end, 4);
}

TEST(Softmax, LogitIsMinusInfinityExactlyWhereHidden) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Trial trial;
    abi_test::randomize(trial, seed, kSoftmaxFeatures & ~uint64_t{ATTEST_WITH_GRID}, kDtypes);
    const std::vector<void*> data = trial.finish();
    const attest::Softmax<attest::Any> a(trial.problem(), data.data());
    for (int64_t h = 0; h < a.p.num_heads; ++h)
      for (int64_t j = 0; j < a.length_kv(0); ++j) {
        const auto [begin, end] = a.keys(0, 0);
        const bool seen = j >= begin && j < end && a.logit(0, 0, h, 0, j) != -INFINITY;
        ASSERT_EQ(seen, abi_test::visible(trial, 0, h, 0, j));
        if (seen || j < begin || j >= end) continue;
        ASSERT_EQ(a.logit(NAN, 0, h, 0, j), -INFINITY);
      }
  }
}

// --- Linear attention ---

TEST(Linear, ReadsMasksAndComputesPhi) {
  EXPECT_EQ(attest::Linear<float>::phi(2), 3);
  EXPECT_EQ(attest::Linear<float>::phi(0), 1);
  EXPECT_EQ(attest::Linear<float>::phi(-1), std::exp(-1.0f));
  Trial trial;
  attest_linear_params params{sizeof params, 0, 2, 6, 3, 4, 5, 1, 1, 1e-6f, 0};
  trial.problem().params = &params;
  trial.tensor[ATTEST_MASK] = abi_test::make_tensor(ATTEST_BOOL, {1, 1, 1, 5});
  for (int64_t j = 0; j < 5; ++j) trial.tensor[ATTEST_MASK].set({0, 0, 0, j}, j != 3);
  const std::vector<void*> data = trial.finish();
  const attest::Linear<float> a(trial.problem(), data.data());
  EXPECT_TRUE(a.key_counts(1, 2));
  EXPECT_FALSE(a.key_counts(1, 3));
  EXPECT_TRUE(a.query_counts(1, 3));
  EXPECT_EQ(a.kv_head(5), 2);
}

// --- Deformable attention ---

TEST(Deformable, FindsLevelsAndCoordinates) {
  Trial trial;
  attest_deformable_params params{sizeof params, 3, 1, 1, 2, 4, 1, {5, 3, 2}, {7, 4, 1}, 0, 0};
  trial.problem().params = &params;
  trial.tensor[ATTEST_LOCATIONS] = abi_test::make_tensor(ATTEST_F32, {1, 1, 2, 3, 1, 2});
  trial.tensor[ATTEST_LOCATIONS].set({0, 0, 1, 2, 0, 1}, 0.75);
  const std::vector<void*> data = trial.finish();
  const attest::Deformable<float> a(trial.problem(), data.data());
  EXPECT_EQ(a.first_token(0), 0);
  EXPECT_EQ(a.first_token(2), 5 * 7 + 3 * 4);
  EXPECT_EQ(a.locations(0, 0, 1, 2, 0, 1), 0.75f);
  EXPECT_EQ(a.coordinate(0, 7), -0.5f);
  EXPECT_EQ(a.coordinate(1, 7), 6.5f);
  params.align_corners = 1;
  EXPECT_EQ(a.coordinate(1, 7), 6);
  for (const float outside : {-1.0f, 7.0f, NAN, INFINITY, -INFINITY})
    EXPECT_FALSE(a.inside(outside, 7)) << outside;
  for (const float inside : {-0.75f, 0.0f, 6.75f}) EXPECT_TRUE(a.inside(inside, 7)) << inside;
}

// --- The table ---

struct Throws {
  static constexpr attest::Info kInfo{.name = "throws",
                                      .version = "2",
                                      .summary = "fails",
                                      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16),
                                      .features = ATTEST_WITH_LSE};
  const attest_problem& problem;

  static const char* query(const attest_problem& problem, attest_support& support) {
    if (problem.threads > 8) return "more than 8 threads";
    if (problem.threads < 0) throw std::runtime_error("no threads");
    support.workspace_bytes = 96;
    return nullptr;
  }
  template <class T>
  void run(void* const*, void* workspace, void*) {
    // Of the listed dtypes only: run<double> would not compile.
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, attest::Half>);
    if (problem.threads == 1)
      throw std::runtime_error(std::is_same_v<T, float> ? "float fails" : "half fails");
    if (problem.threads == 2) throw std::bad_alloc();
    if (problem.threads == 3) throw 3;
    *static_cast<int*>(workspace) = 7;
  }
};

struct Untyped {
  static constexpr attest::Info kInfo{
      .name = "untyped", .operation = ATTEST_PRIVATE, .device = ATTEST_CUDA};
  explicit Untyped(const attest_problem& problem) : threads(problem.threads) {
    if (threads == 0) throw std::invalid_argument("cannot be made");
  }
  void run(void* const*, void* workspace, void*) { *static_cast<int*>(workspace) = threads; }
  int threads;
};

attest_status run_once(const attest_impl& table, const attest_problem& problem, void* workspace) {
  void* plan = nullptr;
  if (const attest_status status = table.create(&problem, &plan); status != ATTEST_OK)
    return status;
  const attest_status status = table.run(plan, nullptr, workspace, nullptr);
  table.destroy(plan);
  return status;
}

TEST(Table, SaysWhatInfoSays) {
  const attest_impl& table = *attest::table<Throws>();
  EXPECT_EQ(&table, attest::table<Throws>());
  EXPECT_EQ(table.struct_size, sizeof(attest_impl));
  EXPECT_STREQ(table.name, "throws");
  EXPECT_STREQ(table.version, "2");
  EXPECT_STREQ(table.summary, "fails");
  EXPECT_EQ(table.operation, ATTEST_SOFTMAX);
  EXPECT_EQ(table.device, ATTEST_CPU);
  EXPECT_EQ(table.dtypes, ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16));
  EXPECT_EQ(table.features, uint64_t{ATTEST_WITH_LSE});
  EXPECT_EQ(attest::table<Untyped>()->operation, ATTEST_PRIVATE);
  EXPECT_EQ(attest::table<Untyped>()->device, ATTEST_CUDA);
}

TEST(Table, QueryGivesReasonAndSupport) {
  const attest_impl& table = *attest::table<Throws>();
  Trial trial;
  attest_support support{};
  EXPECT_EQ(table.query(&trial.problem(), &support), ATTEST_OK);
  EXPECT_EQ(support.workspace_bytes, 96u);
  trial.problem().threads = 9;
  EXPECT_EQ(table.query(&trial.problem(), &support), ATTEST_UNSUPPORTED);
  EXPECT_STREQ(support.reason, "more than 8 threads");
  trial.problem().threads = -1;
  EXPECT_EQ(table.query(&trial.problem(), &support), ATTEST_RUNTIME_ERROR);
  EXPECT_STREQ(table.last_error(), "no threads");
}

TEST(Table, ExceptionsBecomeStatusAndLastError) {
  const attest_impl& table = *attest::table<Throws>();
  Trial trial;
  int workspace = 0;
  trial.specs[ATTEST_Q].dtype = ATTEST_F32;
  EXPECT_EQ(run_once(table, trial.problem(), &workspace), ATTEST_RUNTIME_ERROR);
  EXPECT_STREQ(table.last_error(), "float fails");
  trial.specs[ATTEST_Q].dtype = ATTEST_F16;
  EXPECT_EQ(run_once(table, trial.problem(), &workspace), ATTEST_RUNTIME_ERROR);
  EXPECT_STREQ(table.last_error(), "half fails");
  trial.problem().threads = 2;
  EXPECT_EQ(run_once(table, trial.problem(), &workspace), ATTEST_OUT_OF_MEMORY);
  trial.problem().threads = 3;
  EXPECT_EQ(run_once(table, trial.problem(), &workspace), ATTEST_RUNTIME_ERROR);
  EXPECT_THAT(table.last_error(), ::testing::HasSubstr("no std::exception"));
  trial.problem().threads = 4;
  EXPECT_EQ(run_once(table, trial.problem(), &workspace), ATTEST_OK);
  EXPECT_EQ(workspace, 7);
  trial.specs[ATTEST_Q].dtype = ATTEST_F64;
  EXPECT_EQ(run_once(table, trial.problem(), &workspace), ATTEST_RUNTIME_ERROR)
      << "a dtype that is not listed";
}

TEST(Table, RunMayBeNoTemplateAndCreateMayThrow) {
  const attest_impl& table = *attest::table<Untyped>();
  Trial trial;
  int workspace = 0;
  trial.problem().threads = 5;
  EXPECT_EQ(run_once(table, trial.problem(), &workspace), ATTEST_OK);
  EXPECT_EQ(workspace, 5);
  trial.problem().threads = 0;
  EXPECT_EQ(run_once(table, trial.problem(), &workspace), ATTEST_RUNTIME_ERROR);
  EXPECT_STREQ(table.last_error(), "cannot be made");
}

}  // namespace
