// Which CPUs this process may use, and keeping it to some of them.
#pragma once
#include <string>
#include <vector>

namespace attest::core {

/// CPUs of this process's affinity mask, ascending; at least one.
std::vector<int> allowed_cpus();
/// "0,1,5".
std::string cpu_list(const std::vector<int>& cpus);
/// Keeps this process to the CPUs of such a list; false where the list is empty or malformed or the system refuses.
bool pin_process(const std::string& list);

}  // namespace attest::core
