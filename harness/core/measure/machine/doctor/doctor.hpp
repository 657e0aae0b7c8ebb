// Finds what disturbs measurements on this machine, what is missing, and what to do about it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/measure/machine/doctor/finding.hpp"

namespace attest::core {

/// Checks the machine by the files under `root`: CPU, clocks, memory, load, other processes, and
/// all that a Jetson board has (board_doctor.hpp).
std::vector<Finding> diagnose_machine(const std::filesystem::path& root);
/// Checks what this process can do and load: peak memory, counters, locked memory, libraries, CUDA
/// driver, NVML.
std::vector<Finding> diagnose_process();
/// Whether each of these plugins has kernels for a CUDA device of that architecture ("sm_87"), read
/// from the files: a launch would find out late. One that has none in its file is left out: it
/// makes them at run time, or calls a library.
std::vector<Finding> diagnose_kernels(const std::vector<std::filesystem::path>& plugins,
                                      const std::string& architecture);
/// Of the first CUDA device, or of the board. Empty: there is neither.
std::string cuda_architecture();
/// Both checks on this machine.
std::vector<Finding> diagnose();

}  // namespace attest::core
