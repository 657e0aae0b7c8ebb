#include "cli/options/projection_option.hpp"

#include <fmt/format.h>

#include "core/problem/glob.hpp"
#include "core/tensor/error.hpp"

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

reports::Calibration ProjectionOption::calibration() const {
  return reports::calibrate(read_begun(calibration_.at(0)), read_begun(calibration_.at(1)));
}

reports::ProjectionTarget ProjectionOption::target() const {
  reports::ProjectionTarget target{.board = reports::find_board_mode(board_)};
  if (!target.board)
    throw core::Error(fmt::format("{} {}: is no target; there are {}", option_,
                                  core::in_quotes(board_), target_names()));
  if (has_calibration()) target.calibration = calibration();
  return target;
}

std::string target_names() {
  std::string names;
  for (const reports::BoardMode& board : reports::board_modes())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", board.name);
  return names;
}

core::Results read_begun(const std::string& file) {
  core::Results results = core::read_results(file);
  if (!results.begun) throw core::Error(fmt::format("{}: has no header", file));
  return results;
}

}  // namespace attest::cli
