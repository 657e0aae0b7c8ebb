#include "core/measure/affinity.hpp"

#include <sched.h>

#include <charconv>

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

std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (const int cpu : cpus) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text;
}

bool pin_process(const std::string& list) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const char *at = list.data(), *end = at + list.size();
  while (at < end) {
    int cpu = -1;
    const auto [next, error] = std::from_chars(at, end, cpu);
    if (error != std::errc() || cpu < 0 || cpu >= CPU_SETSIZE || (next < end && *next != ',')) return false;
    CPU_SET(cpu, &set);
    at = next + (next < end ? 1 : 0);
  }
  return CPU_COUNT(&set) > 0 && sched_setaffinity(0, sizeof(set), &set) == 0;
}

}  // namespace attest::core
