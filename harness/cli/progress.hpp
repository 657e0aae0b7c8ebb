// What a run shows while it goes on: one rewritten line on a terminal, a line for each record
// otherwise.
#pragma once
#include <cstdio>
#include <string>

#include "core/isolation/channel.hpp"
#include "core/record/record.hpp"

namespace attest::cli {

/// Whether `stream` is a terminal, and whether colours are wanted there (NO_COLOR unset or empty,
/// TERM not dumb).
bool is_terminal(std::FILE* stream);
bool wants_colour(std::FILE* stream);

class Progress {
 public:
  /// `total` records will come. Writes to standard error.
  explicit Progress(size_t total);
  ~Progress();
  /// What is being done now.
  void start(const std::string& what);
  void finish(const core::Record& record);

 private:
  void clear();
  size_t total_, done_ = 0;
  bool terminal_;
  core::Clock::time_point began_ = core::Clock::now();
};

}  // namespace attest::cli
