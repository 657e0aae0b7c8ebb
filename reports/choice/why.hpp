// Says in words what a choice found: why a candidate may or may not be used, by how much the
// nearest one misses, and how thoroughly a record was judged.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "reports/choice/choice.hpp"

namespace attest::reports {

/// Why a candidate of a choice may or may not be used: one sentence without its end.
std::string why(const Candidate& candidate, std::optional<int64_t> tokens,
                const ChoiceLimits& limits);

/// " within 50.0 ms, 64.0 MiB beyond the tensors, a largest error of 0.5 of its gate": the limits,
/// to be put behind "may be used".
std::string limits_words(const ChoiceLimits& limits);

/// "its median of 1.34 s is 26.8 times the deadline of 50.0 ms": of a candidate that has a miss.
std::string miss_words(const Candidate& candidate, std::optional<int64_t> tokens,
                       const ChoiceLimits& limits);

/// How a record was judged. A choice rests on no more than this.
struct Judging {
  /// The inputs whose outputs were compared with their golden, each once.
  std::vector<std::string> fills;
  size_t relations = 0;  // relations between runs that were checked
  /// Of the fill with the smallest share of rows that were compared: "all rows", "256 of 4096 rows
  /// a head". Empty if nothing was compared.
  std::string rows;

  /// Whether it was judged on one fill, without relations, or on some of the rows alone.
  bool is_partial() const;
};
Judging judging_of(const core::Record& record);

/// Says what was judged: "judged on 1 fill of inputs (random), without relations between runs, on
/// 256 of 4096 rows a head". Up to three fills are named.
std::string judging_words(const Judging& judging);

}  // namespace attest::reports
