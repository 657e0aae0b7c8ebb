// Events of linear attention are counted from the bytes of the inputs.
#include "core/operations/linear/linear_events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/operations/linear/testing/linear_cases.hpp"

namespace attest::core {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::IsSubsetOf;
using ::testing::IsSupersetOf;
using testing::LinearCase;
using ::testing::Not;

std::set<std::string> count(const LinearCase& c, bool judged = true) {
  const auto& p = c.p();
  return count_linear_events(
      c.problem, c.tensors, std::vector<bool>(size_t(p.batch * p.num_heads * p.seq_len_q), judged));
}

void put(const LinearCase& c, int32_t role, double value, int64_t head, int64_t row,
         int64_t channel) {
  const Tensor& tensor = c.tensors[size_t(role)];
  const auto& stride = tensor.spec.stride;
  store(tensor.data, tensor.spec.dtype, head * stride[1] + row * stride[2] + channel * stride[3],
        value);
}

// All features are `k`, all queries 0, and values alternate by channel.
LinearCase plain(int64_t keys, double k, bool masked = false) {
  LinearCase c({.num_heads = 2, .seq_len_q = 4, .seq_len_kv = keys, .head_dim = 8}, ATTEST_F32,
               {"random", 1}, masked);
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t e = 0; e < 8; ++e) {
      for (int64_t i = 0; i < 4; ++i) put(c, ATTEST_Q, 0, h, i, e);
      for (int64_t j = 0; j < keys; ++j) {
        put(c, ATTEST_K, k, h, j, e);
        put(c, ATTEST_V, e % 2 == 0 ? 1 : -1, h, j, e);
      }
    }
  return c;
}

TEST(LinearEvents, AreTheStepsThatTheBytesTake) {
  // All values of a channel are equal, so no tile shows, and nothing cancels.
  EXPECT_THAT(count(plain(61, 0)), IsSubsetOf({"none"}));
  EXPECT_THAT(count(plain(61, 1)), Contains("phi/linear"));
  EXPECT_THAT(count(plain(61, -2)), AllOf(Contains("phi/exp"), Not(Contains("phi/faint"))));
  EXPECT_THAT(count(plain(61, -20)), IsSupersetOf({"phi/exp", "phi/faint", "normaliser/eps"}));
  EXPECT_THAT(count(plain(9000, 1)), Contains("normaliser/65504"));
}

TEST(LinearEvents, AreOfTheTilesWhoseKeysShow) {
  const LinearCase c = plain(61, 0);
  put(c, ATTEST_V, 9, 0, 60, 3);
  EXPECT_THAT(count(c), IsSupersetOf({"tile/16/tail", "tile/32/tail"}));
  EXPECT_TRUE(count(c, false).empty()) << "no row is judged";
  // Each channel has as much of one sign as of the other.
  const LinearCase cancels = plain(64, 0);
  for (int64_t j = 0; j < 64; j += 2)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t e = 0; e < 8; ++e) put(cancels, ATTEST_V, e % 2 == 0 ? -1 : 1, h, j, e);
  EXPECT_THAT(count(cancels), Contains("cancels"));
  const LinearCase few = plain(64, -20);
  for (int64_t j = 0; j < 30; ++j) put(few, ATTEST_K, 1, 1, j, 0);
  EXPECT_THAT(count(few), Contains("keys/few"));
}

TEST(LinearEvents, AreOfNanThatNotEverythingShares) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const LinearCase c = plain(61, 0);
  put(c, ATTEST_Q, nan, 0, 1, 3);
  put(c, ATTEST_V, nan, 1, 0, 0);
  put(c, ATTEST_V, nan, 1, 60, 1);
  put(c, ATTEST_V, nan, 1, 7, 2);
  EXPECT_THAT(count(c), IsSubsetOf({"nan/q", "nan/v/first", "nan/v/last", "nan/v/middle"}));
  EXPECT_EQ(count(c).size(), 4u);
  put(c, ATTEST_K, nan, 0, 5, 0);
  EXPECT_THAT(count(c), Contains("nan/k"));
  put(c, ATTEST_K, nan, 1, 5, 0);
  EXPECT_THAT(count(c), Not(Contains("nan/k"))) << "everything is NaN";
}

TEST(LinearEvents, AreOfWhatMasksHide) {
  const LinearCase c = plain(61, 0, true);
  const Tensor &mask = c.tensors[ATTEST_MASK], &query_mask = c.tensors[ATTEST_QUERY_MASK];
  for (int64_t j = 0; j < 61; ++j) store(mask.data, ATTEST_BOOL, j, 1);
  for (int64_t i = 0; i < 4; ++i) store(query_mask.data, ATTEST_BOOL, i, 1);
  EXPECT_THAT(count(c), IsSubsetOf({"none"}));
  for (int64_t j = 16; j < 32; ++j) store(mask.data, ATTEST_BOOL, j, 0);
  EXPECT_THAT(count(c), ::testing::ElementsAre("hidden/16"));
  store(mask.data, ATTEST_BOOL, 0, 0);
  store(mask.data, ATTEST_BOOL, 60, 0);
  store(mask.data, ATTEST_BOOL, 40, 0);
  store(query_mask.data, ATTEST_BOOL, 2, 0);
  EXPECT_THAT(count(c), ::testing::ElementsAre("hidden/16", "hidden/first", "hidden/last",
                                               "hidden/query", "hidden/single"));
}

// What is said to be impossible is not counted.
TEST(LinearEvents, AreAmongThoseThatAreListed) {
  for (const bool masked : {false, true})
    for (const int64_t keys : {1, 16, 61, 1024}) {
      const LinearCase c(
          {.batch = 2, .num_heads = 2, .seq_len_q = 5, .seq_len_kv = keys, .head_dim = 16},
          ATTEST_F16, {"faint", 3}, masked);
      std::set<std::string> possible;
      for (const NumericEvent& event : linear_events(c.problem))
        if (event.why_not.empty()) possible.insert(event.name);
      for (const std::string& name : count(c))
        EXPECT_TRUE(possible.contains(name)) << name << ", " << keys << " keys";
    }
}

}  // namespace
}  // namespace attest::core
