// The arithmetic units of this CPU for each dtype, and loops that keep them busy.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace attest::core {

/// One way in which this CPU multiplies and adds.
struct ComputeUnit {
  std::string dtype;  // of the factors: "f32", "f16", "bf16"
  std::string name;   // "AVX-512 BF16", "AMX"; for f32 Highway's name of the instruction set
  /// Runs `rounds` times a fixed number of independent multiply-adds in registers. Returns the
  /// number of flops, 2 for each multiply-add. Any thread may call it.
  double (*run)(int64_t rounds) = nullptr;
};

/// The units that the CPU has, that the system lets this process use, and that this build has loops
/// for; f32 comes first. AMX is asked for from Linux (arch_prctl), once. Loops for f16 and bf16
/// are there for x86-64 and for 64-bit Arm.
std::vector<ComputeUnit> compute_units();

}  // namespace attest::core
