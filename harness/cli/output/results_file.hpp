// The results file: JSON lines. Each is written as soon as its record exists, so that a crash loses
// none.
#pragma once
#include <sys/types.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/record/results.hpp"

namespace attest::cli {

class ResultsFile {
 public:
  /// Keeps the first `kept_bytes` of an existing file and appends to them. An empty path: nothing
  /// is written. Throws MachineError if the file cannot be opened or another attest writes to it.
  explicit ResultsFile(const std::string& path, off_t kept_bytes = 0);
  ~ResultsFile();
  ResultsFile(ResultsFile&& other) noexcept;
  ResultsFile& operator=(ResultsFile&&) = delete;
  /// Appends one line. If writing fails, for example on a full disk, the incomplete line is
  /// removed. Throws MachineError.
  void write(const nlohmann::json& line);

 private:
  std::string path_;
  int fd_ = -1;
};

/// A results file. Throws Error also if it has no header.
core::Results read_one(const std::string& path);
/// The launches of results files, of which each is one launch, or a baseline of several.
std::vector<core::Results> read_launches(const std::vector<std::string>& paths);

/// Throws Error if neither side has records of `peer`, the implementation of --relative-to, or none
/// of another. "": times are not relative.
void require_peer(const std::vector<core::Results>& before, const std::vector<core::Results>& after,
                  const std::string& peer);

/// Throws Error if the file exists and is not empty, so that -o does not overwrite results. "": no
/// file.
void refuse_to_replace(const std::string& path);
/// The same for --table.
void refuse_to_replace_table(const std::string& path);

}  // namespace attest::cli
