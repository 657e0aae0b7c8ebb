// The launches of one side of a comparison: what each says of one (implementation, case), and on
// which machine and build.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/record/case_key.hpp"
#include "core/record/results.hpp"
#include "core/statistics/change.hpp"

namespace attest::reports {

using Key = core::CaseKey;

/// One launch: its records by what they are of. The file outlives it.
struct Run {
  const core::Results* file = nullptr;
  std::map<Key, std::vector<const core::Record*>> records;

  explicit Run(const core::Results& results);
  /// None: an empty list.
  const std::vector<const core::Record*>& find(const Key& key) const;
  /// The time of a pass; median 0 where there is none. Of several records the samples are taken
  /// together. `relative_to`: as a share of what that implementation took; empty: in ns.
  core::Launch launch(const Key& key, const std::string& relative_to = {}) const;
};
using Side = std::vector<Run>;

/// By when they started.
Side by_start(const std::vector<core::Results>& files);
/// Whether of any two neighbours in time, first and second, third and fourth ..., one is of either
/// side.
bool took_turns(const Side& before, const Side& after);

std::vector<const core::Record*> all_records(const Side& side, const Key& key);
/// Those that there are.
std::vector<core::Launch> all_launches(const Side& side, const Key& key,
                                       const std::string& relative_to = {});

/// A text of the header; empty: not recorded.
std::string fact(const core::Results& file, const std::string& group, const std::string& name);
/// What has to be the same for times to be of the same machine, and of the same kind of build.
std::string machine(const core::Results& file, const std::string& device);
std::string build(const core::Results& file);

}  // namespace attest::reports
