// What implementations do to memory, through the whole harness: whatever lies outside of their
// elements is noticed and named, and sparse tensors take no more memory than their elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>

#include "core/isolation/memory/shared_memory.hpp"
#include "core/measure/machine/affinity.hpp"
#include "core/measure/machine/caches.hpp"
#include "core/measure/machine/memory.hpp"
#include "core/problem/spec.hpp"
#include "core/run/memory_room.hpp"
#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

Record run(const std::string& plugin_name, const std::string& name, const std::string& spec,
           bool timed = false) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/" + plugin_name + ".so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  RunOptions options;
  options.limits.budget_s = 0.02;
  options.timed = timed;
  return testing::run_named(plugin, name, spec, options);
}

struct Trespass {
  const char* name;
  ReasonCode code;
  const char* reason;
};
void PrintTo(const Trespass& trespass, std::ostream* out) { *out << trespass.name; }

// O has rows of 64 elements with gaps of 3, Q with gaps of 1; the sizes of all tensors leave room
// behind them on either side.
constexpr const char* kRoomy =
    "softmax batch=2 seq_len_q=16 head_dim=64 o.strides=[1072,0,67,1] q.strides=[1040,0,65,1]";

class Memory : public ::testing::TestWithParam<Trespass> {};

TEST_P(Memory, IsGuarded) {
  const Trespass& trespass = GetParam();
  const Record record = run("trespassers", trespass.name, kRoomy);
  EXPECT_EQ(record.outcome.code, trespass.code) << record.outcome.reason;
  EXPECT_THAT(record.outcome.reason, HasSubstr(trespass.reason));
}

INSTANTIATE_TEST_SUITE_P(
    Trespassers, Memory,
    ::testing::Values(
        Trespass{"trespasser_none", ReasonCode::kPass, ""},
        Trespass{"trespasser_before", ReasonCode::kCrashCanary,
                 "o was written 4 bytes before its start"},
        Trespass{"trespasser_behind", ReasonCode::kCrashCanary,
                 "o was written past its end, at byte 0 behind it"},
        Trespass{"trespasser_vector_behind", ReasonCode::kCrashCanary,
                 "o was written past its end, at byte 0 behind it"},
        Trespass{"trespasser_between", ReasonCode::kCrashCanary,
                 "o was written between its elements, at byte 256"},
        Trespass{"trespasser_input", ReasonCode::kCrashInputWritten, "at byte 148 of k"},
        Trespass{"trespasser_read_before", ReasonCode::kFailNan, "nan where"},
        Trespass{"trespasser_read_behind", ReasonCode::kFailNan, "nan where"},
        Trespass{"trespasser_read_between", ReasonCode::kFailNan, "nan where"},
        Trespass{"trespasser_aligned_tensor", ReasonCode::kFailNan, "nan where"},
        Trespass{"trespasser_aligned_workspace", ReasonCode::kCrashCanary,
                 "workspace was written 256 bytes before its start"},
        Trespass{"trespasser_little_workspace", ReasonCode::kCrashCanary,
                 "workspace was written past its end, at byte 0 behind it"},
        Trespass{"trespasser_much_workspace", ReasonCode::kCrashSignal,
                 "past the end of workspace"},
        Trespass{"trespasser_zeroed_workspace", ReasonCode::kFailNan, "nan where"},
        Trespass{"trespasser_zeroed_output", ReasonCode::kFailUnwritten, "o[0,0,0,0]"}),
    [](const auto& each) { return std::string(each.param.name).substr(11); });

// Each takes some 256 KiB and frees it, which malloc keeps for the next.
TEST(PeakMemory, IsOfEachProblemThoughMallocKeepsWhatWasFreed) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/cheats.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  RunOptions options;
  options.timed = false;
  options.relations = RelationChoice::kNone;
  for (const int tokens : {64, 63, 62, 61, 61}) {
    const std::string spec = "softmax num_heads=16 head_dim=64 seq_len_q=" + std::to_string(tokens);
    const Record record = testing::run_named(plugin, "cheat_shape", spec, options);
    ASSERT_TRUE(record.outcome.passes()) << record.outcome.reason;
    EXPECT_GE(record.memory.peak_bytes.value_or(0), uint64_t{200} << 10) << spec;
  }
}

// Batches lie 2^31 + 12 elements apart: 8 GiB of addresses a tensor, a few KiB of elements.
TEST(SparseMemory, IsThatOfTheElements) {
  const std::string strides = "=[2147483660,0,64,1]";
  const Record record =
      run("mutants", "mutant_none",
          "softmax batch=2 seq_len_q=61 head_dim=64 q.strides" + strides + " k.strides" + strides +
              " v.strides" + strides + " o.strides" + strides,
          true);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  EXPECT_GE(record.fills.size(), 2u);
  EXPECT_TRUE(record.time);
  EXPECT_LT(record.memory.peak_bytes.value_or(0), uint64_t{4} << 20);
  rusage ended{}, own{};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &ended), 0);  // the largest worker so far
  ASSERT_EQ(getrusage(RUSAGE_SELF, &own), 0);
  EXPECT_LT(ended.ru_maxrss, 1 << 20) << "KiB, of which up to 512 MiB empty the caches";
  EXPECT_LT(own.ru_maxrss, 1 << 20) << "KiB, of which the same are shared with the worker";
}

