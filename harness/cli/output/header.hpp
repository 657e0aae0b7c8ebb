// Makes the header of a results file: machine, build, run.
#pragma once
#include <cstdint>
#include <string>

#include "core/record/record.hpp"
#include "core/session/implementations.hpp"

namespace attest::cli {

/// `command`: see command_line(). `threads`: of each implementation. The caller adds the group
/// "limits", the peak rates of the machine, if it times.
core::Header make_header(const std::string& command, const core::Implementations& implementations,
                         int32_t threads);

/// The time now: "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace attest::cli
