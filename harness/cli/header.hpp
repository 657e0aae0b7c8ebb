// The header of a results file: machine, build, run.
#pragma once
#include <string>

#include "core/record/record.hpp"

namespace attest::cli {

/// `command`: the arguments as given; folders of paths are left out of it. Probes what the CPUs `cpus`, to which workers are
/// pinned, can do with `threads` threads: some 0.4 s.
core::Header make_header(const std::string& command, const std::string& cpus, int threads);

/// "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace attest::cli
