// Reads results files as the input of a report, without keeping what it does not show.
//
//   const Input input = read_input({"results.jsonl"}, kMostShown);
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "reports/input.hpp"

namespace attest::reports {

/// Reads the files as make_input() takes them. Of more than `most` records, only those are kept
/// that are shown then (Cases::shown); `left_out` counts the others. Files with a sweep, whose
/// scaling needs every point, are kept whole; so are all files if two hold the same run. Throws
/// Error as core::read_results() and make_input() do.
Input read_input(const std::vector<std::string>& paths, size_t most);

}  // namespace attest::reports
