// The boards to which times are projected: modules of the Jetson Orin family in their power modes,
// with the source of each figure. attest has seen none of them (harness/guide/orin.md).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/datasheets/board_modules.hpp"

namespace attest::reports {

/// A module in a power mode, which sets multiprocessors, cores, and all clocks.
struct BoardMode {
  std::string_view name;            // "orin-agx64-maxn"
  const core::BoardModule* module;  // never null
  std::string_view mode;            // "MAXN"
  int multiprocessors;
  double gpu_mhz, memory_mhz;
  double l2_bytes;  // of the GPU; 0: not known
  int cores;        // Cortex-A78AE
  double cpu_mhz;
  std::string_view conf;     // the file of Jetson Linux that has the mode
  bool gpu_mhz_seen = true;  // a document has it; else it is not verified

  /// Of two transfers a clock.
  double memory_gbs() const { return memory_mhz * 1e-3 * 2 * module->bus_bytes; }
};

/// Of a core of Cortex-A78AE in a clock: two pipes of 128 bits with fused multiply-adds.
inline constexpr double kA78Flops32 = 16, kA78Flops16 = 32;

std::span<const BoardMode> board_modes();
/// Null: there is no such target.
const BoardMode* find_board_mode(std::string_view name);

/// One figure of a board, and where it comes from.
struct Figure {
  std::string text;    // "16 multiprocessors at 1300.5 MHz"
  std::string source;  // "data sheet of the module; nvpmodel_p3701_0000.conf"
};
std::vector<Figure> figures(const BoardMode& board);

}  // namespace attest::reports
