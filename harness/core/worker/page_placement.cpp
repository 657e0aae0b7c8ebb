#include "core/worker/page_placement.hpp"

#include <algorithm>
#include <system_error>

namespace attest::core {

std::vector<std::vector<MemoryRange>> share_pages(std::span<const MemoryRange> all,
                                                  const Nodes& nodes) {
  std::vector<size_t> first;  // CPU of each node
  size_t cpus = 0;
  for (const std::vector<int>& node : nodes) {
    first.push_back(cpus);
    cpus += node.size();
  }
  std::vector<std::vector<MemoryRange>> shares(cpus);
  for (const MemoryRange& pages : all)
    for (uintptr_t at = pages.begin, end; at < pages.end; at = end) {
      const uintptr_t step = at / pages.step_bytes, node = step % nodes.size();
      end = std::min(pages.end, (step + 1) * pages.step_bytes);
      shares[first[node] + step / nodes.size() % nodes[node].size()].push_back(
          {at, end, pages.step_bytes});
    }
  return shares;
}

bool get_pages(std::span<const MemoryRange> all, const Nodes& nodes,
               const std::function<void(const MemoryRange&)>& get) {
  const std::vector<std::vector<MemoryRange>> shares = share_pages(all, nodes);
  std::vector<int> cpus;
  std::vector<const std::vector<MemoryRange>*> theirs;
  size_t i = 0;
  for (const std::vector<int>& node : nodes)
    for (const int cpu : node)
      if (const std::vector<MemoryRange>& share = shares[i++]; !share.empty()) {
        cpus.push_back(cpu);
        theirs.push_back(&share);
      }
  try {
    on_every_cpu(cpus, [&](size_t n) {
      for (const MemoryRange& step : *theirs[n]) get(step);
    });
  } catch (const std::system_error&) {  // no thread: the plugin may hold thousands
    return false;
  }
  return true;
}

}  // namespace attest::core
