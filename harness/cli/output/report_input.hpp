// What commands give to reports.
#pragma once
#include <string>
#include <vector>

#include "core/record/results.hpp"
#include "reports/formats.hpp"
#include "reports/input/input.hpp"

namespace attest::cli {

/// Returns the input of reports in these formats: at most the records that one of them shows, the
/// axes of all operations, and what attest's own suites have, where a format shows it. With
/// `keeps_all` all records are kept. Throws Error if a file is refused.
reports::Input report_input(const std::vector<std::string>& files,
                            const std::vector<const reports::Format*>& formats, bool keeps_all);
/// The same of results that were read before.
reports::Input report_input(std::vector<core::Results> files, const reports::Format& format);

}  // namespace attest::cli
