// The Jetson modules that attest knows.
//
// Source: NVIDIA's data sheets of the Jetson Orin and Thor modules. attest has never run on a board
// (harness/guide/orin.md).
#pragma once
#include <string>
#include <string_view>

namespace attest::core {

/// What a module has at most; a power mode allows less.
struct BoardModule {
  std::string_view part;     // of the device tree's `compatible`: "p3701-0005"
  const char* name;          // "Jetson AGX Orin 64GB"
  const char* family;        // as the device tree's `model` has it: "AGX Orin"
  const char* architecture;  // "sm_87"
  int multiprocessors;
  double gpu_mhz, memory_mhz, cpu_mhz;  // the highest clocks; of memory, half its transfers
  int bus_bytes;                        // of the memory's bus: one transfer
  int memory_gib;                       // of the whole module, carveouts included
};

// p3701-0000 is the module of the first developer kits; p3701-0008 is AGX Orin Industrial, whose
// clocks are at most those of its neighbour here. Nano and NX reach their clocks of "Super" since
// JetPack 6.2.
inline constexpr BoardModule kBoardModules[] = {
    {"p3701-0000", "Jetson AGX Orin 32GB (developer kit)", "AGX Orin", "sm_87", 16, 1300.5, 3200,
     2201.6, 32, 32},
    {"p3701-0008", "Jetson AGX Orin Industrial 64GB", "AGX Orin", "sm_87", 16, 1300.5, 3200, 2201.6,
     32, 64},
    {"p3701-0005", "Jetson AGX Orin 64GB", "AGX Orin", "sm_87", 16, 1300.5, 3200, 2201.6, 32, 64},
    {"p3701-0004", "Jetson AGX Orin 32GB", "AGX Orin", "sm_87", 14, 930.75, 3200, 2201.6, 32, 32},
    {"p3767-0000", "Jetson Orin NX 16GB", "Orin NX", "sm_87", 8, 1173, 3200, 1984, 16, 16},
    {"p3767-0001", "Jetson Orin NX 8GB", "Orin NX", "sm_87", 8, 1173, 3200, 1984, 16, 8},
    {"p3767-0003", "Jetson Orin Nano 8GB", "Orin Nano", "sm_87", 8, 1020, 3200, 1728, 16, 8},
    {"p3767-0005", "Jetson Orin Nano 8GB (developer kit)", "Orin Nano", "sm_87", 8, 1020, 3200,
     1728, 16, 8},
    {"p3767-0004", "Jetson Orin Nano 4GB", "Orin Nano", "sm_87", 4, 1020, 3200, 1728, 8, 4},
    {"p3834-0008", "Jetson AGX Thor (T5000)", "AGX Thor", "sm_110", 20, 1575, 4266, 2601, 32, 128},
};

/// Null: there is no such part.
constexpr const BoardModule* module_of_part(std::string_view part) {
  for (const BoardModule& module : kBoardModules)
    if (module.part == part) return &module;
  return nullptr;
}

/// Finds the module that a device tree names in its property `compatible`. The property is a list
/// of texts, each of which ends in NUL. Returns null if attest knows none of the names.
const BoardModule* find_module(const std::string& compatible);

}  // namespace attest::core
