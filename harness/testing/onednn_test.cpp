// onednn_primitives and onednn_graph: right whatever the layout and in whatever parts, on as many
// threads as they may use; what they say where oneDNN does not take a problem, and whether it
// fuses.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr const char* kPlugin = ATTEST_BINARY_DIR "/plugins/onednn_primitives.so";
constexpr const char* kInParts = ATTEST_BINARY_DIR "/tests/plugins/onednn_in_parts.so";
constexpr const char* kGraph = ATTEST_BINARY_DIR "/plugins/onednn_graph.so";

const attest_impl& table(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const auto entry = reinterpret_cast<const attest_impl* (*)(size_t)>(
      library ? dlsym(library, "attest_plugin_v1") : nullptr);
  if (!entry) throw std::runtime_error(dlerror());
  return *entry(0);
}

class OnednnTable : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Plugins, OnednnTable, ::testing::Values(kPlugin, kGraph));

TEST_P(OnednnTable, VersionIsThatOfTheLibrary) {
  EXPECT_THAT(table(GetParam()).version, MatchesRegex("oneDNN [0-9]+\\.[0-9]+\\.[0-9]+"));
}

size_t threads_of_this_process() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

/// A problem that is large enough for several threads.
void attend(const attest_impl& table, int32_t threads) {
  constexpr int64_t kTokens = 400, kHeads = 4, kChannels = 32;
  alignas(64) char support_space[ATTEST_ROOM] = {}, problem_space[ATTEST_ROOM] = {},
                   params_space[ATTEST_ROOM] = {};
  auto& support = *reinterpret_cast<attest_support*>(support_space);
  auto& problem = *reinterpret_cast<attest_problem*>(problem_space);
  auto& params = *reinterpret_cast<attest_softmax_params*>(params_space);
  params = {.struct_size = sizeof params,
            .batch = 1,
            .num_heads = kHeads,
            .num_kv_heads = kHeads,
            .seq_len_q = kTokens,
            .seq_len_kv = kTokens,
            .head_dim = kChannels,
            .head_dim_v = kChannels,
            .window_left = -1,
            .window_right = -1,
            .softmax_scale = 1};
  std::vector<attest_tensor> tensor(ATTEST_ROLES);
  std::vector<void*> data(ATTEST_ROLES);
  std::vector<std::vector<float>> memory;
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
    tensor[role] = {.dtype = ATTEST_F32,
                    .rank = 4,
                    .dim = {1, kHeads, kTokens, kChannels},
                    .stride = {0, kTokens * kChannels, kChannels, 1}};
    data[role] = memory.emplace_back(kHeads * kTokens * kChannels, 1.0f).data();
  }
  problem = {.struct_size = sizeof problem,
             .operation = ATTEST_SOFTMAX,
             .params = &params,
             .tensor = tensor.data(),
             .threads = threads};
  ASSERT_EQ(table.query(&problem, &support), ATTEST_OK) << support.reason;
  void* plan = nullptr;
  ASSERT_EQ(table.create(&problem, &plan), ATTEST_OK) << table.last_error();
  std::vector<char> workspace(support.workspace_bytes + 256);
  EXPECT_EQ(table.run(plan, data.data(), workspace.data(), nullptr), ATTEST_OK);
  table.destroy(plan);
  EXPECT_NEAR(memory.back().front(), 1, 1e-5);
}

TEST_P(OnednnTable, HasTheThreadsOfTheProblemWhateverOpenMpHas) {
  omp_set_num_threads(5);
  const size_t before = threads_of_this_process();
  attend(table(GetParam()), 1);
  EXPECT_EQ(threads_of_this_process(), before);
  attend(table(GetParam()), 2);
  EXPECT_EQ(threads_of_this_process(), std::max<size_t>(before, 2));
  EXPECT_EQ(omp_get_max_threads(), 5);
}

/// query compiles too; what it leaves in oneDNN's caches would be missing in the time of create.
TEST(OnednnGraphCreate, FindsNoCodeOfQuery) {
  attend(table(kGraph), 1);
  void* const plugin = dlopen(kGraph, RTLD_NOW | RTLD_NOLOAD);  // and what it needs
  ASSERT_TRUE(plugin) << dlerror();
  for (const char* name :
       {"dnnl_get_primitive_cache_capacity", "dnnl_graph_get_compiled_partition_cache_capacity"}) {
    const auto capacity = reinterpret_cast<int (*)(int*)>(dlsym(plugin, name));
    int found = -1;
    ASSERT_TRUE(capacity) << dlerror();
    EXPECT_EQ(capacity(&found), 0) << name;
    EXPECT_EQ(found, 0) << name;
  }
}

