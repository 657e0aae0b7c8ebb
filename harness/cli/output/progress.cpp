#include "cli/output/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>

namespace attest::cli {
namespace {

constexpr size_t kBar = 20;  // columns
constexpr std::chrono::milliseconds kEach{250};

// "1:05" minutes and seconds, "2:00:05" with hours.
std::string print_clock(double seconds) {
  const auto whole = int64_t(seconds);
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest)
                   : fmt::format("{}:{:02}", minutes, rest);
}

size_t terminal_width() {
  winsize size{};
  return ioctl(fileno(stderr), TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

bool wants_colour(std::FILE* stream) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return is_terminal(stream) && !(no_colour && *no_colour) && term &&
         std::string_view(term) != "dumb";
}

std::string progress_line(size_t done, size_t total, double seconds, const std::string& what,
                          size_t width) {
  const double share = total > 0 ? std::min(1.0, double(done) / double(total)) : 1;
  const auto filled = size_t(share * kBar);
  std::string left;
  if (done > 0 && done < total)
    left = fmt::format(", about {} left", print_clock(seconds / share - seconds));
  std::string text =
      fmt::format("[{}{}] {}/{} {}{}  {}", std::string(filled, '#'),
                  std::string(kBar - filled, '-'), done, total, print_clock(seconds), left, what);
  if (text.size() > width) text.resize(width);
  return text;
}

Progress::Progress(size_t total) : terminal_(is_terminal(stderr)), total_(total) {
  if (!terminal_) return;
  // Signals are for the thread that runs the session.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { keep_drawing(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Progress::~Progress() {
  clear();
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Progress::keep_drawing() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kEach, [this] { return ends_; })) draw();
}

// The mutex is held.
void Progress::draw() {
  if (what_.empty()) return;
  const std::string line =
      progress_line(done_, total_, core::seconds_since(began_), what_, terminal_width() - 1);
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
}

void Progress::start(const std::string& what) {
  if (!terminal_) return;
  const std::lock_guard lock(mutex_);
  what_ = what;
  draw();
}

void Progress::expect(size_t more) {
  const std::lock_guard lock(mutex_);
  total_ += more;
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  ++done_;
}

void Progress::clear() {
  if (!terminal_) return;
  const std::lock_guard lock(mutex_);
  what_.clear();
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

}  // namespace attest::cli
