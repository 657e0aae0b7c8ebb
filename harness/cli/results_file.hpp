// The results file: JSON lines, written as they come, so that what was measured is kept whatever
// happens next.
#pragma once
#include <sys/types.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace attest::cli {

class ResultsFile {
 public:
  /// An empty path writes nothing. `kept_bytes` of what is there stay, and lines go behind them.
  /// Throws MachineError when it cannot be opened or another attest writes to it.
  explicit ResultsFile(const std::string& path, off_t kept_bytes = 0);
  ~ResultsFile();
  ResultsFile(ResultsFile&& other) noexcept;
  ResultsFile& operator=(ResultsFile&&) = delete;
  /// One line, whole or not at all: a line that the disk has no room for is taken back. Throws
  /// MachineError.
  void write(const nlohmann::json& line);

 private:
  std::string path_;
  int fd_ = -1;
};

/// Throws Error where a file of that name holds something: results are not to be lost by a name
/// given twice. "" is none.
void refuse_to_replace(const std::string& path);

}  // namespace attest::cli
