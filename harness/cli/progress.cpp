#include "cli/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace attest::cli {

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

bool wants_colour(std::FILE* stream) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return is_terminal(stream) && !(no_colour && *no_colour) && term &&
         std::string_view(term) != "dumb";
}

Progress::Progress(size_t total) : total_(total), terminal_(is_terminal(stderr)) {}
Progress::~Progress() { clear(); }

void Progress::clear() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

void Progress::start(const std::string& what) {
  if (!terminal_) return;
  winsize size{};
  const size_t width =
      ioctl(fileno(stderr), TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
  const double spent = core::seconds_since(began_);
  // Time left, as if the rest took what the finished ones took on average.
  const std::string left =
      done_ > 0 ? fmt::format(", {:.0f} s left", spent / double(done_) * double(total_ - done_))
                : "";
  std::string text = fmt::format("[{}/{}{}] {}", done_ + 1, total_, left, what);
  if (text.size() >= width) text.resize(width - 1);
  clear();
  fmt::print(stderr, "{}", text);
  std::fflush(stderr);
}

}  // namespace attest::cli
