// flash_cuda and window_cuda as sm_75 runs them: f16 alone, copies through registers, products of
// 8, 64 KiB of shared memory. The emulation ends a program that uses more than there is.
#include <gtest/gtest.h>

#include <cstdlib>

#include "testing/cuda/emulated_cuda.hpp"

namespace attest::core {
namespace {

using testing::EmulatedDevice;
using testing::PlantedBug;
using testing::run_emulated;

TEST(CudaSm75, FlashIsRight) {
  const EmulatedDevice device("75");
  for (const char* spec :
       {" num_heads=2 seq_len_q=61 seq_len_kv=133 head_dim=64 lse",
        " seq_len_q=70 seq_len_kv=97 head_dim=128 lse",  // plain and wide tiles need more memory
                                                         // than there is
        " seq_len_q=35 seq_len_kv=67 head_dim=256 head_dim_v=200",
        " seq_len_q=150 head_dim=32 window_right=0",
        " batch=2 num_heads=4 num_kv_heads=2 seq_len_q=1 seq_len_kv=700 head_dim=64 lse",
        " batch=2 seq_len_q=61 head_dim=32 mask=[2,1,61,61] lse"}) {
    const Record record =
        run_emulated("flash_cuda", "softmax dtype=f16" + std::string(spec), testing::kAllFills);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
        << record.spec << ": " << record.outcome.reason;
  }
}

TEST(CudaSm75, WindowIsRight) {
  const EmulatedDevice device("75");
  for (const char* spec : {" num_heads=3 seq_len_q=196 head_dim=32 grid_height=14 grid_width=14 "
                           "window_height=7 window_width=7 "
                           "shift_y=3 shift_x=3 shift_bias=-100 rel_bias lse",
                           " seq_len_q=80 head_dim=256 patch_size=40 order",
                           " seq_len_q=70 head_dim=40 patch_size=26 lse",
                           " seq_len_q=80 head_dim=128 patch_size=70"}) {
    const Record record = run_emulated("window_cuda", "softmax dtype=f16" + std::string(spec),
                                       {.relations = RelationChoice::kNone});
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
        << record.spec << ": " << record.outcome.reason;
  }
}

TEST(CudaSm75, TakesNothingElse) {
  const EmulatedDevice device("75");
  for (const char* name : {"flash_cuda", "window_cuda"})
    for (const char* dtype : {"f32", "bf16"}) {
      const Record record =
          run_emulated(name,
                       "softmax dtype=" + std::string(dtype) +
                           " seq_len_q=40 head_dim=32 window_left=20 window_right=0",
                       {});
      EXPECT_EQ(record.outcome.verdict(), Verdict::kUnsupported) << name << " " << dtype;
      EXPECT_NE(record.outcome.reason.find("before sm_80"), std::string::npos)
          << record.outcome.reason;
    }
}

// By their numbers in impls/cuda/device_problem.cuh.
TEST(CudaSm75, BugsAreCaught) {
  const EmulatedDevice device("75");
  const std::string spec =
      "softmax dtype=f16 num_heads=12 seq_len_q=20 seq_len_kv=200 head_dim=32 lse";
  EXPECT_EQ(
      run_emulated("flash_cuda", spec, {.relations = RelationChoice::kNone}).outcome.verdict(),
      Verdict::kPass);
  for (const int bug : {1, 20}) {  // kNoBarrier, kHalfProduct
    const PlantedBug planted(bug);
    EXPECT_EQ(
        run_emulated("flash_cuda", spec, {.relations = RelationChoice::kNone}).outcome.verdict(),
        Verdict::kFail)
        << bug;
  }
}

}  // namespace
}  // namespace attest::core
