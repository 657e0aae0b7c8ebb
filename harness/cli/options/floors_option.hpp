// --floor-from: the file of floors that attest ab --self-check wrote. compare, ab and gate share
// it.
#pragma once
#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "reports/compare/floors.hpp"

namespace attest::cli {

class FloorsOption {
 public:
  void add_to(CLI::App& command);
  /// The floors; null if the option was not given. They live as long as this. Throws Error if the
  /// file cannot be read.
  const reports::Floors* read();
  /// Throws Error as reports::require_floors_of does; says nothing if the option was not given.
  void require_of(const std::vector<core::Results>& results, const std::string& relative_to) const;

 private:
  std::string path_;
  std::optional<reports::Floors> floors_;
};

}  // namespace attest::cli
