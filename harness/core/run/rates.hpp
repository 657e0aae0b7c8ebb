// Remembers how fast implementations were, to estimate the time of the next case.
#pragma once
#include <map>
#include <string>

#include "core/operations/operation.hpp"
#include "core/record/record.hpp"

namespace attest::core {

/// All cases of a run share one object.
class Rates {
 public:
  /// A run of fewer floating-point operations says little of an implementation's speed.
  static constexpr double kLeastFlops = 1e7;
  /// Speeds are kept by implementation, dtype and features.
  struct Kind {
    std::string dtype, features;  // as a Record has them
  };
  static Kind kind_of(const Problem& problem);
  static Kind kind_of(const Record& record) { return {record.dtype, record.features}; }

  /// The highest speed so far, in flops per nanosecond: on problems of that kind, or on any problem
  /// if there was none. 0: no run was noted. Small problems are slower per flop than large ones, so
  /// the highest speed predicts a large problem best.
  double of(const std::string& implementation, const Kind& kind) const;
  /// Notes a run of `flops` floating-point operations in `run_ns` nanoseconds. A run of fewer than
  /// kLeastFlops is not noted.
  void note(const std::string& implementation, const Kind& kind, double flops, double run_ns);

 private:
  std::map<std::string, double> best_;
};

}  // namespace attest::core
