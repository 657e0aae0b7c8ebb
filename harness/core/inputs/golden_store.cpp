#include "core/inputs/golden_store.hpp"

#include <fmt/format.h>

#include "core/inputs/remembering_golden.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {

const Golden& KeptGolden::made() {
  if (golden_) return *golden_;
  const auto start = Clock::now();
  golden_ = std::make_unique<RememberingGolden>(make_(device_));
  seconds_ += seconds_since(start);
  return *golden_;
}

void KeptGolden::replace(const GoldenRefused& why) {
  remark_ = fmt::format("the golden is the host's; that of {} was refused: {}", device_->name(),
                        why.what());
  golden_.reset();
  device_ = nullptr;
}

KeptGolden& GoldenStore::of(const PreparedInputs& inputs) {
  const auto make = [&inputs](const GoldenDevice* device) {
    const Problem& problem = inputs.problem();
    const Tensors& tensors = inputs.shared().tensors();
    return device ? problem.operation->golden_with(*device, problem, inputs.fill(), tensors)
                  : problem.operation->golden(problem, inputs.fill(), tensors);
  };
  return kept_.try_emplace(&inputs, make, device_).first->second;
}

}  // namespace attest::core
