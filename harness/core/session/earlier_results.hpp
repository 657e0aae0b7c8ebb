// What a results file holds already, for a run that goes on where another was cut short.
#pragma once
#include <map>
#include <string>

#include "core/record/case_key.hpp"
#include "core/session/plan.hpp"

namespace attest::core {

/// A last line that was torn does not count.
class EarlierResults {
 public:
  EarlierResults() = default;
  /// Without such a file, or with an empty one, nothing is there yet. Throws Error: it cannot be
  /// read, or is no results file.
  explicit EarlierResults(const std::string& path);

  /// Whether it has its header, and its closing line.
  bool begun() const { return begun_; }
  bool complete() const { return complete_; }
  /// Where its last whole line ends.
  size_t bytes() const { return bytes_; }
  size_t count() const { return records_.size(); }

  /// Throws Error, naming what differs between the file's run and this one.
  void require_same(const Identity& identity) const;
  /// The record of that key, each of several once; null where there is none.
  const Record* take(const CaseKey& key);

 private:
  std::string path_;
  bool begun_ = false, complete_ = false;
  size_t bytes_ = 0;
  Identity identity_;
  std::multimap<CaseKey, Record> records_, taken_;
};

}  // namespace attest::core
