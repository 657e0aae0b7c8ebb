// What a terminal shows of the work at hand: one line, rewritten.
#pragma once
#include <cstdio>
#include <string>

#include "core/isolation/channel.hpp"

namespace attest::cli {

/// Whether `stream` is a terminal, and whether colours are wanted there (NO_COLOR unset or empty,
/// TERM not dumb).
bool is_terminal(std::FILE* stream);
bool wants_colour(std::FILE* stream);

class Progress {
 public:
  /// `total` records will come. Writes to standard error, where that is a terminal.
  explicit Progress(size_t total);
  ~Progress();
  /// What is being done now.
  void start(const std::string& what);
  void finish() { ++done_; }
  /// Takes the line back, so that something else can be printed.
  void clear();

 private:
  size_t total_, done_ = 0;
  bool terminal_;
  core::Clock::time_point began_ = core::Clock::now();
};

}  // namespace attest::cli
