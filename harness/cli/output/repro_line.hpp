// The command that makes a record again.
#pragma once
#include <string>

#include "core/record/record.hpp"
#include "core/session/plan.hpp"

namespace attest::cli {

struct JudgingOptions;

/// "attest repro --impl flash_cpu --threads 2 'softmax ...'"; "attest run --vectors ..." for a
/// vector. It names no absolute folder of this machine. `impl`: the implementation's name for
/// --impl; empty: the record is that of a reference.
std::string repro_line(const JudgingOptions& options, const core::Job& job, const std::string& impl,
                       const core::Record& record);

}  // namespace attest::cli
