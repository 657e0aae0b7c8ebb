// What a process has loaded, so that two runs of one build can be told from runs with other
// libraries.
#pragma once
#include <sys/types.h>

#include <cstdint>

namespace attest::core {

/// One hash of every file that the process has mapped to be executed: its program, its libraries,
/// in whatever order and wherever they lie. 0: not known, the process is gone.
uint64_t hash_libraries(pid_t process);

}  // namespace attest::core
