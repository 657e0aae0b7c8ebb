#include "core/judge/verdict.hpp"

#include <fmt/format.h>

#include "core/tensor/error.hpp"

namespace attest::core {

ReasonCode read_reason_code(std::string_view name, std::string_view verdict) {
  const Reason* const reason = find_reason(name);
  if (!reason) throw Error(fmt::format("'{}' is not a reason code that this attest knows", name));
  if (verdict != core::name(verdict_of(reason->code)))
    throw Error(fmt::format("verdict '{}' with reason code '{}'", verdict, name));
  return reason->code;
}

}  // namespace attest::core
