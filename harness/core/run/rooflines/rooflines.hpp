// The rooflines of the records of one program, by the limits that machine and devices have now.
//
//   Rooflines rooflines(threads);
//   rooflines.add(record);  // after each case
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/measure/limits/current_limits.hpp"
#include "core/measure/limits/probe.hpp"
#include "core/record/record.hpp"

namespace attest::core {

class Rooflines {
 public:
  /// Measures the limits of the machine with that many threads, which takes half a second.
  /// `measure` does so instead, for tests.
  explicit Rooflines(int threads, std::function<Probe()> measure = {})
      : machine_(threads, std::move(measure)) {}
  /// The limits of the machine, as they were measured last.
  const Probe& machine() const { return machine_.probe(); }
  /// Sets Record::roofline (see roofline_of). Measures the limits of the machine again if its state
  /// has changed, and notes that in the record. The limits of a device follow from its facts.
  void add(Record& record);

 private:
  CurrentLimits machine_;
  std::map<std::string, std::optional<Probe>> devices_;  // by the kind of device
};

}  // namespace attest::core
