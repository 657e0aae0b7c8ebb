// Which times are noisy, and why.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// Why the time of a record is noisy, as phrases: its samples spread too far, or something happened
/// to the machine meanwhile (Record::noisy). Empty if it is not, or was not timed.
std::vector<std::string> noise_of(const core::Record& record);

/// Counts the records that have times, and those that are noisy.
struct Noise {
  size_t timed = 0, noisy = 0, spread = 0, disturbed = 0;
  std::map<std::string, size_t> reasons;  // of the disturbed
  std::vector<std::string> first;         // the names of the first noisy records, three at most

  void add(const core::Record& record);
  void add(const std::vector<core::Record>& records);
  /// "3 of 27 times are noisy: half of ...". It is empty if no time is noisy.
  std::string print() const;
  /// Which: "(vit/a f16 naive, vit/b f16 naive, vit/c f16 naive and 4 more)"; or empty.
  std::string names() const;
};

}  // namespace attest::reports
