// The children of this process, as the system lists them.
#pragma once
#include <sys/types.h>

#include <vector>

namespace attest::core {

/// Children that live or were not waited for, of every thread; empty and cheap where there is none.
std::vector<pid_t> children_of_this_process();

}  // namespace attest::core
