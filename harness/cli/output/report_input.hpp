// What commands give to reports.
#pragma once
#include <vector>

#include "core/record/results.hpp"
#include "reports/input.hpp"

namespace attest::cli {

/// Returns the results files as reports::make_input() does, with the axes of all operations.
reports::Input report_input(std::vector<core::Results> files);

}  // namespace attest::cli
