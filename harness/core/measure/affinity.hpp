// Which CPUs this process may use, which of them to take, and keeping to them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace attest::core {

/// CPUs of the calling thread's affinity mask, ascending; at least one.
std::vector<int> allowed_cpus();

/// `count` of the allowed CPUs (all, where there are fewer), ascending: one a physical core first,
/// second threads of a core only then. Cores as sysfs under `root` describes them.
std::vector<int> choose_cpus(size_t count, const std::filesystem::path& root = "/");
/// The same of the given CPUs.
std::vector<int> choose_cpus(size_t count, const std::vector<int>& allowed,
                             const std::filesystem::path& root);

/// "0,1,5".
std::string cpu_list(const std::vector<int>& cpus);
/// "0-3,8" -> 0 1 2 3 8, ascending; empty where malformed.
std::vector<int> parse_cpu_list(const std::string& list);

/// Keeps the calling thread, and all that it starts from now on, to the CPUs of such a list: call
/// it before the first thread is started. False where the list is empty or malformed or the system
/// refuses; allowed_cpus() says what holds.
bool pin_process(const std::string& list);

}  // namespace attest::core