Record run(const char* path, const std::string& spec, RunOptions options) {
  const char* const name = path == kGraph ? "onednn_graph" : "onednn_primitives";
  Plugin plugin(path, {.executable = find_worker(), .limits = {.threads = 2, .timeout_s = 60}});
  options.timed = false;
  return testing::run_named(plugin, name, spec, options);
}

using Layout = std::tuple<const char*, const char*>;
class Onednn : public ::testing::TestWithParam<Layout> {};

/// float32 is taken on every CPU. What is taken of the others depends on it.
TEST_P(Onednn, IsRight) {
  const std::string dtype = std::get<0>(GetParam());
  const std::string spec = "softmax dtype=" + dtype + " " + std::get<1>(GetParam());
  for (const char* path : {kPlugin, kInParts}) {
    const Record record = run(path, spec, {.relations = RelationChoice::kNone, .all_checks = true});
    if (dtype != "f32" && record.outcome.verdict() == Verdict::kUnsupported)
      EXPECT_THAT(record.outcome.reason, MatchesRegex(".*(reference|unimplemented).*")) << spec;
    else
      EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
          << path << ": " << spec << ": " << record.outcome.reason;
  }
}
INSTANTIATE_TEST_SUITE_P(
    Layouts, Onednn,
    ::testing::Combine(
        ::testing::Values("f32", "f16", "bf16"),
        ::testing::Values(
            "num_heads=12 seq_len_q=197 head_dim=64",
            "batch=5 num_heads=3 seq_len_q=11 seq_len_kv=17 head_dim=24 head_dim_v=40",
            "batch=2 num_heads=6 num_kv_heads=2 seq_len_q=19 seq_len_kv=50 head_dim=16",
            "batch=3 num_heads=4 num_kv_heads=1 seq_len_q=1 seq_len_kv=300 head_dim=32",
            "batch=2 num_heads=3 seq_len_q=33 head_dim=16 q.order=0213 k.order=0132 "
            "v.order=0213 o.order=0213",
            "batch=2 num_heads=4 num_kv_heads=2 seq_len_q=33 head_dim=16 q.order=0213 "
            "k.order=0213 v.order=0213 o.order=0213",
            "num_heads=2 seq_len_q=40 seq_len_kv=33 head_dim=16 window_right=0 diagonal=1",
            "num_heads=4 num_kv_heads=2 seq_len_q=33 head_dim=16 window_left=5 window_right=3",
            "batch=3 seq_len_q=33 head_dim=16 mask=[3,1,1,33] v.order=0213",
            "num_heads=2 seq_len_q=33 head_dim=16 mask=[1,2,33,33] window_right=0",
            "batch=2 num_heads=2 seq_len_q=33 head_dim=16 bias=[1,2,33,33] softcap=2.5",
            "batch=4 num_heads=2 seq_len_q=33 head_dim=16 seq_lens_q seq_lens_kv alibi_slopes",
            "seq_len_q=1 seq_len_kv=1 head_dim=1",
            "seq_len_q=7 seq_len_kv=1200 head_dim=8 softmax_scale=0.5")));

class OnednnGraph : public ::testing::TestWithParam<Layout> {};

