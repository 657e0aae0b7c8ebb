// Which records are shown where not all are: whole cases, those with bad records first.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "reports/input/input.hpp"

namespace attest::reports {

/// A browser filters and draws so many records without delay.
inline constexpr size_t kMostShown = 5000;

/// The cases of all runs: the records that share suite, case and dtype.
class Cases {
 public:
  /// Counts a record. Returns the place of its case.
  size_t add(const core::Record& record);
  /// The place of a record's case; nothing: no record of it was added.
  std::optional<size_t> place_of(const core::Record& record) const;
  /// The case has a bad record.
  void mark_bad(size_t place) { cases_[place].is_bad = true; }
  /// Whether each case is shown, with `most` records in all: bad cases first, otherwise in order.
  /// One case is shown, however many records it has.
  std::vector<bool> shown(size_t most) const;

 private:
  struct Case {
    size_t records = 0;
    bool is_bad = false;
  };
  std::map<std::tuple<std::string, std::string, std::string>, size_t> places_;
  std::vector<Case> cases_;
};

/// At most `most` records of the input, of which a case has all or none: those with bad records
/// first, then in the order of the input. At least one case. The input must outlive it.
std::set<const core::Record*> shown_records(const Input& input, size_t most = kMostShown);

}  // namespace attest::reports
