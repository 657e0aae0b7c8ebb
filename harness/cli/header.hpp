// The header of a results file: machine, build, run.
#pragma once
#include <string>

#include "core/record/record.hpp"

namespace attest::cli {

/// `command`: the arguments as given; folders of paths are left out of it. `cpus`: those that workers are pinned to.
core::Header make_header(const std::string& command, const std::string& cpus);

}  // namespace attest::cli
