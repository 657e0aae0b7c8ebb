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
  size_t records = 0;  // in the file
  size_t fresh = 0;    // that the index did not have
  bool known_run = false;
  std::vector<std::string> warnings;  // sentences
};

class HistoryIndex {
 public:
  /// Opens an index, or makes an empty one. Throws Error: it is not there (open), is no index of
  /// attest, is of another version, is damaged (the message says to rebuild it), or cannot be
  /// opened.
  static HistoryIndex open(const std::string& path);
  static HistoryIndex open_or_create(const std::string& path);
  /// Makes an index of these files in place of one that may be damaged; it stays as it was until
  /// the new one is whole. Throws Error if the file there is none of attest.
  static HistoryIndex rebuild(const std::string& path, const std::vector<core::Results>& files,
                              std::vector<Added>& added);
  ~HistoryIndex();
  HistoryIndex(HistoryIndex&&) noexcept;
  HistoryIndex& operator=(HistoryIndex&&) = delete;

  /// Adds the files, or none of them if one is refused. A run that is known already counts once:
  /// its records replace those with the same key. Throws Error: a file has no header, or is a
  /// baseline, whose records are of several runs; or the index is damaged.
  std::vector<Added> add(const std::vector<core::Results>& files);
  /// The files that were added, as paths from the working folder.
  std::vector<std::string> files() const;
  /// The keys of all series.
  std::vector<SeriesKey> keys() const;
  /// The keys that records of these runs have and that the index knows, in its order.
  std::vector<SeriesKey> keys_of(const std::vector<core::Results>& runs) const;
  /// The series of a key. Values of one run are combined by their median.
  HistorySeries series(const SeriesKey& key) const;

 private:
  struct Impl;
  explicit HistoryIndex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest::reports
