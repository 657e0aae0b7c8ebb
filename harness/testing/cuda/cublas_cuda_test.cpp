// cublas_cuda on the host, over products in plain loops: right whatever the layout, in steps of
// some heads or rows; and what it says without cuBLAS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "core/run/runner.hpp"
#include "cuda/matmul_plan.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

Record run(const std::string& spec, RunOptions options,
           const char* cublas = ATTEST_BINARY_DIR "/tests/fake_cublas.so") {
  setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
  setenv("ATTEST_CUBLAS", cublas, 1);
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/cublas_cuda_on_host.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 300}});
  options.timed = false;
  return testing::run_named(plugin, "cublas_cuda", spec, options);
}

class CublasCuda : public ::testing::TestWithParam<const char*> {};

TEST_P(CublasCuda, IsRight) {
  const Record record = run(std::string("softmax dtype=") + GetParam(),
                            {.relations = RelationChoice::kNone, .all_checks = true});
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
      << record.spec << ": " << record.outcome.reason;
}

// A step has 4,000 bytes: of 19 queries and 17 keys two heads in 16 bits and one in float32, of 150
// keys a few rows.
INSTANTIATE_TEST_SUITE_P(
    Layouts, CublasCuda,
    ::testing::Values(
        "f32 num_heads=2 seq_len_q=11 seq_len_kv=17 head_dim=16 lse",
        "f16 batch=2 num_heads=3 seq_len_q=19 seq_len_kv=17 head_dim=16 head_dim_v=24 lse",
        "bf16 batch=2 num_heads=3 seq_len_q=11 seq_len_kv=17 head_dim=16 q.order=0213 k.order=0213 "
        "v.order=0213 o.order=0213",
        "f16 num_heads=2 seq_len_q=13 seq_len_kv=150 head_dim=16 window_right=0 diagonal=1",
        "f32 batch=2 num_heads=4 num_kv_heads=2 seq_len_q=9 seq_len_kv=17 head_dim=16 "
        "window_left=5 window_right=3",
        "bf16 batch=2 num_heads=4 num_kv_heads=1 seq_len_q=1 seq_len_kv=70 head_dim=32 seq_lens_kv "
        "lse",
        "f16 num_heads=2 seq_len_q=19 head_dim=16 bias softcap=5",
        "f32 batch=2 seq_len_q=11 head_dim=16 mask=[2,1,11,11] sinks lse",
        "bf16 num_heads=2 seq_len_q=19 head_dim=16 alibi_slopes",
        "f16 seq_len_q=1 seq_len_kv=1 head_dim=1"));

TEST(CublasCudaHidden, NanNeverLeaks) {
  for (const char* spec :
       {"softmax dtype=f16 seq_len_q=19 head_dim=16 window_right=0",
        "softmax dtype=f32 batch=2 seq_len_q=9 head_dim=16 mask=[2,1,9,9]",
        "softmax dtype=bf16 batch=2 seq_len_q=5 seq_len_kv=20 head_dim=16 seq_lens_kv"}) {
    const Record record = run(spec, {.relations = RelationChoice::kAll});
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << spec << ": " << record.outcome.reason;
    const auto hidden = [](const RelationRecord& relation) {
      return relation.relation == "hidden-nan";
    };
    EXPECT_TRUE(std::any_of(record.relations.begin(), record.relations.end(), hidden)) << spec;
  }
}

TEST(CublasCudaAbsent, IsUnsupportedWithItsName) {
  const Record record =
      run("softmax dtype=f16 seq_len_q=8 head_dim=8", {}, "/nowhere/libcublas.so");
  EXPECT_EQ(record.outcome.verdict(), Verdict::kUnsupported);
  EXPECT_THAT(record.outcome.reason, ::testing::HasSubstr("cuBLAS is not there"));
}

TEST(MatmulPlan, TakesWholeHeadsOrRowsOfOne) {
  const cuda::MatmulPlan all({12, 12, 197, 197}, 2, int64_t{1} << 30);
  EXPECT_EQ(all.heads, 12);
  EXPECT_EQ(all.rows, 197);
  EXPECT_EQ(all.row_stride, 200);
  EXPECT_EQ(all.weights_bytes, (12 * 197 * 200 * 2 + 255) / 256 * 256);
  const cuda::MatmulPlan some({384, 384, 4096, 4096}, 2, int64_t{1} << 30);  // 96 MiB a head
  EXPECT_EQ(some.heads, 10);
  EXPECT_EQ(some.rows, 4096);
  const cuda::MatmulPlan rows({8, 8, 40000, 40000}, 2, int64_t{1} << 30);
  EXPECT_EQ(rows.heads, 1);
  EXPECT_EQ(rows.rows, (int64_t{1} << 30) / (40000 * 6));
  EXPECT_GE(rows.scores_bytes, rows.rows * 40000 * 4);
  EXPECT_LE(rows.scores_bytes + rows.weights_bytes, (int64_t{1} << 30) + 512);
  const cuda::MatmulPlan one({8, 8, 4, int64_t{1} << 29}, 4, int64_t{1} << 30);  // no row fits
  EXPECT_EQ(one.heads, 1);
  EXPECT_EQ(one.rows, 1);
}

TEST(MatmulPlan, EnqueuesNoMoreThanALaunchQueueHolds) {
  const cuda::MatmulPlan plan({8, 8, 131072, 131072}, 2, int64_t{1} << 30);
  const int64_t steps = 8 * ((131072 + plan.rows - 1) / plan.rows);
  EXPECT_LE(steps, cuda::MatmulPlan::kMostSteps);
  EXPECT_GE(steps, cuda::MatmulPlan::kMostSteps / 2);
}

}  // namespace
}  // namespace attest::core
