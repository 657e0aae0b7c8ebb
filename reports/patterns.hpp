// What the bad records of an implementation share, and those that pass lack. One record shows one
// bug in one problem; many records tell what a problem must have to show it.
#pragma once
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// Lines on each implementation that has bad records but shows no race:
///   mine: all 9 bad records have window_right=0; none of the 18 that pass has it
///   mine: in 7 of 9 bad records it is as if the diagonal were one key further to the left
/// The first is told of at least three bad records and three that pass, the second of two bad
/// records. Records that fail only in a relation are counted apart: their own problem passes. What
/// is told holds for these records; it need not be the cause.
std::vector<std::string> patterns(const std::vector<core::Record>& records);

}  // namespace attest::reports
