// The CUDA kernels, run on the host thread by thread: right on every feature that they list, at
// sizes that are no multiple of a tile.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "testing/cuda/emulated_cuda.hpp"

namespace attest::core {
namespace {

using testing::kAllFills;
using testing::run_emulated;

enum class Takes { kAll, kFloat32, kNothing };  // what flash_cuda takes it in
struct Case {
  const char *name, *spec;  // spec without its dtype
  Takes flash = Takes::kAll;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.spec; }

class CudaKernels : public ::testing::TestWithParam<Case> {};

std::string with_dtype(const char* dtype) {
  const std::string spec = CudaKernels::GetParam().spec;
  return "softmax dtype=" + std::string(dtype) + spec;
}

TEST_P(CudaKernels, NaiveIsRight) {
  for (const char* dtype : {"f32", "f16"}) {
    const Record record = run_emulated("naive_cuda", with_dtype(dtype), kAllFills);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
        << record.spec << ": " << record.outcome.reason;
  }
}

TEST_P(CudaKernels, FlashIsRight) {
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    const bool takes =
        GetParam().flash == Takes::kAll || (GetParam().flash == Takes::kFloat32 && dtype == "f32");
    const Record record = run_emulated("flash_cuda", with_dtype(dtype.c_str()), kAllFills);
    EXPECT_EQ(record.outcome.verdict(), takes ? Verdict::kPass : Verdict::kUnsupported)
        << record.spec << ": " << record.outcome.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Features, CudaKernels,
    ::testing::Values(
        Case{"plain", " num_heads=2 seq_len_q=61 seq_len_kv=133 head_dim=64 lse"},
        Case{"exact_tiles", " seq_len_q=128 seq_len_kv=128 head_dim=64 lse"},
        Case{"head_dim_32", " seq_len_q=70 head_dim=32 lse"},
        Case{"head_dim_40", " seq_len_q=70 head_dim=40 head_dim_v=24"},
        Case{"head_dim_128", " seq_len_q=70 seq_len_kv=97 head_dim=128 lse"},
        Case{"head_dim_256", " seq_len_q=35 seq_len_kv=67 head_dim=256 head_dim_v=200"},
        Case{"head_dim_18", " seq_len_q=35 head_dim=18", Takes::kNothing},
        Case{"head_dim_20", " seq_len_q=35 head_dim=20 head_dim_v=28", Takes::kFloat32},
        Case{"causal", " seq_len_q=150 head_dim=64 window_right=0 lse"},
        Case{"bottom_right", " seq_len_q=70 seq_len_kv=150 head_dim=32 window_right=0 diagonal=1"},
        Case{"empty_rows",
             " seq_len_q=150 seq_len_kv=70 head_dim=32 window_right=0 diagonal=1 lse"},
        Case{"window", " seq_len_q=200 head_dim=32 window_left=20 window_right=9"},
        Case{"gqa", " batch=2 num_heads=4 num_kv_heads=2 seq_len_q=40 seq_len_kv=70 head_dim=32"},
        Case{"strides",
             " batch=2 num_heads=2 seq_len_q=40 head_dim=32 q.order=0213 k.order=0213 v.order=0213 "
             "o.order=0213"},
        Case{"softcap", " seq_len_q=61 head_dim=32 softcap=5"},
        Case{"bias", " num_heads=2 seq_len_q=61 head_dim=32 bias"},
        Case{"mask", " batch=2 seq_len_q=61 head_dim=32 mask=[2,1,61,61] lse"},
        Case{"alibi", " num_heads=2 seq_len_q=61 head_dim=32 alibi_slopes window_right=0"},
        // Tiles of 32 and of 16 keys; a shared mask; sequences shorter than a tile of rows.
        Case{"terms_head_dim_128",
             " num_heads=2 seq_len_q=150 seq_len_kv=97 head_dim=128 bias=[1,2,150,97] "
             "mask=[1,1,1,97] lse"},
        Case{"terms_head_dim_256",
             " batch=2 seq_len_q=70 seq_len_kv=50 head_dim=256 bias=[1,1,70,50] alibi_slopes"},
        // What is copied as it lies in memory: in pieces of 16, 8 and 4 bytes, from a key that is
        // not the first, by one warp, with infinities.
        Case{"bias_by_16_bytes",
             " num_heads=2 seq_len_q=150 seq_len_kv=200 head_dim=64 bias=[1,2,150,200] lse"},
        Case{"bias_by_8_bytes",
             " batch=2 seq_len_q=70 seq_len_kv=196 head_dim=32 bias=[2,1,70,196] softcap=5"},
        Case{"bias_by_4_bytes",
             " seq_len_q=70 seq_len_kv=150 head_dim=128 bias=[1,1,70,150] window_left=20"},
        Case{"bias_head_dim_256", " seq_len_q=70 seq_len_kv=72 head_dim=256 bias=[1,1,70,72]"},
        Case{"bias_of_all_queries",
             " num_heads=2 seq_len_q=20 seq_len_kv=152 head_dim=64 bias=[1,2,1,152]"},
        Case{"bias_few_rows", " seq_len_q=7 seq_len_kv=720 head_dim=64 bias=[1,1,7,720] lse"},
        Case{"mask_by_16_bytes",
             " batch=2 seq_len_q=150 seq_len_kv=208 head_dim=64 mask=[2,1,150,208] lse"},
        Case{"mask_by_8_bytes",
             " num_heads=2 seq_len_q=70 seq_len_kv=152 head_dim=128 mask=[1,1,1,152]"},
        Case{"mask_by_4_bytes",
             " seq_len_q=70 seq_len_kv=196 head_dim=32 mask=[1,1,70,196] window_right=20"},
        Case{"mask_head_dim_256", " seq_len_q=70 seq_len_kv=80 head_dim=256 mask=[1,1,70,80] lse"},
        Case{"terms_lengths",
             " batch=2 num_heads=2 seq_len_q=150 head_dim=64 seq_lens_q seq_lens_kv "
             "mask=[1,1,150,150] bias=[2,1,150,150] alibi_slopes"},
        Case{"varlen",
             " batch=3 seq_len_q=50 head_dim=32 cu_seqlens_q cu_seqlens_kv window_right=0 lse"},
        Case{"seq_lens",
             " batch=3 seq_len_q=50 seq_len_kv=90 head_dim=32 seq_lens_q seq_lens_kv lse"},
        Case{"pages",
             " batch=2 seq_len_q=5 seq_len_kv=100 head_dim=32 page_size=16 page_table seq_lens_kv"},
        Case{"sinks",
             " batch=2 num_heads=2 seq_len_q=40 seq_len_kv=70 head_dim=32 sinks window_right=0 "
             "diagonal=1 lse"},
        Case{"decode",
             " batch=2 num_heads=4 num_kv_heads=2 seq_len_q=1 seq_len_kv=700 head_dim=64 lse"},
        Case{"decode_sinks",
             " num_heads=2 seq_len_q=3 seq_len_kv=500 head_dim=32 sinks window_right=0 diagonal=1 "
             "lse"},
        Case{"decode_pages",
             " batch=2 num_heads=4 num_kv_heads=1 seq_len_q=3 seq_len_kv=300 head_dim=32 "
             "page_size=16 page_table seq_lens_kv lse"},
        Case{"packed_heads",
             " num_heads=8 num_kv_heads=1 seq_len_q=21 seq_len_kv=333 head_dim=128 head_dim_v=64 "
             "lse"},
        Case{"split_rows",
             " seq_len_q=150 seq_len_kv=1100 head_dim=32 window_right=0 diagonal=1 lse"},
        Case{"patches", " seq_len_q=150 head_dim=32 patch_size=48 order"},
        Case{"grid",
             " num_heads=2 seq_len_q=144 head_dim=32 grid_height=12 grid_width=12 window_height=4 "
             "window_width=4 "
             "shift_y=2 shift_x=2 shift_bias=-100 rel_bias"}),
    [](const auto& each) { return std::string(each.param.name); });

// Windows of real sizes: Swin's 7 x 7 and 4 x 4, PTv3's patches with a short last one, sets, bands.
// Relations run a problem some thirty times: in f16, or not at all where a run takes long.
enum class Relations { kNone, kInF16, kAll };
struct WindowCase {
  const char* spec;
  Relations relations;
};
constexpr WindowCase kWindowCases[] = {
    {" num_heads=3 seq_len_q=196 head_dim=32 grid_height=14 grid_width=14 window_height=7 "
     "window_width=7 shift_y=3 shift_x=3 shift_bias=-100 rel_bias lse",
     Relations::kInF16},
    {" batch=5 num_heads=8 seq_len_q=192 head_dim=16 grid_height=12 grid_width=16 window_height=4 "
     "window_width=4 shift_y=2 shift_bias=-100",
     Relations::kNone},
    {" num_heads=2 seq_len_q=144 head_dim=64 grid_height=12 grid_width=12 window_height=12 "
     "window_width=12 rel_bias softcap=5",
     Relations::kNone},
    {" num_heads=2 seq_len_q=300 head_dim=16 patch_size=128 order", Relations::kInF16},
    {" seq_len_q=70 head_dim=40 patch_size=26 sinks lse", Relations::kAll},
    {" batch=4 num_heads=2 seq_len_q=36 head_dim=24 cu_seqlens_q cu_seqlens_kv lse",
     Relations::kInF16},
    {" batch=3 num_heads=2 seq_len_q=90 head_dim=24 cu_seqlens_q cu_seqlens_kv", Relations::kInF16},
    {" seq_len_q=100 head_dim=128 patch_size=70 order", Relations::kInF16},
    {" seq_len_q=100 head_dim=16 window_left=70 window_right=9 order", Relations::kInF16},
    {" seq_len_q=64 head_dim=256 grid_height=8 grid_width=8 window_height=4 window_width=8 "
     "shift_y=2 shift_bias=-100 rel_bias",
     Relations::kInF16},
    {" num_heads=4 num_kv_heads=2 seq_len_q=200 head_dim=128 window_left=20 window_right=9",
     Relations::kNone},
    {" batch=2 num_heads=4 num_kv_heads=2 seq_len_q=40 head_dim=16 window_left=9 window_right=5 "
     "softcap=5 lse q.order=0213 o.order=0213",
     Relations::kInF16}};

TEST(CudaWindow, IsRight) {
  for (const std::string dtype : {"f32", "f16", "bf16"})
    for (const WindowCase& each : kWindowCases) {
      const bool compares = each.relations == Relations::kAll ||
                            (each.relations == Relations::kInF16 && dtype == "f16");
      const Record record =
          run_emulated("window_cuda", "softmax dtype=" + dtype + each.spec,
                       {.relations = compares ? RelationChoice::kAll : RelationChoice::kNone});
      EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
          << record.spec << ": " << record.outcome.reason;
    }
  EXPECT_EQ(run_emulated("window_cuda", "softmax dtype=f16 seq_len_q=40 head_dim=32", {})
                .outcome.verdict(),
            Verdict::kUnsupported);
}

// Windows of one tile of rows and keys, of which a block takes several: 7 x 7 and 8 x 8, channels
// and places to spare, heads that share keys, tensors in another order, pairs that -inf hides.
TEST(CudaWindow, OneTileIsRight) {
  for (const auto& [spec, relations] :
       {std::pair("dtype=f16 num_heads=6 num_kv_heads=3 seq_len_q=196 head_dim=32 grid_height=14 "
                  "grid_width=14 window_height=7 window_width=7 shift_y=3 shift_x=2 "
                  "shift_bias=-100 rel_bias lse q.order=0213 o.order=0213",
                  RelationChoice::kNone),
        std::pair("dtype=bf16 batch=3 num_heads=6 seq_len_q=128 head_dim=24 grid_height=8 "
                  "grid_width=16 window_height=8 window_width=8 shift_x=4 shift_bias=-100",
                  RelationChoice::kNone),
        std::pair("dtype=f16 batch=2 seq_len_q=60 head_dim=64 grid_height=5 "
                  "grid_width=12 window_height=5 window_width=12 shift_y=1 shift_bias=-inf "
                  "rel_bias lse",
                  RelationChoice::kAll)}) {
    const Record record =
        run_emulated("window_cuda", "softmax " + std::string(spec), {.relations = relations});
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
        << record.spec << ": " << record.outcome.reason;
    bool hides = false;
    for (const auto& relation : record.relations) hides |= relation.relation == "hidden-nan";
    EXPECT_EQ(hides, relations == RelationChoice::kAll);
  }
}

// Patches of more than a tile of keys: a short last one, fewer tokens than a patch has, heads that
// share keys, channels to spare, an order of each sequence. Runs are compared on the smallest.
TEST(CudaWindow, PatchesAreRight) {
  const std::string smallest =
      "dtype=bf16 num_heads=2 seq_len_q=170 head_dim=40 patch_size=70 order";
  for (const std::string& spec : std::vector<std::string>{
           "dtype=f16 batch=2 num_heads=2 num_kv_heads=1 seq_len_q=330 head_dim=16 patch_size=150 "
           "order lse q.order=0213 o.order=0213",
           smallest, "dtype=f16 num_heads=2 seq_len_q=130 head_dim=32 patch_size=1024 order lse"}) {
    const Record record = run_emulated(
        "window_cuda", "softmax " + spec,
        {.relations = spec == smallest ? RelationChoice::kAll : RelationChoice::kNone});
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
        << record.spec << ": " << record.outcome.reason;
  }
}

// Linear attention: chunks of keys, tails of tiles, masks, heads that share keys, heads that a warp
// has alone, rows that are no multiple of 16 bytes; on tensor cores and without.
struct LinearCase {
  const char *capability, *spec;
};
constexpr LinearCase kLinearCases[] = {
    {"90", " num_heads=2 seq_len_q=61 seq_len_kv=530 head_dim=32"},
    {"90", " batch=3 num_heads=2 seq_len_q=61 seq_len_kv=50 head_dim=16 mask query_mask"},
    {"90", " batch=2 num_heads=2 num_kv_heads=1 seq_len_q=25 head_dim=16"},
    {"90", " num_heads=4 num_kv_heads=2 seq_len_q=40 seq_len_kv=70 head_dim=40 head_dim_v=72"},
    {"90", " batch=2 seq_len_q=70 seq_len_kv=150 head_dim=64 mask query_mask"},
    {"80",
     " batch=2 num_heads=2 seq_len_q=40 head_dim=20 q.order=0213 k.order=0213 v.order=0213 "
     "o.order=0213"},
    {"80", " seq_len_q=40 head_dim=32 q.order=0132 k.order=0132 v.order=0132 o.order=0132"},
    {"80", " seq_len_q=40 head_dim=32 unaligned"},
    {"75", " num_heads=2 seq_len_q=40 seq_len_kv=300 head_dim=40 head_dim_v=24 mask query_mask"}};

TEST(CudaLinear, IsRight) {
  for (const std::string dtype : {"f32", "f16", "bf16"})
    for (const LinearCase& each : kLinearCases) {
      const testing::EmulatedDevice device(each.capability);
      const Record record = run_emulated(
          "linear_cuda", "linear dtype=" + dtype + each.spec,
          {.relations = dtype == "f16" ? RelationChoice::kAll : RelationChoice::kNone});
      EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
          << record.spec << ": " << record.outcome.reason;
    }
}

// Deformable attention: 16 bytes of channels a thread or one channel, rows of one thread and of a
// whole block, more channels than a block takes at a time, more points than fit into its shared
// memory, heads that lie apart, locations in another dtype.
constexpr const char* kDeformableCases[] = {
    " batch=2 num_heads=3 seq_len_q=41 head_dim_v=32 num_points=4 level_height_0=9 "
    "level_width_0=14 level_height_1=5 level_width_1=7",
    " num_heads=2 seq_len_q=61 head_dim_v=8 num_points=9 level_height_0=6 level_width_0=1 "
    "level_height_1=1 level_width_1=1 align_corners=1",
    " seq_len_q=20 head_dim_v=5 num_points=3 level_height_0=7 level_width_0=11",
    " seq_len_q=9 head_dim_v=1 num_points=5 level_height_0=7 level_width_0=11",
    " seq_len_q=5 head_dim_v=1000 num_points=2 level_height_0=7 level_width_0=11",
    " seq_len_q=12 head_dim_v=512 num_points=70 level_height_0=7 level_width_0=11 "
    "level_height_1=4 level_width_1=4",
    " batch=2 num_heads=8 seq_len_q=30 head_dim_v=32 num_points=4 level_height_0=10 "
    "level_width_0=10 v.order=0213 o.order=0213 locations.order=021345 weights.order=02134",
    " num_heads=2 seq_len_q=30 head_dim_v=16 num_points=4 level_height_0=10 level_width_0=10 "
    "v.order=0132 locations=f32",
    " num_heads=2 seq_len_q=30 head_dim_v=16 num_points=4 level_height_0=10 level_width_0=10 "
    "unaligned"};

TEST(CudaDeformable, IsRight) {
  for (const std::string dtype : {"f32", "f16", "bf16"})
    for (const char* spec : kDeformableCases) {
      const Record record = run_emulated("deformable_cuda", "deformable dtype=" + dtype + spec,
                                         {.relations = RelationChoice::kNone});
      EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
          << record.spec << ": " << record.outcome.reason;
    }
}

// Bugs in the kernels themselves (cuda::Bug in impls/cuda/device_problem.cuh), by their numbers:
// each is caught, by a problem that passes without it (above, but for smaller sizes).
struct Planted {
  const char *name, *implementation, *spec;
  int bug;
};
void PrintTo(const Planted& each, std::ostream* out) { *out << each.spec; }
class CudaBugs : public ::testing::TestWithParam<Planted> {};

TEST_P(CudaBugs, IsCaught) {
  const Planted& planted = GetParam();
  const RunOptions options{.relations = RelationChoice::kNone};
  EXPECT_EQ(run_emulated(planted.implementation, planted.spec, options).outcome.verdict(),
            Verdict::kPass);
  const testing::PlantedBug bug(planted.bug);
  const Record record = run_emulated(planted.implementation, planted.spec, options);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kFail)
      << record.spec << ": " << record.outcome.reason;
}

constexpr const char* kTiles =
    "softmax dtype=f16 num_heads=12 seq_len_q=20 seq_len_kv=200 head_dim=32 lse";  // too many heads
                                                                                   // to split
constexpr const char* kFloats = "softmax dtype=f32 seq_len_q=20 seq_len_kv=70 head_dim=32";
constexpr const char* kSplits =
    "softmax dtype=f16 num_heads=2 seq_len_q=3 seq_len_kv=700 head_dim=32 sinks lse";
constexpr const char* kBias =
    "softmax dtype=f16 num_heads=2 seq_len_q=61 head_dim=32 bias=[1,1,61,61]";
constexpr const char* kCopiedBias =
    "softmax dtype=f16 num_heads=2 seq_len_q=61 seq_len_kv=200 head_dim=32 bias=[1,1,61,200]";
constexpr const char* kCopiedMask =
    "softmax dtype=bf16 num_heads=2 seq_len_q=61 seq_len_kv=200 head_dim=32 mask=[1,1,61,200]";
constexpr const char* kWindows =
    "softmax dtype=f16 batch=5 num_heads=8 seq_len_q=192 head_dim=16 grid_height=12 grid_width=16 "
    "window_height=4 window_width=4 "
    "shift_y=2 shift_bias=-100";
constexpr const char* kSmallWindows =
    "softmax dtype=f16 batch=8 num_heads=4 seq_len_q=98 head_dim=32 grid_height=7 grid_width=14 "
    "window_height=7 window_width=7 shift_x=3 shift_bias=-100";
constexpr const char* kHiddenPairs =
    "softmax dtype=f16 num_heads=2 seq_len_q=60 head_dim=64 grid_height=5 grid_width=12 "
    "window_height=5 window_width=12 shift_y=1 shift_bias=-inf";
constexpr const char* kPatches = "softmax dtype=f16 seq_len_q=330 head_dim=16 patch_size=150 order";
constexpr const char* kDeformable =
    "deformable dtype=f16 num_heads=2 seq_len_q=30 head_dim_v=32 num_points=7 level_height_0=9 "
    "level_width_0=14 level_height_1=5 level_width_1=7";
constexpr const char* kLinear =
    "linear dtype=f32 num_heads=2 seq_len_q=40 seq_len_kv=1100 head_dim=32";

INSTANTIATE_TEST_SUITE_P(
    Kernels, CudaBugs,
    ::testing::Values(Planted{"no_barrier", "flash_cuda", kTiles, 1},
                      Planted{"no_wait", "flash_cuda", kTiles, 2},
                      Planted{"tile_of_keys", "flash_cuda", kTiles, 3},
                      Planted{"split_bound", "flash_cuda", kSplits, 5},
                      Planted{"sink_in_every_split", "flash_cuda", kSplits, 6},
                      Planted{"sink_dropped", "flash_cuda", kSplits, 7},
                      Planted{"terms_of_rows_before", "flash_cuda", kBias, 31},
                      Planted{"copied_terms_of_rows_before", "flash_cuda", kCopiedBias, 31},
                      Planted{"bias_of_first_tile", "flash_cuda", kCopiedBias, 32},
                      Planted{"mask_of_first_tile", "flash_cuda", kCopiedMask, 32},
                      Planted{"linear_no_barrier", "linear_cuda", kLinear, 1},
                      Planted{"linear_no_wait", "linear_cuda", kLinear, 2},
                      Planted{"linear_small_of_left", "linear_cuda", kLinear, 21},
                      Planted{"linear_small_of_right", "linear_cuda", kLinear, 22},
                      Planted{"chunk_bound", "linear_cuda", kLinear, 8},
                      Planted{"chunk_dropped", "linear_cuda", kLinear, 9},
                      Planted{"window_terms", "window_cuda", kWindows, 11},
                      Planted{"keys_of_window_before", "window_cuda", kWindows, 29},
                      Planted{"patches_no_barrier", "window_cuda", kPatches, 1},
                      Planted{"patches_tail_seen", "window_cuda", kPatches, 30},
                      Planted{"small_windows_no_barrier", "window_cuda", kSmallWindows, 1},
                      Planted{"small_windows_hidden_values", "window_cuda", kHiddenPairs, 10},
                      Planted{"seam_forgotten", "window_cuda", kSmallWindows, 27},
                      Planted{"rows_of_next_window", "window_cuda", kSmallWindows, 28},
                      Planted{"deformable_no_barrier", "deformable_cuda", kDeformable, 1},
                      Planted{"deformable_chunk_dropped", "deformable_cuda", kDeformable, 9},
                      Planted{"width_of_first_level", "deformable_cuda", kDeformable, 33},
                      Planted{"right_edge_wraps", "deformable_cuda", kDeformable, 34},
                      Planted{"small_of_left", "flash_cuda", kFloats, 21},
                      Planted{"small_of_right", "flash_cuda", kFloats, 22}),
    [](const auto& each) { return std::string(each.param.name); });

// What is hidden is not touched: 0 times NaN would be NaN.
TEST(CudaKernelsHidden, NanNeverLeaks) {
  for (const char* spec :
       {"softmax dtype=f16 seq_len_q=150 head_dim=32 window_right=0",
        "softmax dtype=f16 batch=2 seq_len_q=61 head_dim=32 mask=[2,1,61,61]",
        "softmax dtype=bf16 batch=2 seq_len_q=50 seq_len_kv=90 head_dim=32 seq_lens_kv"})
    for (const char* name : {"naive_cuda", "flash_cuda"}) {
      const Record record = run_emulated(name, spec, testing::only_relation("hidden-nan"));
      EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
          << name << " on " << spec << ": " << record.outcome.reason;
      EXPECT_EQ(record.relations.size(), 1u) << spec;
    }
}

}  // namespace
}  // namespace attest::core
