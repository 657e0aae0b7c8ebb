// A board to which times are projected, and --calibrate. project and report share them.
#pragma once
#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "core/record/results.hpp"
#include "reports/projection/projected.hpp"

namespace attest::cli {

class ProjectionOption {
 public:
  /// `board`: the option that names the board, "--to".
  void add_to(CLI::App& command, const std::string& board);

  bool has_board() const { return !board_.empty(); }
  bool has_calibration() const { return !calibration_.empty(); }
  /// The files of --calibrate: two, or none.
  const std::vector<std::string>& calibration_files() const { return calibration_; }
  /// Throws Error if there is no such board; the message lists all. The files of --calibrate are
  /// read; what weakens them is added to `warnings`.
  reports::ProjectionTarget target(std::vector<std::string>& warnings) const;
  /// Of the files of --calibrate, which must have been given. Throws Error as reports::calibrate.
  reports::Calibration calibration(std::vector<std::string>& warnings) const;

 private:
  std::string option_, board_;
  std::vector<std::string> calibration_;
};

/// "orin-agx64-maxn, orin-agx64-50w, ...".
std::string target_names();
/// Reads results files; what weakens them is added to `warnings`, unless it is there already.
/// Throws Error if one has no header.
std::vector<core::Results> read_begun(const std::vector<std::string>& files,
                                      std::vector<std::string>& warnings);

}  // namespace attest::cli
