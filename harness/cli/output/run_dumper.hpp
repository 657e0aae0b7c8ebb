// --dump: writes each judged run into a folder of its own.
#pragma once
#include <filesystem>
#include <string>

#include "core/run/judged_run.hpp"

namespace attest::cli {

class RunDumper {
 public:
  /// Throws Error if `folder` exists and is not an empty folder.
  explicit RunDumper(std::filesystem::path folder);
  /// Writes a run into FOLDER/IMPLEMENTATION/FILL. After a run that cannot be written, does
  /// nothing.
  void add(const core::JudgedRun& run);
  /// Prints where the runs are. Throws MachineError if one could not be written.
  void finish() const;

 private:
  std::filesystem::path folder_;
  int count_ = 0;
  std::string failure_;
};

}  // namespace attest::cli
