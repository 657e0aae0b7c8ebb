// The machine and the kind of build of records, in words. Two times may be compared only if these
// words are equal.
#pragma once
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/record/results.hpp"

namespace attest::reports {

/// A text of the header; empty: not recorded.
std::string fact(const core::Results& file, const std::string& group, const std::string& name);

/// The device on which a record was made, with what else sets its speed: "NVIDIA H100 80GB HBM3
/// (132 multiprocessors)", or of a board "Jetson AGX Orin 64GB (8 multiprocessors), power mode 2
/// (MODE_30W), clocks locked, GPU up to 612 MHz". The power mode is that of the record's own runs.
/// Results of one implementation are compared by it.
std::string machine(const core::Results& file, const core::Record& record);

/// The kinds of devices on which the records of these runs were made. The CPU is always among them,
/// as the last. `left_out`: those of records that the runs lack (left_out.hpp).
std::vector<std::string> devices_of(std::span<const core::Results> runs,
                                    const std::set<std::string>& left_out = {});

/// The same of a whole machine, among whose implementations one may choose: those of `devices`
/// (devices_of) that the machine has, "NVIDIA H100 80GB HBM3 (132 multiprocessors) with Example
/// CPU".
std::string machine(const core::Results& file, const core::Record& record,
                    const std::vector<std::string>& devices);
/// The same as it was when the run began, with the devices of its own records.
std::string machine(const core::Results& file);
/// The same with `devices`.
std::string machine(const core::Results& file, const std::vector<std::string>& devices);

/// The power mode of a board while the record was measured. Empty: it is no board, or not known. A
/// mode that changed meanwhile is "0 (MAXN), then 2 (15W)".
std::string power_mode(const core::Results& file, const core::Record& record);

/// The kind of build of attest: "Release", "Debug, sanitizers address".
std::string build(const core::Results& file);

}  // namespace attest::reports
