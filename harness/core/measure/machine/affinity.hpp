// Finds the CPUs that this process may use, chooses among them, pins the process to them, and works
// on all of them at once.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace attest::core {

/// The CPUs of the calling thread's affinity mask, ascending; at least one.
std::vector<int> allowed_cpus();

/// The folders in sysfs of the CPUs that are on, sorted by name. A board's power mode switches CPUs
/// off: those keep their folder, whose files have old values or answer an error.
std::vector<std::filesystem::path> cpus_on(const std::filesystem::path& root = "/");

/// `count` of the allowed CPUs, or all if there are fewer; ascending. Takes one CPU of each
/// physical core before the second threads of cores. Reads sysfs under `root`.
std::vector<int> choose_cpus(size_t count, const std::filesystem::path& root = "/");
/// The same, choosing from `allowed`.
std::vector<int> choose_cpus(size_t count, const std::vector<int>& allowed,
                             const std::filesystem::path& root);

/// CPUs by NUMA node: each list has those of one node, ascending.
using Nodes = std::vector<std::vector<int>>;

/// The nodes that have some of `cpus`, which are ascending, with those alone. Reads sysfs under
/// `root`; where that says nothing, they are one node.
Nodes cpus_by_node(const std::vector<int>& cpus, const std::filesystem::path& root = "/");

/// "0,1,5".
std::string cpu_list(const std::vector<int>& cpus);
/// "0-3,8" -> 0 1 2 3 8, ascending; empty if the list is malformed.
std::vector<int> parse_cpu_list(const std::string& list);

/// Pins the calling thread, and all threads that it starts later, to the CPUs of the list. To be
/// called before the first thread is started. Returns false if the list is empty or malformed, or
/// if the system refuses.
bool pin_process(const std::string& list);

/// Calls work(i) for each CPU at once, on a thread that is pinned to cpus[i], and waits for all.
/// The caller keeps its own mask. Throws std::system_error if the system starts no thread.
void on_every_cpu(const std::vector<int>& cpus, const std::function<void(size_t)>& work);

}  // namespace attest::core
