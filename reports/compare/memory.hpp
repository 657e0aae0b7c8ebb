// Whether an implementation takes more memory than before.
#pragma once
#include "core/statistics/change.hpp"
#include "reports/compare/launches.hpp"

namespace attest::reports {

/// Compares the memory of all records of that key, of which both sides have some: measured peaks,
/// or what is declared and what a device's pool gave. It changed if all launches of one side take
/// at least 1 MiB more than all of the other, and by more than the band: peaks of processes vary by
/// about that much. Launches that took turns (`in_turns`) vary together. If eight or more did,
/// their pairs show 64 KiB; the result is then paired, and one of a family of tests. The code
/// "not-measured": only one side has measured peaks.
core::Changed compare_memory(const Side& before, const Side& after, const Key& key, bool in_turns,
                             const core::ChangeRule& rule);

}  // namespace attest::reports
