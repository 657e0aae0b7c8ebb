// What implementations do to memory, through the whole harness: whatever lies outside of their elements is noticed and named, and
// sparse tensors take no more memory than their elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

Record run(const std::string& plugin_name, const std::string& name, const std::string& spec, bool timed = false) {
  Plugin plugin(ATTEST_BINARY_DIR "/tests/plugins/" + plugin_name + ".so",
                {.executable = find_worker(), .cpus = "", .threads = 1, .timeout_s = 60});
  const Problem problem = parse_problem(spec);
  RunOptions options;
  options.budget_s = 0.02, options.timed = timed;
  Rates rates;
  CaseRunner runner(problem, print_problem(problem), {"memory", spec, "random", ""}, nullptr, options, rates);
  for (const Implementation& implementation : plugin.implementations())
    if (implementation.name == name) return runner.run(plugin, implementation);
  ADD_FAILURE() << "no implementation " << name;
  return {};
}

// Batches lie 2^31 + 12 elements apart: 8 GiB of addresses a tensor, a few KiB of elements.
TEST(Memory, OfSparseTensorsIsThatOfTheirElements) {
  const std::string strides = "=[2147483660,0,64,1]";
  const Record record = run("mutants", "mutant_none",
                            "softmax batch=2 seq_len_q=61 head_dim=64 q.strides" + strides + " k.strides" + strides +
                                " v.strides" + strides + " o.strides" + strides,
                            true);
  EXPECT_EQ(record.verdict, Verdict::kPass) << record.reason;
  EXPECT_GE(record.fills.size(), 2u);
  EXPECT_TRUE(record.time);
  EXPECT_LT(record.memory.peak_bytes.value_or(0), uint64_t{4} << 20);
  rusage ended{}, own{};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &ended), 0);  // the largest worker so far
  ASSERT_EQ(getrusage(RUSAGE_SELF, &own), 0);
  EXPECT_LT(ended.ru_maxrss, 512 << 10) << "KiB";
  EXPECT_LT(own.ru_maxrss, 512 << 10) << "KiB";
}

}  // namespace
}  // namespace attest::core
