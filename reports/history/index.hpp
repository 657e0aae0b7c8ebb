// The index of a history: an SQLite file with what the series need of many results files. It holds
// nothing that the records do not, so it can be removed and rebuilt at any time.
#pragma once
#include <memory>
#include <optional>
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

struct FilledIndex;

/// All functions but rebuild() throw DamagedDatabase if the index is damaged; the message says how
/// to rebuild it. All throw MachineError if it cannot be read or written.
class HistoryIndex {
 public:
  /// Opens an index. Throws Error if there is none, or if the file is no index of attest or has
  /// another version.
  static HistoryIndex open(const std::string& path);
  /// Adds all files to an index, or none if one is refused. Makes the index if there is none. If it
  /// has a run already, the records of the file replace those with the same key. Throws Error as
  /// open() does, and if a file has no header or is a baseline, whose records come from several
  /// runs.
  static FilledIndex add(const std::string& path, const std::vector<core::Results>& files);
  /// Makes the index anew, of these files alone. The old index may be damaged or of another
  /// version; it stays as it was until the new one is whole. Throws Error if a file is refused, or
  /// if `path` names a file that is no index of attest.
  static FilledIndex rebuild(const std::string& path, const std::vector<core::Results>& files);
  ~HistoryIndex();
  HistoryIndex(HistoryIndex&&) noexcept;
  HistoryIndex& operator=(HistoryIndex&&) = delete;

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
  /// Replaces all that the index holds. Returns nothing if it is damaged.
  static std::optional<std::vector<Added>> refill(const std::string& path,
                                                  const std::vector<core::Results>& files);
  std::unique_ptr<Impl> impl_;
};

/// An index, and what became of each file that was put into it.
struct FilledIndex {
  HistoryIndex index;
  std::vector<Added> added;
};

}  // namespace attest::reports
