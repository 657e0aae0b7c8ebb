#include "cli/comparison/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "cli/interrupt.hpp"
#include "core/tensor/error.hpp"

extern char** environ;

namespace attest::cli {
namespace {

constexpr std::chrono::milliseconds kLook{10};  // how often the child is looked at
constexpr int kNotStarted = 127;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> all = changes;
  for (char** at = environ; *at; ++at) {
    const std::string_view name = std::string_view(*at).substr(0, std::string_view(*at).find('='));
    bool changed = false;
    for (const std::string& change : changes)
      changed |= change.starts_with(std::string(name) + "=");
    if (!changed) all.emplace_back(*at);
  }
  return all;
}

// In the child, between fork and exec: system calls only.
[[noreturn]] void become(char* const* words, char* const* environment, int log, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kNotStarted);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(log, 1);
  dup2(log, 2);
  execvpe(words[0], words, environment);
  _exit(kNotStarted);
}

int wait_for(pid_t child) {
  bool told = false;
  for (int status = 0;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR)
      throw core::MachineError(fmt::format("cannot wait for a launch: {}", std::strerror(errno)));
    if (interrupted() && !told) {
      kill(child, SIGTERM);
      told = true;
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

int run_child(const ChildCommand& command) {
  const std::vector<std::string> environment = environment_with(command.environment);
  const std::vector<char*> words = pointers(command.words), variables = pointers(environment);
  const int log = open(command.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0)
    throw core::MachineError(
        fmt::format("{}: cannot be written: {}", command.log, std::strerror(errno)));
  const pid_t parent = getpid(), child = fork();
  if (child == 0) become(words.data(), variables.data(), log, parent);
  close(log);
  if (child < 0)
    throw core::MachineError(fmt::format("cannot start a process: {}", std::strerror(errno)));
  const int code = wait_for(child);
  if (code == kNotStarted)
    throw core::MachineError(fmt::format("{}: cannot be started", command.words.front()));
  return code;
}

}  // namespace attest::cli
