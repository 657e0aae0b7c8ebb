#include "core/isolation/children.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace attest::core {
namespace fs = std::filesystem;
namespace {

// The parent in a line of /proc/PID/stat: "pid (name) state parent ...", where the name may hold
// anything.
pid_t parent_of(const fs::path& process) {
  std::ifstream file(process / "stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end == line.npos || name_end + 4 > line.size()
             ? -1
             : pid_t(std::atoi(line.c_str() + name_end + 4));
}

}  // namespace

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> found;
  siginfo_t info{};
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return found;
  std::error_code error;
  const pid_t self = getpid();
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.find_first_not_of("0123456789") == name.npos && parent_of(at->path()) == self)
      found.push_back(pid_t(std::atoi(name.c_str())));
  }
  return found;
}

}  // namespace attest::core
