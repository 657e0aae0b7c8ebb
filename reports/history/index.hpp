// The index of a history: an SQLite file with what the series need of many results files. It holds
// nothing that the records do not, so it can be removed and rebuilt at any time.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/record/results.hpp"
#include "reports/history/history.hpp"

namespace attest::reports {

/// What became of one results file.
struct Added {
  size_t records = 0;  // of the file
  size_t fresh = 0;    // those that the index did not have yet
  bool known_run = false;
  std::vector<std::string> warnings;  // sentences
};

class HistoryIndex {
 public:
  /// Opens an index. open_or_create() makes an empty one if there is none; open() throws Error
  /// then. Both throw Error if the file is no index of attest, has another version, is damaged (the
  /// message says how to rebuild it), or cannot be opened.
  static HistoryIndex open(const std::string& path);
  static HistoryIndex open_or_create(const std::string& path);
  /// Makes an index of these files. It replaces the old index, which may be damaged, only when the
  /// new one is whole. Throws Error if `path` names a file that is no index of attest.
  static HistoryIndex rebuild(const std::string& path, const std::vector<core::Results>& files,
                              std::vector<Added>& added);
  ~HistoryIndex();
  HistoryIndex(HistoryIndex&&) noexcept;
  HistoryIndex& operator=(HistoryIndex&&) = delete;

  /// Adds all files, or none if one is refused. If the index has a run already, its records replace
  /// those with the same key. Throws Error if a file has no header or is a baseline, whose records
  /// come from several runs, or if the index is damaged.
  std::vector<Added> add(const std::vector<core::Results>& files);
  /// Returns the files that were added, as paths from the working folder.
  std::vector<std::string> files() const;
  /// Returns the keys of all series.
  std::vector<SeriesKey> keys() const;
  /// Returns the keys of those series to which records of these runs belong, in the index's order.
  std::vector<SeriesKey> keys_of(const std::vector<core::Results>& runs) const;
  /// Returns the series of a key. If a run has several records of it, their median counts.
  HistorySeries series(const SeriesKey& key) const;

 private:
  struct Impl;
  explicit HistoryIndex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest::reports
