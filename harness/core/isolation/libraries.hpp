// What a process has loaded, so that two runs of one build can be told from runs with other
// libraries.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <filesystem>

namespace attest::core {

/// A hash of the bytes of a file; of a file that cannot be read, that of no bytes. It is kept as
/// long as the file's size and time of change stay, because every fresh process of a plugin asks
/// for it.
uint64_t hash_file(const std::filesystem::path& path);

/// One hash of every file that the process has mapped to be executed: its program, its libraries,
/// in whatever order and wherever they lie. 0: not known, the process is gone.
uint64_t hash_libraries(pid_t process);

}  // namespace attest::core
