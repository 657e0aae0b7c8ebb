#include "core/measure/limits/current_limits.hpp"

#include <fmt/ranges.h>

#include <utility>

namespace attest::core {
namespace {

constexpr std::chrono::seconds kLeastAge{10};

}  // namespace

CurrentLimits::CurrentLimits(int threads, std::function<Probe()> measure)
    : measure_(measure ? std::move(measure) : [threads] { return probe_machine(threads); }) {
  this->measure(std::chrono::steady_clock::now());
}

void CurrentLimits::measure(std::chrono::steady_clock::time_point time) {
  probe_ = measure_();
  state_ = read_machine_state();
  time_ = time;
}

std::string CurrentLimits::renew(std::chrono::steady_clock::time_point time) {
  if (time - time_ < kLeastAge) return {};
  std::vector<std::string> reasons = changed_limits(state_, read_machine_state());
  const bool has_settled = reasons.empty() && was_renewed_;
  was_renewed_ = !reasons.empty();
  if (has_settled) reasons = {"nothing has changed since the last time"};
  if (reasons.empty()) return {};
  const Probe old = std::exchange(probe_, {});
  measure(time);
  return fmt::format(
      "the limits of the machine were measured again, because {}: f32 {:.4g} -> {:.4g} GFLOP/s, "
      "reads from memory {:.4g} -> {:.4g} GB/s",
      fmt::join(reasons, ", and "), old.fma().gflops.all, probe_.fma().gflops.all,
      old.memory().read_gbs.all, probe_.memory().read_gbs.all);
}

}  // namespace attest::core
