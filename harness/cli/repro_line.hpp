// The line that repeats a record.
#pragma once
#include <string>

#include "core/record/record.hpp"
#include "core/session/plan.hpp"

namespace attest::cli {

struct JudgingOptions;

/// "attest repro --impl flash_cpu --threads 2 'softmax ...'", or "attest run --vectors ..." for a
/// vector. No folder of this machine is in it. `impl` is the name that chooses the implementation;
/// empty: the record is that of a reference.
std::string repro_line(const JudgingOptions& options, const core::Job& job, const std::string& impl,
                       const core::Record& record);

}  // namespace attest::cli