/// bf16 is not taken where oneDNN keeps scores in it and the scale is no bf16 number. f32 is always
/// taken unless oneDNN fuses and is known to be wrong then.
TEST_P(OnednnGraph, IsRight) {
  const std::string dtype = std::get<0>(GetParam());
  const std::string spec = "softmax dtype=" + dtype + " " + std::get<1>(GetParam());
  const Record record = run(kGraph, spec, {.relations = RelationChoice::kNone, .all_checks = true});
  if (record.outcome.verdict() == Verdict::kUnsupported)
    EXPECT_THAT(record.outcome.reason,
                MatchesRegex(dtype == "f32" ? ".* would fuse attention.*"
                                            : ".* (would .*|.*un(implement|support)ed.*)"))
        << spec;
  else
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << spec << ": " << record.outcome.reason;
}
INSTANTIATE_TEST_SUITE_P(
    Layouts, OnednnGraph,
    ::testing::Combine(
        ::testing::Values("f32", "f16", "bf16"),
        ::testing::Values(
            "num_heads=12 seq_len_q=197 head_dim=64",
            "batch=5 num_heads=3 seq_len_q=11 seq_len_kv=17 head_dim=24 head_dim_v=40",
            "batch=2 num_heads=6 num_kv_heads=2 seq_len_q=19 seq_len_kv=50 head_dim=16",
            "batch=2 num_heads=4 num_kv_heads=2 seq_len_q=33 head_dim=16 q.order=0213 "
            "k.order=0213 v.order=0132 o.order=0213",
            "num_heads=2 seq_len_q=40 seq_len_kv=33 head_dim=16 window_right=0 diagonal=1",
            "num_heads=4 num_kv_heads=2 seq_len_q=33 head_dim=16 window_left=5 window_right=3",
            "batch=3 num_heads=4 num_kv_heads=2 seq_len_q=33 head_dim=16 mask=[3,1,1,33]",
            "num_heads=2 seq_len_q=33 head_dim=16 mask=[1,2,33,33] bias=[1,1,1,33] window_right=0",
            "batch=2 num_heads=4 num_kv_heads=2 seq_len_q=33 head_dim=16 bias=[1,4,33,33]",
            "batch=3 num_heads=2 seq_len_q=33 head_dim=16 bias=[1,2,33,33] v.order=0213",
            "batch=3 num_heads=2 seq_len_q=33 head_dim=16 mask=[1,2,33,33]",
            "batch=2 num_heads=2 seq_len_q=33 head_dim=16 bias=[2,1,33,1]",
            "batch=2 num_heads=2 seq_len_q=33 head_dim=16 bias=[2,1,33,33] bias.order=1032",
            "seq_len_q=1 seq_len_kv=1 head_dim=1",
            "seq_len_q=7 seq_len_kv=1200 head_dim=8 softmax_scale=0.5")));

TEST(OnednnGraphSays, WhetherItFuses) {
  const Record record = run(kGraph, "softmax dtype=f32 seq_len_q=40 head_dim=16 window_right=0",
                            {.relations = RelationChoice::kNone});
  EXPECT_THAT(record.notes,
              ::testing::Contains(MatchesRegex(
                  "oneDNN [0-9.]+ on [a-z0-9_]+ "
                  "(fuses attention into one partition \\(MatMul Multiply Add SoftMax MatMul"
                  "|does not fuse attention: [2-5] partitions \\(MatMul.*, .*MatMul)"
                  "\\)")));
}

TEST(OnednnGraphSays, ThatTheScaleWouldBeRounded) {
  const Record record = run(kGraph, "softmax dtype=bf16 seq_len_q=40 head_dim=16 softmax_scale=0.3",
                            {.relations = RelationChoice::kNone});
  if (record.outcome.verdict() == Verdict::kUnsupported)
    EXPECT_THAT(
        record.outcome.reason,
        MatchesRegex("oneDNN.* (would round softmax_scale 0.300000012 to bf16|.*unimpl.*)"));
  else
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
}

/// Runs on a CPU of no more than AVX2, as far as oneDNN knows.
TEST(OnednnRefusals, NameTheStatusAndTheInstructionSet) {
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  const RunOptions judged{.relations = RelationChoice::kNone};
  const Record taken = run(kPlugin, "softmax dtype=f32 seq_len_q=40 head_dim=16", judged);
  EXPECT_EQ(taken.outcome.verdict(), Verdict::kPass) << taken.outcome.reason;
  const Record refused = run(kPlugin, "softmax dtype=f16 seq_len_q=40 head_dim=16", judged);
  EXPECT_EQ(refused.outcome.verdict(), Verdict::kUnsupported) << refused.outcome.reason;
  EXPECT_THAT(refused.outcome.reason,
              MatchesRegex("oneDNN [0-9.]+ on avx2: .*matmul.*\\(unimplemented\\)"));
  unsetenv("ONEDNN_MAX_CPU_ISA");
}

TEST(OnednnRefusals, NameTheFeature) {
  const Record record = run(kPlugin, "softmax dtype=f32 seq_len_q=40 head_dim=16 lse", {});
  EXPECT_EQ(record.outcome.verdict(), Verdict::kUnsupported);
  EXPECT_THAT(record.outcome.reason, HasSubstr("does not support LSE"));
}

}  // namespace
}  // namespace attest::core
