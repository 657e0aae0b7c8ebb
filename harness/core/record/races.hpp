// An implementation that gave other outputs on a rerun cannot be trusted where it passed by luck:
// its passes in the same run are suspect as well.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/record/record.hpp"

namespace attest::core {

/// Whether a race has made this pass suspect.
inline bool is_overruled(const Record& record) {
  return record.outcome.code == ReasonCode::kSuspectRace;
}

/// Whether two runs on the same inputs differ by more than the record's arithmetic explains.
bool shows_race(const Record& record);

/// The implementations of a run whose reruns were apart (RerunRecord::apart).
class Races {
 public:
  /// Remembers the implementation if reruns in this record were apart. Only the first such record
  /// of an implementation counts.
  void note(const Record& record);
  /// Makes a pass of an implementation that was noted suspect, with the case that showed it as the
  /// reason. Returns whether it did.
  bool overrule(Record& record) const;
  /// Why the passes of that record's implementation are suspect; null: they are not.
  const std::string* why(const Record& record) const;
  /// The same of a build.
  using Build = std::pair<std::string, std::string>;  // an implementation, the hash of its plugin
  static Build build_of(const Record& record) { return {record.impl, record.plugin_hash}; }
  const std::string* why(const Build& build) const;

 private:
  std::map<Build, std::string> why_;
};

/// Passes of one implementation that a race overruled.
struct Overruled {
  size_t passes = 0;
  std::string why;  // "a rerun of small/b f32 (fill random) gave other outputs ..."
};

/// Overrules the passes of a whole run, whether they come before or after the race. Returns, by
/// implementation, how many passes this call has overruled.
std::map<std::string, Overruled> overrule_races(std::vector<Record>& records);

}  // namespace attest::core
