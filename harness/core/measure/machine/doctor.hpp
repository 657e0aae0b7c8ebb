// Finds what disturbs measurements on this machine, what is missing, and what to do about it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace attest::core {

/// One line of `attest doctor`.
struct Finding {
  enum class Kind { kOk, kNote, kMissing };
  Kind kind;
  std::string what;    // "frequency governor"
  std::string found;   // "powersave"
  std::string advice;  // how to get or mend it; empty: nothing to do
};

/// Checks the machine by the files under `root`: CPU, clocks, memory, load, other processes.
std::vector<Finding> diagnose_machine(const std::filesystem::path& root);
/// Checks what this process can do and load: peak memory, counters, locked memory, libraries, CUDA
/// driver, NVML.
std::vector<Finding> diagnose_process();
/// Both checks on this machine.
std::vector<Finding> diagnose();

}  // namespace attest::core
