// Makes the header of a results file: machine, build, run.
#pragma once
#include <string>

#include "core/measure/limits/probe.hpp"
#include "core/record/record.hpp"
#include "core/session/implementations.hpp"

namespace attest::cli {

/// `command`: see command_line(). `probe`: the peak rates of the CPUs to which workers are pinned,
/// with as many threads as each implementation has.
core::Header make_header(const std::string& command, const core::Implementations& implementations,
                         const core::Probe& probe);

/// The time now: "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace attest::cli
