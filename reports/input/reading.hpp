// Reads results files as the input of a report, without keeping what it does not show.
//
//   const Input input = read_input({"results.jsonl"}, kMostShown);
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/record/races.hpp"
#include "core/record/results.hpp"
#include "reports/input/input.hpp"
#include "reports/input/shown.hpp"

namespace attest::reports {

/// Reads the files as make_input() takes them. Of more than `most` records, only those are kept
/// that are shown then (Cases::shown); `left_out` counts the others. Files with a sweep, whose
/// scaling needs every point, are kept whole; so are all files if two hold the same run, or if one
/// is a pipe, which cannot be read twice. Throws Error as core::read_results() and make_input() do,
/// and as Survey::input() does.
Input read_input(const std::vector<std::string>& paths, size_t most);

/// A first look at files that can be read twice. It says which records to keep of them.
class Survey {
 public:
  /// Throws Error as core::visit_results() does.
  Survey(const std::vector<std::string>& paths, size_t most);

  /// What read_input() returns, of the files as the first look found them: what a run has written
  /// since does not count. Call it once. Throws Error if a file has been replaced meanwhile.
  Input input();

 private:
  struct File {
    core::Results results;  // with all of their records if there are few
    size_t records = 0;
    core::Races races;
    std::map<core::Races::Build, std::vector<size_t>> passed_in;  // places of cases
  };
  void look_at(const std::string& path);
  void forget_records();
  void mark_races(const File& file);
  /// Keeps the records that are shown, and counts the others in `left_out`.
  core::Results read_again(size_t run, const std::vector<bool>& shown, LeftOut& left_out) const;

  size_t most_, count_ = 0;
  bool whole_ = false;  // all records are needed
  std::vector<File> files_;
  std::vector<std::string> headers_;
  Cases cases_;
};

}  // namespace attest::reports
