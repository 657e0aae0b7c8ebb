// The bytes of all tensors bound a run from below only if it must read all of them.
#include "core/record/least_bytes.hpp"

#include <gtest/gtest.h>

namespace attest::core {
namespace {

double of(const std::string& features) {
  Record record;
  record.min_bytes = 4096;
  record.features = features;
  return least_bytes(record);
}

TEST(LeastBytes, AreTheTensorsWhereAllIsRead) {
  EXPECT_EQ(of(""), 4096);
  EXPECT_EQ(of("GQA"), 4096);
  EXPECT_EQ(of("GQA+HEAD_DIM_V+SOFTCAP+BIAS+LSE+STRIDES+MIXED_DTYPE+UNALIGNED+ALIBI"), 4096);
}

TEST(LeastBytes, AreNotKnownWhereARunMaySkipElements) {
  for (const char* features : {"CAUSAL", "WINDOW", "KV_LENS", "BLOCK_MASK", "GQA+CAUSAL",
                               "CAUSAL+GQA", "a feature of later versions"})
    EXPECT_EQ(of(features), 0) << features;
}

}  // namespace
}  // namespace attest::core
