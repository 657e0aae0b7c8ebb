// A write into a gap is found, whichever side it is on, and told with its distance.
#include "core/isolation/memory/guards.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attest.h"

namespace attest::core {
namespace {

constexpr int64_t kBefore = 96, kBehind = 160;

// Memory with `spec` between kBefore and kBehind bytes, with canaries around it.
struct Guarded {
  TensorSpec spec;
  std::vector<char> bytes;
  Surroundings around;

  Guarded(TensorSpec tensor, int64_t data_bytes, Canary canary = Canary::kOutput)
      : spec(tensor), bytes(size_t(kBefore + data_bytes + kBehind)) {
    around = {.map = bytes.data(),
              .map_bytes = int64_t(bytes.size()),
              .data_offset = kBefore,
              .data_bytes = data_bytes,
              .spec = &spec,
              .canary = canary};
    write_canaries(around);
  }
  Guarded(const Guarded&) = delete;
  Tensor tensor() { return {spec, bytes.data() + kBefore}; }
  // What is said when byte `at` of the map alone has changed.
  std::string after_write(int64_t at) {
    bytes[size_t(at)] ^= 1;
    std::string found = broken_canary(around);
    bytes[size_t(at)] ^= 1;
    return found;
  }
};

// Rows of three elements, `stride` apart.
TensorSpec rows_of_three(DType dtype, int64_t rows, int64_t stride) {
  const int64_t dims[] = {rows, 3};
  TensorSpec spec = dense_tensor(dtype, ATTEST_WRITE, dims);
  spec.stride[0] = stride;
  return spec;
}

TEST(Guards, EveryByteAroundADenseTensorIsWatched) {
  Guarded g(rows_of_three(ATTEST_F32, 2, 3), 24);
  EXPECT_EQ(broken_canary(g.around), "");
  for (int64_t at = 0; at < kBefore; ++at)
    EXPECT_EQ(g.after_write(at),
              "was written " + std::to_string(kBefore - at) + " bytes before its start");
  for (int64_t at = 0; at < 24; ++at) EXPECT_EQ(g.after_write(kBefore + at), "") << at;
  for (int64_t at = 0; at < kBehind; ++at)
    EXPECT_EQ(g.after_write(kBefore + 24 + at),
              "was written past its end, at byte " + std::to_string(at) + " behind it");
}

TEST(Guards, GapsBetweenRowsAreWatchedAtOddBytesToo) {
  Guarded g(rows_of_three(ATTEST_F8E4M3, 3, 8), 19);
  EXPECT_EQ(broken_canary(g.around), "");
  for (int64_t at = 0; at < 19; ++at)
    EXPECT_EQ(g.after_write(kBefore + at),
              at % 8 < 3 ? "" : "was written between its elements, at byte " + std::to_string(at));
}

TEST(Guards, AVastGapIsWatchedAtItsEdgesAlone) {
  constexpr int64_t kStride = 10000;
  Guarded g(rows_of_three(ATTEST_F32, 2, kStride), (kStride + 3) * 4);
  EXPECT_EQ(broken_canary(g.around), "");
  const int64_t begin = kBefore + 12, end = kBefore + kStride * 4;
  for (const int64_t at : {begin, begin + kGapEdge - 1, end - kGapEdge, end - 1})
    EXPECT_EQ(g.after_write(at),
              "was written between its elements, at byte " + std::to_string(at - kBefore));
  for (const int64_t at : {begin + kGapEdge, end - kGapEdge - 1}) EXPECT_EQ(g.after_write(at), "");
}

TEST(Guards, ACanaryCopiedFromAnInputIsDamageInAnOutput) {
  Guarded input(rows_of_three(ATTEST_F16, 2, 4), 14, Canary::kInput),
      output(rows_of_three(ATTEST_F16, 2, 4), 14);
  output.bytes[kBefore + 6] = input.bytes[kBefore + 6];
  EXPECT_EQ(broken_canary(output.around), "was written between its elements, at byte 6");
}

TEST(Guards, CanariesAreNanWhereAKernelReadsThem) {
  for (const Canary canary : {Canary::kInput, Canary::kOutput})
    for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16}) {
      Guarded g(rows_of_three(dtype, 2, 4), int64_t(7 * dtype_bytes(dtype)), canary);
      EXPECT_TRUE(std::isnan(load(g.tensor().data, dtype, 3))) << int(dtype);
      EXPECT_TRUE(std::isnan(load(g.tensor().data, dtype, 7))) << int(dtype);
    }
}

TEST(Guards, PoisonLiesInElementsAloneAndOneWrittenElementShows) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16, ATTEST_F8E5M2}) {
    const auto width = int64_t(dtype_bytes(dtype));
    Guarded g(rows_of_three(dtype, 3, 5), 13 * width);
    poison_tensor(g.tensor());
    EXPECT_EQ(broken_canary(g.around), "") << int(dtype);
    EXPECT_TRUE(is_poison(g.tensor())) << int(dtype);
    for (int64_t row = 0; row < 3; ++row)
      for (int64_t e = 0; e < 3; ++e) {
        char& byte = g.bytes[size_t(kBefore + (row * 5 + e) * width)];
        byte ^= 1;
        EXPECT_FALSE(is_poison(g.tensor())) << int(dtype) << " " << row << " " << e;
        byte ^= 1;
      }
  }
}

}  // namespace
}  // namespace attest::core
