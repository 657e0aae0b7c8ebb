#include "cli/options/projection_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/tensor/error.hpp"
#include "reports/input/input.hpp"

namespace attest::cli {

void ProjectionOption::add_to(CLI::App& command, const std::string& board) {
  option_ = board;
  command
      .add_option(board, board_,
                  "the board to project times to and its power mode, such as orin-agx64-maxn or "
                  "orin-nx16-25w; a wrong name lists all")
      ->type_name("TARGET");
  command
      .add_option("--calibrate", calibration_,
                  "results files of two machines that were both measured: how far the times of the "
                  "first, projected to the second, are off, for intervals")
      ->expected(2)
      ->type_name("FILE FILE");
}

reports::Calibration ProjectionOption::calibration(std::vector<std::string>& warnings) const {
  const std::vector<core::Results> both = read_begun(calibration_, warnings);
  return reports::calibrate(both.at(0), both.at(1));
}

reports::ProjectionTarget ProjectionOption::target(std::vector<std::string>& warnings) const {
  reports::ProjectionTarget target{.board = reports::find_board_mode(board_)};
  if (!target.board)
    throw core::Error(fmt::format("{} {}: is no target; there are {}", option_,
                                  core::in_quotes(board_), target_names()));
  if (has_calibration()) target.calibration = calibration(warnings);
  return target;
}

std::string target_names() {
  std::string names;
  for (const reports::BoardMode& board : reports::board_modes())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", board.name);
  return names;
}

std::vector<core::Results> read_begun(const std::vector<std::string>& files,
                                      std::vector<std::string>& warnings) {
  std::vector<core::Results> all;
  for (const std::string& file : files) {
    std::vector<core::Results> one{core::read_results(file)};
    if (!one[0].begun) throw core::Error(fmt::format("{}: has no header", file));
    // Each by itself: that files are of several machines is as it should be.
    for (std::string& warning : reports::warnings_of(one))
      if (std::ranges::find(warnings, warning) == warnings.end())
        warnings.push_back(std::move(warning));
    all.push_back(std::move(one[0]));
  }
  return all;
}

}  // namespace attest::cli
