// The launches of one side of a comparison: their records, machine and build.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/record/case_key.hpp"
#include "core/record/results.hpp"
#include "core/statistics/change.hpp"
#include "reports/words/machine.hpp"

namespace attest::reports {

using Key = core::CaseKey;

/// Instead of an implementation to divide times by: the least time that the limits of the machine
/// allow, as they were measured in the same launch.
inline constexpr const char* kRooflinePeer = "roofline";

/// One launch, with its records by key. The results must outlive it.
struct Run {
  const core::Results* file = nullptr;
  std::map<Key, std::vector<const core::Record*>> records;

  explicit Run(const core::Results& results);
  /// The records of that key; may be empty.
  const std::vector<const core::Record*>& find(const Key& key) const;
  /// The time of the passing records; median 0: there is none. The samples of several records are
  /// combined. In nanoseconds, or divided by the time of the implementation `relative_to`, or by
  /// the least time (kRooflinePeer).
  core::Launch launch(const Key& key, const std::string& relative_to = {}) const;
};
using Side = std::vector<Run>;

/// The moment at which the launch began that made a record of `file`. It tells launches apart.
const std::string& launch_of(const core::Results& file, const core::Record& record);
/// Splits a results file into its launches. A baseline may have several; other files have one. Each
/// launch gets the file's header, with the moment at which that launch began. If there are several,
/// each gets a closing line about its own records.
std::vector<core::Results> launches_in(core::Results file);
/// A sample of the record's time that is no time: zero, negative, not finite. A clock stood still
/// or went back, or the file was edited.
std::optional<double> bad_sample(const core::Record& record);

/// The launches, sorted by the time at which they started.
Side by_start(const std::vector<core::Results>& files);
/// Whether the sides took turns: sorted by time, the first and second launch are of different
/// sides, and so are the third and fourth, and so on.
bool took_turns(const Side& before, const Side& after);

/// The records of that key in all launches.
std::vector<const core::Record*> all_records(const Side& side, const Key& key);
/// The times of that key in all launches that have one.
std::vector<core::Launch> all_launches(const Side& side, const Key& key,
                                       const std::string& relative_to = {});

/// Whether no board had two power modes while records of that key were measured. A mode is more
/// than another machine: it sets how many multiprocessors there are.
bool of_one_power_mode(const Side& before, const Side& after, const Key& key);
/// Whether all records of that key were made on one machine.
bool of_one_machine(const Side& before, const Side& after, const Key& key);

}  // namespace attest::reports
