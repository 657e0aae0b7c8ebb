// The CUDA kernels, run on the host thread by thread: right on every feature that they list, at sizes that are no multiple of a
// tile.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

struct Case {
  const char *name, *spec;  // spec without its dtype
  bool naive_only = false;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.spec; }

const RunOptions kAllFills{.relations = RelationChoice::kNone, .all_checks = true};

Record run(const std::string& implementation, const std::string& spec, RunOptions options) {
  setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
  Plugin plugin(ATTEST_BINARY_DIR "/tests/plugins/" + implementation + "_on_host.so",
                {.executable = find_worker(), .cpus = "", .threads = 1, .timeout_s = 300});
  options.timed = false;
  return testing::run_named(plugin, implementation, spec, options);
}

class CudaKernels : public ::testing::TestWithParam<Case> {};

std::string with_dtype(const char* dtype) {
  const std::string spec = CudaKernels::GetParam().spec;
  return "softmax dtype=" + std::string(dtype) + spec;
}

TEST_P(CudaKernels, NaiveIsRight) {
  for (const char* dtype : {"f32", "f16"}) {
    const Record record = run("naive_cuda", with_dtype(dtype), kAllFills);
    EXPECT_EQ(record.verdict, Verdict::kPass) << record.spec << ": " << record.reason;
  }
}

TEST_P(CudaKernels, FlashIsRight) {
  for (const char* dtype : {"f16", "bf16"}) {
    const Record record = run("flash_cuda", with_dtype(dtype), kAllFills);
    EXPECT_EQ(record.verdict, GetParam().naive_only ? Verdict::kUnsupported : Verdict::kPass)
        << record.spec << ": " << record.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Features, CudaKernels,
    ::testing::Values(
        Case{"plain", " num_heads=2 seq_len_q=61 seq_len_kv=133 head_dim=64 lse"},
        Case{"exact_tiles", " seq_len_q=128 seq_len_kv=128 head_dim=64 lse"},
        Case{"head_dim_32", " seq_len_q=70 head_dim=32 lse"}, Case{"head_dim_40", " seq_len_q=70 head_dim=40 head_dim_v=24"},
        Case{"head_dim_128", " seq_len_q=70 seq_len_kv=97 head_dim=128 lse"},
        Case{"head_dim_256", " seq_len_q=35 seq_len_kv=67 head_dim=256 head_dim_v=200"},
        Case{"head_dim_20", " seq_len_q=35 head_dim=20", true}, Case{"causal", " seq_len_q=150 head_dim=64 window_right=0 lse"},
        Case{"bottom_right", " seq_len_q=70 seq_len_kv=150 head_dim=32 window_right=0 diagonal=1"},
        Case{"empty_rows", " seq_len_q=150 seq_len_kv=70 head_dim=32 window_right=0 diagonal=1 lse"},
        Case{"window", " seq_len_q=200 head_dim=32 window_left=20 window_right=9"},
        Case{"gqa", " batch=2 num_heads=4 num_kv_heads=2 seq_len_q=40 seq_len_kv=70 head_dim=32"},
        Case{"strides", " batch=2 num_heads=2 seq_len_q=40 head_dim=32 q.order=0213 k.order=0213 v.order=0213 o.order=0213"},
        Case{"softcap", " seq_len_q=61 head_dim=32 softcap=5"}, Case{"bias", " num_heads=2 seq_len_q=61 head_dim=32 bias"},
        Case{"mask", " batch=2 seq_len_q=61 head_dim=32 mask=[2,1,61,61] lse"},
        Case{"alibi", " num_heads=2 seq_len_q=61 head_dim=32 alibi_slopes window_right=0"},
        Case{"varlen", " batch=3 seq_len_q=50 head_dim=32 cu_seqlens_q cu_seqlens_kv window_right=0 lse"},
        Case{"seq_lens", " batch=3 seq_len_q=50 seq_len_kv=90 head_dim=32 seq_lens_q seq_lens_kv lse"},
        Case{"pages", " batch=2 seq_len_q=5 seq_len_kv=100 head_dim=32 page_size=16 page_table seq_lens_kv"},
        Case{"patches", " seq_len_q=150 head_dim=32 patch_size=48 order"},
        Case{"grid",
             " num_heads=2 seq_len_q=144 head_dim=32 grid_height=12 grid_width=12 window_height=4 window_width=4 "
             "shift_y=2 shift_x=2 shift_bias=-100 rel_bias"}),
    [](const auto& each) { return std::string(each.param.name); });

// What is hidden is not touched: 0 times NaN would be NaN.
TEST(CudaKernelsHidden, NanNeverLeaks) {
  for (const char* spec : {"softmax dtype=f16 seq_len_q=150 head_dim=32 window_right=0",
                           "softmax dtype=f16 batch=2 seq_len_q=61 head_dim=32 mask=[2,1,61,61]",
                           "softmax dtype=bf16 batch=2 seq_len_q=50 seq_len_kv=90 head_dim=32 seq_lens_kv"})
    for (const char* name : {"naive_cuda", "flash_cuda"}) {
      const Record record = run(name, spec, {.relations = RelationChoice::kAll});
      EXPECT_EQ(record.verdict, Verdict::kPass) << name << " on " << spec << ": " << record.reason;
      bool asked = false;
      for (const auto& relation : record.relations) asked |= relation.relation == "hidden-nan";
      EXPECT_TRUE(asked) << spec;
    }
}

}  // namespace
}  // namespace attest::core
