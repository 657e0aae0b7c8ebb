// A/A floors: by how much times of one and the same build differ on one machine, by case.
// `attest ab --self-check` measures them; compare, ab and gate use them.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/record/case_key.hpp"
#include "core/record/results.hpp"

namespace attest::reports {

struct Floor {
  double spread = 0;  // the slowest launch / the fastest - 1: for results that are not paired
  double paired = 0;  // the largest median ratio of kLeastLaunches pairs - 1
  double fast = 0;    // the same of Launch::fast, where `paired` is of medians
  double median_ns = 0;
  size_t launches = 0;
  size_t alarms = 0;  // groups of pairs that compare calls slower or faster
  std::string machine, build;
  int32_t threads = 0;
};

/// What a self-check found.
struct Floors {
  std::string measured;     // UTC, ISO 8601
  std::string relative_to;  // as in CompareOptions
  // Comparisons of kLeastLaunches pairs each, and what compare says of them.
  size_t comparisons = 0, slower = 0, faster = 0, inconclusive = 0;
  std::map<core::CaseKey, Floor> cases;  // by question_of

  /// The share of comparisons that are false alarms is at most this, at a confidence of 95 %
  /// (Clopper and Pearson 1934). 1 if there are no comparisons.
  double most_alarms() const;
};

nlohmann::json to_json(const Floors& floors);
/// Throws Error: which key is missing, or of the wrong type or value.
Floors floors_from_json(const nlohmann::json& json);

/// Throws Error if the floors are not of these results: of another implementation of
/// --relative-to, or of another machine, kind of build or number of threads in every case that both
/// have. Floors without a case of the results are an error too.
void require_floors_of(const Floors& floors, const std::vector<core::Results>& results,
                       const std::string& relative_to);

/// A line for each case, and one with the rate of false alarms.
std::string print_floors(const Floors& floors);

}  // namespace attest::reports
