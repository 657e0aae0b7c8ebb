// Shows progress on a terminal, in one line that is rewritten several times a second.
#pragma once
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "core/tensor/stopwatch.hpp"

namespace attest::cli {

/// Whether `stream` is a terminal.
bool is_terminal(std::FILE* stream);
/// Whether `stream` is a terminal that wants colours: NO_COLOR is unset or empty, TERM is not dumb.
bool wants_colour(std::FILE* stream);

/// "[######----------] 37/100 0:41, about 1:10 left  WHAT", in at most `width` columns. The time
/// left is estimated as if the rest took what the finished part took on average.
std::string progress_line(size_t done, size_t total, double seconds, const std::string& what,
                          size_t width);

class Progress {
 public:
  /// `total`: the number of records to come. Writes to standard error if that is a terminal.
  explicit Progress(size_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows `what` as the work that begins now.
  void start(const std::string& what);
  /// Adds records to come.
  void expect(size_t more);
  /// Counts one record as done.
  void finish();
  /// Erases the line until the next start, so that something else can be printed.
  void clear();

 private:
  void draw();
  void keep_drawing();

  const bool terminal_;
  const core::Clock::time_point began_ = core::Clock::now();
  std::mutex mutex_;  // of what follows
  std::condition_variable ended_;
  size_t total_, done_ = 0;
  std::string what_;  // empty: the line is not shown
  bool ends_ = false;
  std::thread thread_;  // draws the line again and again
};

}  // namespace attest::cli
