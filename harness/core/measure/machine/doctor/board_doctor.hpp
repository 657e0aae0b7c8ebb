// What disturbs measurements on a Jetson board, and the commands that help.
#pragma once
#include <filesystem>
#include <vector>

#include "core/measure/machine/board/board.hpp"
#include "core/measure/machine/doctor/finding.hpp"

namespace attest::core {

/// Lines of `attest doctor` on a board: module and release, power mode, locks of clocks, fan,
/// desktop, swap, throttling, and what cannot be read. Reads more files under `root`.
std::vector<Finding> diagnose_board(const BoardState& board, const std::filesystem::path& root);

/// What happened to the board while the doctor looked; empty: nothing.
std::vector<Finding> diagnose_changes(const BoardState& before, const BoardState& after);

}  // namespace attest::core
