// flash_cuda's kernel for sm_90a, run on the host thread by thread, with copies and products that
// are under way until they are waited for: right on everything that it takes, and bugs in how it
// waits are caught.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>

#include "testing/cuda/emulated_cuda.hpp"

namespace attest::core {
namespace {

using testing::run_emulated;

struct OnSm90 : testing::EmulatedDevice {
  OnSm90() : EmulatedDevice("90") {}
};

/// Flags of tiles that are to be done again, the kernel's workspace: a byte for 16 rows. By it a
/// record shows which kernel ran.
uint64_t flags(int64_t pairs, int64_t seq_len_q) {
  return static_cast<uint64_t>(pairs * ((seq_len_q + 15) / 16));
}

struct Case {
  const char *name, *spec;  // spec without its dtype
  uint64_t workspace_bytes;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.spec; }

class CudaSm90 : public ::testing::TestWithParam<Case> {};

// Runs are compared in f16, and in both dtypes in the case vit.
TEST_P(CudaSm90, IsRight) {
  const OnSm90 on;
  for (const std::string dtype : {"f16", "bf16"}) {
    const Record record =
        run_emulated("flash_cuda", "softmax dtype=" + dtype + GetParam().spec,
                     {.relations = dtype == "f16" || GetParam().name == std::string("vit")
                                       ? RelationChoice::kAuto
                                       : RelationChoice::kNone});
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
        << record.spec << ": " << record.outcome.reason;
    EXPECT_EQ(record.memory.workspace_bytes, GetParam().workspace_bytes) << record.spec;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Features, CudaSm90,
    ::testing::Values(
        Case{"plain", " num_heads=3 seq_len_q=150 seq_len_kv=300 head_dim=64 lse", flags(3, 150)},
        Case{"exact_tiles", " num_heads=2 seq_len_q=128 seq_len_kv=256 head_dim=64 lse",
             flags(2, 128)},
        Case{"many_turns", " num_heads=9 seq_len_q=140 seq_len_kv=130 head_dim=64", flags(9, 140)},
        Case{"vit", " batch=2 num_heads=2 seq_len_q=197 head_dim=64 lse", flags(4, 197)},
        Case{"head_dim_40", " num_heads=2 seq_len_q=70 head_dim=40 head_dim_v=24", flags(2, 70)},
        Case{"head_dim_32", " num_heads=3 seq_len_q=150 seq_len_kv=300 head_dim=32 lse",
             flags(3, 150)},
        Case{"head_dim_16", " num_heads=2 seq_len_q=128 seq_len_kv=150 head_dim=16 head_dim_v=24",
             flags(2, 128)},
        Case{"head_dim_128", " num_heads=2 seq_len_q=140 seq_len_kv=197 head_dim=128 lse",
             flags(2, 140)},
        Case{"head_dim_256", " num_heads=2 seq_len_q=70 seq_len_kv=197 head_dim=256 head_dim_v=200",
             flags(2, 70)},
        Case{"causal", " num_heads=2 seq_len_q=400 head_dim=64 window_right=0 lse", flags(2, 400)},
        Case{"bottom_right",
             " num_heads=2 seq_len_q=170 seq_len_kv=350 head_dim=64 window_right=0 diagonal=1",
             flags(2, 170)},
        Case{"empty_rows",
             " num_heads=2 seq_len_q=350 seq_len_kv=70 head_dim=64 window_right=0 diagonal=1 lse",
             flags(2, 350)},
        Case{"window", " num_heads=2 seq_len_q=500 head_dim=64 window_left=20 window_right=9",
             flags(2, 500)},
        Case{"gqa", " batch=2 num_heads=4 num_kv_heads=2 seq_len_q=140 seq_len_kv=270 head_dim=64",
             flags(8, 140)},
        Case{"strides",
             " batch=2 num_heads=2 seq_len_q=140 head_dim=64 q.order=0213 k.order=0213 "
             "v.order=0213 o.order=0213",
             flags(4, 140)},
        Case{"varlen",
             " batch=3 seq_len_q=200 head_dim=64 cu_seqlens_q cu_seqlens_kv window_right=0 lse",
             flags(3, 200)},
        Case{"seq_lens",
             " batch=3 seq_len_q=150 seq_len_kv=290 head_dim=64 seq_lens_q seq_lens_kv lse",
             flags(3, 150)},
        Case{"sinks",
             " batch=2 num_heads=2 seq_len_q=140 seq_len_kv=170 head_dim=64 sinks window_right=0 "
             "lse",
             flags(4, 140)},
        Case{"patches", " num_heads=2 seq_len_q=300 head_dim=64 patch_size=130", flags(2, 300)}),
    [](const auto& each) { return std::string(each.param.name); });

// What another kernel does better or alone: few rows, few tiles, terms of pairs, scales that are
// not positive.
TEST(CudaSm90Others, GoElsewhere) {
  const OnSm90 on;
  for (const char* spec :
       {"softmax dtype=f16 batch=4 num_heads=8 seq_len_q=1 seq_len_kv=40 head_dim=64",
        "softmax dtype=f16 seq_len_q=128 seq_len_kv=60 head_dim=64",
        "softmax dtype=f16 num_heads=4 seq_len_q=128 seq_len_kv=60 head_dim=64 bias",
        "softmax dtype=f16 num_heads=4 seq_len_q=128 seq_len_kv=60 head_dim=64 "
        "softmax_scale=-0.1"}) {
    const Record record = run_emulated("flash_cuda", spec, {.relations = RelationChoice::kNone});
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << spec << ": " << record.outcome.reason;
    EXPECT_EQ(record.memory.workspace_bytes, 0u) << spec;
  }
}

const RunOptions kHiddenNan = testing::only_relation("hidden-nan");

// What is hidden is not touched, and infinities that are seen are right: such tiles are done again.
TEST(CudaSm90Odd, IsDoneAgain) {
  const OnSm90 on;
  for (const char* spec : {"softmax dtype=f16 num_heads=2 seq_len_q=150 head_dim=64 window_right=0",
                           "softmax dtype=bf16 num_heads=2 batch=2 seq_len_q=80 seq_len_kv=190 "
                           "head_dim=256 seq_lens_kv"}) {
    const Record record = run_emulated("flash_cuda", spec, kHiddenNan);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << spec << ": " << record.outcome.reason;
    EXPECT_EQ(record.relations.size(), 1u) << spec;
  }
}

constexpr int kNotDoneAgain = 17, kPaddingMultiplied = 18, kNoFence = 19, kTilesNotCountedAnew = 25,
              kOddForgotten = 26;
constexpr const char* kPadded =
    "softmax dtype=bf16 num_heads=2 batch=2 seq_len_q=80 seq_len_kv=300 head_dim=64 seq_lens_kv";

// Padding may be NaN everywhere: no tile is done again for it.
TEST(CudaSm90Odd, PaddingIsNotMultiplied) {
  const OnSm90 on;
  const testing::PlantedBug bug(kNotDoneAgain);
  const Record record = run_emulated("flash_cuda", kPadded, kHiddenNan);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  EXPECT_EQ(record.relations.size(), 1u);
}

// Bugs in the kernel (cuda::Bug in impls/cuda/device_problem.cuh), by their numbers.
struct Planted {
  const char* name;
  int bug;
  const char* relation = nullptr;  // that shows it; null: fills do
  const char* spec = "softmax dtype=f16 num_heads=2 seq_len_q=70 seq_len_kv=700 head_dim=64";
};
void PrintTo(const Planted& each, std::ostream* out) { *out << each.spec; }
class CudaSm90Bugs : public ::testing::TestWithParam<Planted> {};

TEST_P(CudaSm90Bugs, IsCaught) {
  const OnSm90 on;
  const Planted& planted = GetParam();
  RunOptions options{.relations = RelationChoice::kNone};
  if (planted.relation) options = testing::only_relation(planted.relation);
  EXPECT_EQ(run_emulated("flash_cuda", planted.spec, options).outcome.verdict(), Verdict::kPass);
  const testing::PlantedBug bug(planted.bug);
  const Record record = run_emulated("flash_cuda", planted.spec, options);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kFail)
      << record.spec << ": " << record.outcome.reason;
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, CudaSm90Bugs,
    ::testing::Values(
        Planted{"scores_not_waited", 12}, Planted{"keys_given_back_early", 13},
        Planted{"values_given_back_early", 14},
        Planted{"query_given_back_early", 15, nullptr,
                "softmax dtype=f16 num_heads=6 seq_len_q=70 seq_len_kv=128 head_dim=256"},
        Planted{"second_column", 16, nullptr,
                "softmax dtype=f16 num_heads=2 seq_len_q=70 head_dim=128"},
        Planted{"padding_multiplied", kPaddingMultiplied, "hidden-nan", kPadded},
        Planted{"no_fence", kNoFence, "hidden-nan", kPadded},
        Planted{"not_done_again", kNotDoneAgain, "hidden-nan",
                "softmax dtype=f16 num_heads=2 seq_len_q=150 head_dim=64 window_right=0"},
        Planted{"odd_forgotten", kOddForgotten, "hidden-nan",
                "softmax dtype=f16 num_heads=2 seq_len_q=150 head_dim=64 window_right=0"},
        Planted{"tiles_not_counted_anew", kTilesNotCountedAnew, "repetition",
                "softmax dtype=f16 num_heads=6 seq_len_q=70 seq_len_kv=60 head_dim=64"}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace attest::core
