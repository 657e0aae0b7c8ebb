#include "core/measure/machine/affinity.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <thread>

#include "core/measure/machine/files.hpp"
#include "core/measure/machine/reading.hpp"

namespace attest::core {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

std::vector<std::filesystem::path> cpus_on(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> cpus;
  for (std::filesystem::path& entry : entries_of(root / "sys/devices/system/cpu")) {
    const std::string name = entry.filename().string();
    const bool is_cpu =
        name.starts_with("cpu") && name.find_first_not_of("0123456789", 3) == name.npos;
    // The first CPU of most machines has no such file, as it cannot be switched off.
    if (is_cpu && read_value(entry / "online").value != 0) cpus.push_back(std::move(entry));
  }
  return cpus;
}

std::vector<int> choose_cpus(size_t count, const std::filesystem::path& root) {
  return choose_cpus(count, allowed_cpus(), root);
}

std::vector<int> choose_cpus(size_t count, const std::vector<int>& allowed,
                             const std::filesystem::path& root) {
  std::vector<int> first, others;
  std::set<std::string> cores;
  for (const int cpu : allowed) {
    const std::string siblings = read_text(
        root / fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    (cores.insert(siblings.empty() ? std::to_string(cpu) : siblings).second ? first : others)
        .push_back(cpu);
  }
  first.insert(first.end(), others.begin(), others.end());
  first.resize(std::min(count, first.size()));
  std::sort(first.begin(), first.end());
  return first;
}

Nodes cpus_by_node(const std::vector<int>& cpus, const std::filesystem::path& root) {
  Nodes nodes;
  std::set<int> rest(cpus.begin(), cpus.end());
  for (const std::filesystem::path& node : entries_of(root / "sys/devices/system/node")) {
    if (!begins_with(node, "node")) continue;
    std::vector<int> found;
    for (const int cpu : parse_cpu_list(read_text(node / "cpulist")))
      if (rest.erase(cpu) > 0) found.push_back(cpu);
    if (!found.empty()) nodes.push_back(std::move(found));
  }
  if (nodes.empty()) return {cpus};
  nodes.front().insert(nodes.front().end(), rest.begin(), rest.end());
  std::sort(nodes.front().begin(), nodes.front().end());
  return nodes;
}

std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (const int cpu : cpus) {
    if (!text.empty()) text += ',';
    text += std::to_string(cpu);
  }
  return text;
}

std::vector<int> parse_cpu_list(const std::string& list) {
  std::set<int> cpus;
  const char *at = list.data(), *const end = at + list.size();
  auto number = [&] {
    int value = -1;
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc() && value < CPU_SETSIZE ? value : -1;
  };
  while (at < end) {
    const int low = number();
    int high = low;
    if (at < end && *at == '-') {
      ++at;
      high = number();
    }
    if (low < 0 || high < low) return {};
    for (int cpu = low; cpu <= high; ++cpu) cpus.insert(cpu);
    if (at < end && (*at != ',' || ++at == end)) return {};
  }
  return {cpus.begin(), cpus.end()};
}

bool pin_process(const std::string& list) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : parse_cpu_list(list)) CPU_SET(cpu, &set);
  return CPU_COUNT(&set) > 0 && sched_setaffinity(0, sizeof(set), &set) == 0;
}

void on_every_cpu(const std::vector<int>& cpus, const std::function<void(size_t)>& work) {
  std::vector<std::jthread> threads;  // joins, also if one cannot be started
  for (size_t i = 0; i < cpus.size(); ++i)
    threads.emplace_back([&, i] {
      pin_process(cpu_list({cpus[i]}));
      work(i);
    });
}

}  // namespace attest::core
