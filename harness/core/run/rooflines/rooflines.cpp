#include "core/run/rooflines/rooflines.hpp"

#include <algorithm>
#include <utility>

#include "core/device/device_kinds.hpp"
#include "core/measure/limits/device_limits.hpp"
#include "core/run/rooflines/roofline.hpp"

namespace attest::core {

void Rooflines::add(Record& record) {
  const auto kinds = device_kinds();
  const auto kind = std::ranges::find(kinds, record.device, &DeviceKind::name);
  if (kind != kinds.end() && kind->facts) {
    const auto [limits, is_new] = devices_.try_emplace(record.device);
    if (is_new) limits->second = device_limits(kind->facts());
    if (limits->second) record.roofline = roofline_of(record, *limits->second);
    return;
  }
  if (std::string why = machine_.renew(); !why.empty()) record.notes.push_back(std::move(why));
  record.roofline = roofline_of(record, machine_.probe());
}

}  // namespace attest::core
