#include "core/measure/device_limits.hpp"

#include <algorithm>

namespace attest::core {
namespace {

/// Operations of one multiprocessor in a clock; a multiply-add counts as 2. Tensor cores multiply
/// dense matrices.
struct UnitsOfArchitecture {
  const char* architecture;
  double f32;
  double tensor_f16;   // f16, and bf16 but for sm_75
  double tensor_tf32;  // 0: they have no TF32
};

// The peaks that NVIDIA publishes for the device that is named, divided by its multiprocessors and
// its boost clock. Of devices of one architecture the fastest counts: some have tensor cores that
// are slower with sums in f32.
constexpr UnitsOfArchitecture kUnits[] = {
    {"sm_75", 128, 1024, 0},      // T4
    {"sm_80", 128, 2048, 1024},   // A100
    {"sm_86", 256, 1024, 512},    // RTX A6000
    {"sm_87", 256, 2048, 1024},   // Jetson AGX Orin
    {"sm_89", 256, 1024, 512},    // L40S
    {"sm_90", 256, 4096, 2048},   // H100
    {"sm_100", 256, 8192, 4096},  // B200
    {"sm_103", 256, 8192, 4096},  // B300
    {"sm_110", 256, 8192, 4096},  // Jetson Thor
    {"sm_120", 256, 1024, 512},   // RTX PRO 6000; an RTX 5090 has half of the TF32
};

PeakRate rate(double value) { return {value, value}; }

void add_arithmetic(const DeviceFacts& facts, std::vector<ArithmeticPeak>& peaks) {
  const auto units = std::ranges::find(
      kUnits, facts.architecture, [](const UnitsOfArchitecture& one) { return one.architecture; });
  if (units == std::end(kUnits) || facts.sm_mhz <= 0) return;
  const double all_ghz = facts.multiprocessors * facts.sm_mhz * 1e-3;
  // A product of f32 factors is three of TF32 or six of bf16, if each factor is split.
  const double split = std::max(units->tensor_tf32 / 3, units->tensor_f16 / 6);
  const bool is_split = split > units->f32;
  peaks.push_back({"f32", is_split ? "tensor cores" : "CUDA cores",
                   rate(all_ghz * std::max(units->f32, split))});
  if (units->tensor_tf32 > 0)
    peaks.push_back({"tf32", "tensor cores", rate(all_ghz * units->tensor_tf32)});
  peaks.push_back({"f16", "tensor cores", rate(all_ghz * units->tensor_f16)});
  if (units->tensor_tf32 > 0)
    peaks.push_back({"bf16", "tensor cores", rate(all_ghz * units->tensor_f16)});
}

}  // namespace

std::optional<Probe> device_limits(const DeviceFacts& facts) {
  Probe limits;
  add_arithmetic(facts, limits.arithmetic);
  if (limits.arithmetic.empty() && facts.memory_gbs <= 0) return {};
  if (limits.arithmetic.empty()) limits.arithmetic = {{"f32", "CUDA cores", {}}};
  limits.levels = {{"L2", facts.cache_bytes, facts.cache_bytes, {}, {}},
                   {"memory", 0, 0, rate(facts.memory_gbs), {}}};
  return limits;
}

}  // namespace attest::core
