// The options and the exit code that the commands which compare share: compare, ab.
#pragma once
#include <CLI/CLI.hpp>

#include "cli/options/floors_option.hpp"
#include "reports/compare/comparison.hpp"

namespace attest::cli {

struct Comparing {
  bool strict = false, changed_only = false;
  double floor_percent = 0;

  void add_to(CLI::App& command);
  /// What the arguments say. Call it when they were parsed. Throws Error if the file of
  /// --floor-from cannot be read. This must outlive what is returned.
  reports::CompareOptions options();
  const std::string& relative_to() const { return options_.relative_to; }
  /// Throws Error if the floors are not of these results.
  void check_floors(const std::vector<core::Results>& results) const;
  /// Prints the comparison.
  void print(const reports::Comparison& comparison) const;
  /// Returns an ExitCode; says on standard error why nothing was compared.
  int exit_code(const reports::Comparison& comparison) const;

 private:
  reports::CompareOptions options_;
  FloorsOption floors_;
};

}  // namespace attest::cli
