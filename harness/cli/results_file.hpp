// The results file: JSON lines, written as they come, so that what was measured is kept whatever happens next.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace attest::cli {

class ResultsFile {
 public:
  /// An empty path writes nothing. Throws MachineError when it cannot be opened.
  explicit ResultsFile(const std::string& path);
  ~ResultsFile();
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;
  /// One line, whole or not at all: a line that the disk has no room for is taken back. Throws MachineError.
  void write(const nlohmann::json& line);

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace attest::cli