// What the user allows counts for small amounts too, of which the machine is not asked.
TEST(MemoryRoom, HeedsTheUsersLimit) {
  EXPECT_TRUE(fits_in_memory(1 << 20, 0.5, 0, "needs 1 MiB").passes());
  EXPECT_TRUE(fits_in_memory(1 << 20, 0.5, 1 << 20, "needs 1 MiB").passes());
  const Outcome small = fits_in_memory(1 << 20, 0.5, 1 << 19, "needs 1 MiB");
  EXPECT_EQ(small.code, ReasonCode::kSkippedMemory);
  EXPECT_EQ(small.reason, "needs 1 MiB; --memory allows 0.5 MiB");
  const Outcome huge = fits_in_memory(0x1p60, 0.5, uint64_t{1} << 61, "needs much");
  EXPECT_EQ(huge.code, ReasonCode::kSkippedMemory);
  EXPECT_THAT(huge.reason, HasSubstr("needs much; the limit is "));
  EXPECT_EQ(print_memory(160 << 20), "160 MiB");
  EXPECT_EQ(print_memory(1.5 * (1 << 30)), "1.5 GiB");
}

TEST(MemoryRoom, TakesBackWhatIsKeptBeforeItRefuses) {
  constexpr int64_t kBytes = 48 << 20;
  const auto is_new = [] { return SharedMemory(ATTEST_WRITE, kBytes, Reuse::kKept).is_new(); };
  is_new();
  EXPECT_FALSE(is_new());
  EXPECT_TRUE(fits_in_memory(100 << 20, 0.5, 0, "needs 100 MiB").passes());
  EXPECT_FALSE(is_new()) << "there is room";
  EXPECT_FALSE(fits_in_memory(0x1p60, 0.5, 0, "needs much").passes());
  EXPECT_FALSE(is_new()) << "no memory would be enough";
  const double all_bytes = double(read_memory().total_bytes);
  EXPECT_FALSE(fits_in_memory(0.5 * all_bytes, 0.5, 0, "needs all").passes());
  EXPECT_TRUE(is_new());
}

// With relations, the limit of the worker holds for what they need beside the case.
TEST(MemoryRoom, RelationsHeedTheUsersLimit) {
  Plugin plugin(ATTEST_BINARY_DIR "/tests/plugins/mutants.so",
                {.executable = find_worker(),
                 .cpus = "",
                 .limits = {.threads = 1, .timeout_s = 60, .memory_bytes = 40 << 20}});
  RunOptions options;
  options.timed = false;
  options.relations = RelationChoice::kAll;
  const Record record = testing::run_named(
      plugin, "mutant_none", "softmax batch=16 num_heads=8 seq_len_q=64 head_dim=64", options);
  EXPECT_TRUE(record.outcome.passes()) << record.outcome.reason;
  ASSERT_FALSE(record.relations.empty());
  EXPECT_EQ(record.relations[0].judgement.outcome.code, ReasonCode::kSkippedMemory);
}

// What the worker keeps for later timed runs is not the implementation's.
TEST(MemoryLimit, LeavesOutWhatTheWorkerKeeps) {
  const uint64_t for_caches = 2 * last_level_cache_bytes(allowed_cpus()),
                 limit = for_caches + (uint64_t{64} << 20);
  Plugin plugin(ATTEST_BINARY_DIR "/tests/plugins/mutants.so",
                {.executable = find_worker(),
                 .cpus = "",
                 .limits = {.threads = 1, .timeout_s = 60, .memory_bytes = limit}});
  const auto time = [&](const std::string& spec) {
    const Problem problem = parse_problem(spec);
    const SharedTensors inputs(problem, ATTEST_READ);
    const Implementation& implementation = testing::named(plugin, "mutant_none");
    SharedTensors outputs(problem, ATTEST_WRITE,
                          plugin.query(implementation, problem).support.workspace_bytes),
        differing(problem, ATTEST_WRITE);
    return plugin.time(implementation, problem,
                       {.inputs = inputs, .outputs = outputs, .differing = differing},
                       {.expected_ns = 1e6, .budget_ns = 0.3e9});
  };
  const TimeResult large = time("softmax seq_len_q=1 seq_len_kv=210000 head_dim=64"),
                   small = time("softmax seq_len_q=61 head_dim=64");
  EXPECT_FALSE(large.failure) << large.failure->reason;
  EXPECT_FALSE(small.failure) << small.failure->reason;
}

}  // namespace
}  // namespace attest::core
