// Error correction (ECC) of the machine's memory, as Linux's EDAC reports it
// (Documentation/driver-api/edac.rst).
//
//   const Reading<MemoryEcc> ecc = read_ecc();
//   if (ecc.value) fmt::print("{}: {} errors corrected\n", ecc.value->mode, ecc.value->corrected);
//   else fmt::print("not known: {}\n", ecc.missing);
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/measure/machine/files.hpp"
#include "core/measure/machine/reading.hpp"

namespace attest::core {

struct MemoryEcc {
  /// The modes of all modules, as the kernel names them: "SECDED", "S4ECD4ED", "None"; if modules
  /// differ, each mode once, separated by commas. "unknown": errors are counted, and no module says
  /// its mode.
  std::string mode;
  uint64_t corrected = 0, uncorrected = 0;  // errors since boot, of all controllers
};

/// Reads sys/devices/system/edac/mc under `root`. The reasons for no value: no driver reports a
/// memory controller (virtual machines, many desktops), or a count cannot be read.
Reading<MemoryEcc> read_ecc(const std::filesystem::path& root = machine_root());

}  // namespace attest::core
