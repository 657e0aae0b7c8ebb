// What is wrong with this machine for measuring, what is missing, and what to do about it.
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
  std::string advice;  // how to get or mend it; empty where nothing is to do
};

/// The machine as the files under `root` describe it: CPU, clocks, memory, load, what others take.
std::vector<Finding> diagnose_machine(const std::filesystem::path& root);
/// What this process may do and load: peak memory, counters, locked memory, libraries, CUDA driver,
/// NVML.
std::vector<Finding> diagnose_process();
/// Both, of this machine.
std::vector<Finding> diagnose();

}  // namespace attest::core
