#include "core/judge/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

/// The codes of newer attests that this process has read, numbered on from the table's.
class NewerReasons {
 public:
  ReasonCode add(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(reasons_, name, &Reason::name);
    if (known != reasons_.end()) return known->code;
    const auto code = ReasonCode(std::size(kReasons) + reasons_.size());
    reasons_.push_back({code, names_.emplace_back(name), "a reason code of a newer attest"});
    return code;
  }
  const Reason& at(ReasonCode code) {
    const std::lock_guard lock(mutex_);
    return reasons_.at(size_t(code) - std::size(kReasons));
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> names_;  // stay where they are
  std::deque<Reason> reasons_;
};

NewerReasons& newer_reasons() {
  static NewerReasons reasons;
  return reasons;
}

// "fail:some-word" with the verdict "fail".
bool is_well_formed(std::string_view name, std::string_view verdict) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; };
  return verdict != core::name(Verdict::kPass) &&
         std::ranges::find(kVerdictNames, verdict) != std::end(kVerdictNames) &&
         name.size() > verdict.size() + 1 && name.starts_with(verdict) &&
         name[verdict.size()] == ':' &&
         std::ranges::all_of(name.substr(verdict.size() + 1), is_letter);
}

}  // namespace

const Reason& newer_reason(ReasonCode code) { return newer_reasons().at(code); }

ReasonCode read_reason_code(std::string_view name, std::string_view verdict) {
  const Reason* const reason = find_reason(name);
  if (!reason && is_well_formed(name, verdict)) return newer_reasons().add(name);
  if (!reason || verdict != core::name(verdict_of(reason->code)))
    throw Error(fmt::format("verdict '{}' with reason code '{}'", verdict, name));
  return reason->code;
}

}  // namespace attest::core
