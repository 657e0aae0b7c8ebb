// Records as a table for a terminal.
#pragma once
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// One block a case and dtype, one line an implementation: verdict, error (share of its gate),
/// median time with spread, GFLOP/s, peak memory. Implementations that do not support a case are
/// counted below, with their reasons. `colour`: ANSI colours.
std::string print_table(const std::vector<core::Record>& records, bool colour);

/// "1.23 ms", "45.6 us"; three significant digits.
std::string print_time(double ns);
/// "12.3 MiB", "0".
std::string print_bytes(double bytes);

}  // namespace attest::reports
