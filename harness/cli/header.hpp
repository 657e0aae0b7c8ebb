// The header of a results file: machine, build, run.
#pragma once
#include <string>

#include "core/record/record.hpp"
#include "core/session/implementations.hpp"

namespace attest::cli {

/// `command`: the arguments as given; folders of paths are left out of it. `threads`: of each
/// implementation. Probes what the CPUs to which workers are pinned can do with their threads: some
/// 0.4 s.
core::Header make_header(const std::string& command, const core::Implementations& implementations,
                         int32_t threads);

/// "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace attest::cli
