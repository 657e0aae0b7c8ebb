#include "core/measure/limits/device_limits.hpp"

#include <algorithm>

#include "core/datasheets/gpu_architectures.hpp"

namespace attest::core {
namespace {

PeakRate rate(double value) { return {value, value}; }

void add_arithmetic(const DeviceFacts& facts, std::vector<ArithmeticPeak>& peaks) {
  const GpuArchitecture* units = find_gpu_architecture(facts.architecture);
  if (!units || facts.sm_mhz <= 0) return;
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
