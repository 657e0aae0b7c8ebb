// Shows progress on a terminal, in one line that is rewritten.
#pragma once
#include <cstdio>
#include <string>

#include "core/tensor/stopwatch.hpp"

namespace attest::cli {

/// Whether `stream` is a terminal.
bool is_terminal(std::FILE* stream);
/// Whether `stream` is a terminal that wants colours: NO_COLOR is unset or empty, TERM is not dumb.
bool wants_colour(std::FILE* stream);

class Progress {
 public:
  /// `total`: the number of records to come. Writes to standard error if that is a terminal.
  explicit Progress(size_t total);
  ~Progress();
  /// Shows `what` as the work that begins now.
  void start(const std::string& what);
  /// Counts one record as done.
  void finish() { ++done_; }
  /// Erases the line, so that something else can be printed.
  void clear();

 private:
  size_t total_, done_ = 0;
  bool terminal_;
  core::Clock::time_point began_ = core::Clock::now();
};

}  // namespace attest::cli
