// The options for frames that a clock releases, and for energy: --paced 12Hz, --contend stream:2,
// --energy.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "core/run/runner.hpp"

namespace attest::cli {

struct PacingOptions {
  static constexpr double kUsualWindow_s = 10;

  double period_s = 0;  // 0: no frames are paced
  double window_s = kUsualWindow_s;
  std::vector<core::NeighbourSpec> neighbours;
  bool energy = false;
  const CLI::Option* window_option = nullptr;  // --paced-for

  void add_to(CLI::App& app);
  /// Puts them into the options of a run. Throws Error if --contend or --paced-for lacks --paced.
  void apply_to(core::RunOptions& options) const;
  /// The words of a command line that give the same options: " --paced 12Hz". Empty without any.
  std::string words() const;
};

}  // namespace attest::cli
