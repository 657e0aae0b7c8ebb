// The Jetson modules that attest knows, and what the texts of their board support package say.
//
// Sources: NVIDIA's data sheets of the Jetson Orin and Thor modules, and the Jetson Linux developer
// guide (nvpmodel, nv_tegra_release). attest has never run on a board (harness/guide/orin.md).
#pragma once
#include <cstdint>
#include <string>

#include "core/measure/machine/reading.hpp"

namespace attest::core {

/// What a module has at most; a power mode allows less.
struct BoardModule {
  const char* part;          // of the device tree's `compatible`: "p3701-0005"
  const char* name;          // "Jetson AGX Orin 64GB"
  const char* family;        // as the device tree's `model` has it: "AGX Orin"
  const char* architecture;  // "sm_87"
  int multiprocessors;
  double gpu_mhz, memory_mhz, cpu_mhz;  // the highest clocks; of memory, half its transfers
  int bus_bytes;                        // of the memory's bus: one transfer
  int memory_gib;                       // of the whole module, carveouts included
};

/// The module that a device tree's `compatible` names, a list of texts that end in NUL. Null: it
/// names none that attest knows.
const BoardModule* find_module(const std::string& compatible);
/// Whether `compatible` is that of a Tegra chip.
bool is_tegra(const std::string& compatible);

/// "R36.4.3" of the first line of /etc/nv_tegra_release.
Reading<std::string> parse_l4t(const std::string& text);
/// The major version of JetPack that has this release of Jetson Linux: "R36.4.3" -> 6.
Reading<int64_t> parse_jetpack(const std::string& l4t);

/// The id of the power mode, of /var/lib/nvpmodel/status: "pmode:0002" -> 2.
Reading<int64_t> parse_mode_id(const std::string& status);
/// The name of a power mode in /etc/nvpmodel.conf: "< POWER_MODEL ID=2 NAME=15W >" -> "15W".
Reading<std::string> parse_mode_name(const std::string& conf, int64_t id);

/// The multiprocessors that tpc_pg_mask leaves: it is a number of 8 bits, one for each pair of them
/// that is off. A module has some of its pairs off for ever, and the mask need not say so: the
/// result is at most `most`.
Reading<int64_t> parse_mask(const std::string& text, int most);

}  // namespace attest::core
