// O and LSE of problems that are too large to compute them by definition.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/operations/softmax_backward/testing/backward_cases.hpp"

namespace attest::core::backward {
namespace {

// They come from the closed form of the codebook fills there. A few queries are computed by
// definition, which shares no code with it.
TEST(BackwardForward, OfLargeProblemsIsThatOfTheDefinition) {
  constexpr int64_t kTokens = 6400, kChannels = 64, kEvery = 211;
  for (const char* fill : {"codebook", "codebook_peaked"}) {
    const testing::BackwardCase c({.seq_len_q = kTokens, .head_dim = kChannels}, ATTEST_F32,
                                  {fill, 3});
    ASSERT_FALSE(forward_is_cheap(c.problem));
    const auto row = [&](int32_t role, int64_t n) {
      return static_cast<const float*>(c.tensors[size_t(role)].data) + n * kChannels;
    };
    for (int64_t i = 0; i < kTokens; i += kEvery) {
      long double total = 0;
      std::vector<long double> o(kChannels);
      for (int64_t j = 0; j < kTokens; ++j) {
        long double score = 0;
        for (int64_t d = 0; d < kChannels; ++d)
          score += (long double)(row(ATTEST_Q, i)[d]) * (long double)(row(ATTEST_K, j)[d]);
        const long double weight = std::exp((long double)(c.p().softmax_scale) * score);
        total += weight;
        for (size_t d = 0; d < o.size(); ++d) o[d] += weight * (long double)(row(ATTEST_V, j)[d]);
      }
      EXPECT_FLOAT_EQ(static_cast<const float*>(c.tensors[ATTEST_LSE].data)[i],
                      float(std::log(total)))
          << fill << " " << i;
      for (size_t d = 0; d < o.size(); ++d)
        EXPECT_NEAR(row(ATTEST_O, i)[d], double(o[d] / total), 1e-6) << fill << " " << i;
    }
  }
}

}  // namespace
}  // namespace attest::core::backward
