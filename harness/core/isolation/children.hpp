// The children of this process, as the system lists them.
#pragma once
#include <sys/types.h>

#include <vector>

namespace attest::core {

/// The process ids of all children, of every thread, that live or were not waited for. Fast if
/// there are none.
std::vector<pid_t> children_of_this_process();

}  // namespace attest::core
