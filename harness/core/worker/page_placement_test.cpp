// Pages of timed tensors lie on all nodes of a run in equal shares. Machines of several nodes are
// made up: which CPU touches a page is seen here, not where the system then puts it.
#include "core/worker/page_placement.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <map>
#include <mutex>

namespace attest::core {
namespace {

constexpr uintptr_t kStep = uintptr_t{2} << 20;

/// The node of each byte range, by address.
std::map<uintptr_t, size_t> nodes_by_address(const std::vector<std::vector<MemoryRange>>& shares,
                                             const Nodes& nodes) {
  std::map<uintptr_t, size_t> node_at;
  size_t cpu = 0;
  for (size_t node = 0; node < nodes.size(); ++node)
    for (size_t i = 0; i < nodes[node].size(); ++i, ++cpu)
      for (const MemoryRange& step : shares.at(cpu)) node_at[step.begin] = node;
  return node_at;
}

TEST(PagePlacement, CoversEveryByteOnce) {
  const std::vector<MemoryRange> all{{10 * kStep + 4096, 17 * kStep - 5, kStep}, {64, 300, 128}};
  std::map<uintptr_t, uintptr_t> ends;
  for (const std::vector<MemoryRange>& share : share_pages(all, {{0, 1}, {4, 5, 6}}))
    for (const MemoryRange& step : share) EXPECT_TRUE(ends.emplace(step.begin, step.end).second);
  for (const MemoryRange& pages : all) {
    uintptr_t at = pages.begin;
    for (; at < pages.end; at = ends.at(at)) EXPECT_LE(ends.at(at) - at, pages.step_bytes);
    EXPECT_EQ(at, pages.end);
  }
}

// The CPUs of one node follow one another, so that dealing to CPUs in turn would put a tensor of a
// few steps on one node.
TEST(PagePlacement, NodesTakeTurnsHoweverManyCpusTheyHave) {
  const Nodes nodes{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}, {16}};
  const std::vector<std::vector<MemoryRange>> shares =
      share_pages(std::vector<MemoryRange>{{30 * kStep, 48 * kStep, kStep}}, nodes);
  size_t node = 0;
  for (const auto& [address, of] : nodes_by_address(shares, nodes))
    EXPECT_EQ(of, node++ % 3) << address / kStep;
  EXPECT_EQ(node, 18u);
  for (size_t cpu = 0; cpu < 16; ++cpu) EXPECT_LE(shares[cpu].size(), 1u) << cpu;
}

TEST(PagePlacement, DoesNotDependOnTheTensors) {
  const Nodes nodes{{0, 1}, {2, 3}};
  const auto whole =
      nodes_by_address(share_pages(std::vector<MemoryRange>{{0, 8 * kStep, kStep}}, nodes), nodes);
  const auto part = nodes_by_address(
      share_pages(
          std::vector<MemoryRange>{{3 * kStep, 4 * kStep, kStep}, {5 * kStep, 7 * kStep, kStep}},
          nodes),
      nodes);
  for (const auto& [address, node] : part) EXPECT_EQ(node, whole.at(address)) << address / kStep;
}

// Each CPU at hand as a node.
TEST(PagePlacement, TheCpuThatAStepBelongsToTouchesIt) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU";
  Nodes nodes;
  for (const int cpu : cpus) nodes.push_back({cpu});
  std::mutex lock;
  std::map<uintptr_t, int> toucher;
  const uintptr_t count = 4 * cpus.size();
  get_pages(std::vector<MemoryRange>{{0, count * kStep, kStep}}, nodes,
            [&](const MemoryRange& step) {
              const std::lock_guard guard(lock);
              toucher[step.begin / kStep] = sched_getcpu();
            });
  ASSERT_EQ(toucher.size(), count);
  for (const auto& [step, cpu] : toucher) EXPECT_EQ(cpu, cpus[step % cpus.size()]) << step;
}

}  // namespace
}  // namespace attest::core
