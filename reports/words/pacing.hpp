// What a record says of paced frames and of energy, in lines for people.
#pragma once
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// One line for each phase and policy, and for each sensor; empty if nothing was paced and no
/// energy was asked for:
///   12Hz alone, queue-all: 0 of 120 frames missed; p50 3.20 ms [3.11 ms 3.25 ms], p90 3.40 ms
///   [3.33 ms 3.90 ms], p99 3.90 ms (not supported by 120 frames: 459 needed), ...
std::vector<std::string> pacing_lines(const core::Record& record);

/// The same in short, for a terminal: a line for each phase, and one for all sensors. Energy that
/// no sensor measured has no line.
///   12Hz alone: 0 of 120 frames missed (queue-all), 0 of 121 (latest-only); p50 3.20 ms, p90 3.40
///   ms, max 3.90 ms
std::vector<std::string> short_pacing_lines(const core::Record& record);

/// Counts paced records, those that missed frames, and those whose energy no sensor measured.
class FrameCounts {
 public:
  void add(const core::Record& record);
  void add(const std::vector<core::Record>& records);
  /// "2 of 9 paced records missed frames, the worst vit/a f32 naive: 12 of 500 frames (queue-all,
  /// beside other work)". It is empty if no record is paced.
  std::string print() const;
  /// "energy of 9 records: unknown: this machine has no sensor that attest knows"; or empty.
  std::string print_unmeasured() const;

 private:
  /// Whether the phase missed frames.
  bool add(const core::Record& record, const core::PhaseRecord& phase, const char* where);

  size_t paced_ = 0, missing_ = 0, unmeasured_ = 0;
  double largest_share_ = 0;  // of the frames of one policy that missed
  std::string worst_;         // where
};

}  // namespace attest::reports
