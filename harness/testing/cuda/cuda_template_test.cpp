// What `attest new --cuda` writes, run on the host thread by thread: right on every feature that it
// lists. The tests of the command line compile it with nvcc.
#include <gtest/gtest.h>

#include "testing/cuda/emulated_cuda.hpp"

namespace attest::testing {
namespace {

class CudaTemplateFeatures : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaTemplateFeatures, IsRight) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    const core::Record record = run_emulated(
        "naive_minimal", std::string("softmax dtype=") + dtype + " " + GetParam(), kAllFills);
    EXPECT_EQ(record.outcome.verdict(), core::Verdict::kPass)
        << record.spec << ": " << record.outcome.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Features, CudaTemplateFeatures,
    ::testing::Values("num_heads=2 seq_len_q=61 seq_len_kv=133 head_dim=64 lse",
                      "batch=2 num_heads=4 num_kv_heads=2 seq_len_q=40 head_dim=32 head_dim_v=24",
                      "seq_len_q=70 seq_len_kv=150 head_dim=32 window_right=0 diagonal=1 lse",
                      "seq_len_q=100 head_dim=32 window_left=20 window_right=9 softcap=5",
                      "num_heads=2 seq_len_q=61 head_dim=32 bias mask=[1,1,61,61] lse",
                      "num_heads=2 seq_len_q=61 head_dim=32 alibi_slopes window_right=0",
                      "batch=3 seq_len_q=50 head_dim=32 cu_seqlens_q cu_seqlens_kv lse",
                      "batch=2 seq_len_q=5 seq_len_kv=100 head_dim=32 page_size=16 page_table "
                      "seq_lens_kv",
                      "seq_len_q=150 head_dim=32 patch_size=48 order",
                      "seq_len_q=144 head_dim=32 grid_height=12 grid_width=12 window_height=4 "
                      "window_width=4 shift_y=2 shift_x=2 shift_bias=-100 rel_bias",
                      "seq_len_q=40 head_dim=32 q.order=0213 o.order=0213"));

TEST(CudaTemplate, IsRightOnPlainAttention) {
  const core::Record record =
      run_emulated("naive_minimal", "softmax num_heads=2 seq_len_q=33 head_dim=16 lse", kAllFills);
  EXPECT_EQ(record.outcome.verdict(), core::Verdict::kPass) << record.outcome.reason;
}

TEST(CudaTemplate, RefusesMoreChannelsThanAThreadKeeps) {
  const core::Record record =
      run_emulated("naive_minimal", "softmax seq_len_q=8 head_dim=512 head_dim_v=512", kAllFills);
  EXPECT_EQ(record.outcome.code, core::ReasonCode::kUnsupportedQuery);
}

}  // namespace
}  // namespace attest::testing
