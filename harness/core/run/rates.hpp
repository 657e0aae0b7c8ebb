// How fast implementations were, so that the time of the next case can be estimated.
#pragma once
#include <map>
#include <string>

#include "core/operations/operation.hpp"
#include "core/record/record.hpp"

namespace attest::core {

/// Shared by all cases of a run.
class Rates {
 public:
  /// What speeds are kept by beside the implementation: dtype and features.
  struct Kind {
    std::string dtype, features;  // as a Record has them
  };
  static Kind kind_of(const Problem& problem);
  static Kind kind_of(const Record& record) { return {record.dtype, record.features}; }

  /// The best flops per nanosecond seen on problems of that kind, else on any; 0: never. The best,
  /// since a small or lopsided problem says little about what a large one will do.
  double of(const std::string& implementation, const Kind& kind) const;
  /// Takes note of a run of `flops` floating-point operations in `run_ns` nanoseconds.
  void note(const std::string& implementation, const Kind& kind, double flops, double run_ns);

 private:
  std::map<std::string, double> best_;
};

}  // namespace attest::core
