#include "core/isolation/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "core/isolation/children.hpp"
#include "core/isolation/status_page.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

// After which a process that a SIGKILL does not end (it waits for a device) is left to the system.
constexpr auto kPatience = std::chrono::seconds(5);

void report(const SupervisorReport& report) {
  // A harness that is gone reads nothing: no signal, and no error that matters.
  if (send(kWorkerControl, &report, sizeof(report), MSG_NOSIGNAL) < 0) return;
}

// Reaps what has ended; false when no child is left.
bool reap(SupervisorReport& last) {
  int how = 0;
  pid_t gone = 0;
  while ((gone = waitpid(-1, &how, WNOHANG)) > 0) {
    if (gone == last.worker && !last.ended) {
      last.ended = 1;
      last.how = how;
    } else
      ++last.strays;
  }
  return gone == 0 || errno != ECHILD;
}

// Kills and reaps until no child is left: those of the killed become children of this process in
// turn.
void end_all(SupervisorReport& last) {
  if (!last.ended) kill(last.worker, SIGKILL);
  for (const auto deadline = Clock::now() + kPatience; reap(last) && Clock::now() < deadline;
       usleep(200)) {
    if (!last.ended) continue;
    for (const pid_t child : children_of_this_process()) kill(child, SIGKILL);
  }
}

// Until the worker has ended or the harness has let go.
void keep(SupervisorReport& last, int child_signals) {
  for (;;) {
    pollfd ready[] = {{kWorkerControl, POLLIN, 0}, {child_signals, POLLIN, 0}};
    if (poll(ready, 2, -1) < 0 && errno != EINTR) return;
    if (ready[1].revents) {
      signalfd_siginfo info;
      if (read(child_signals, &info, sizeof(info)) < 0) return;
      reap(last);
      if (last.ended) return;
    }
    if (ready[0].revents) return;  // the harness never writes: its end was closed
  }
}

}  // namespace

void start_supervisor() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t none, child;
  sigemptyset(&none);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
  const pid_t supervisor = getpid(), worker = fork();
  if (worker < 0) _exit(70);
  if (worker == 0) {
    close(kWorkerControl);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that it sees whom run leaves behind
    if (getppid() != supervisor) _exit(70);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    // If memory runs out, the system is to end the worker and not the harness.
    if (const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); score >= 0) {
      if (write(score, "1000", 4) < 0) std::perror("oom_score_adj");
      close(score);
    }
    return;
  }
  prctl(PR_SET_NAME, "attest-supervisor");
  close(kWorkerSocket);
  close(kWorkerStatus);
  SupervisorReport last{.worker = worker, .ended = 0, .how = 0, .strays = 0};
  report(last);
  keep(last, signalfd(-1, &child, SFD_CLOEXEC));
  end_all(last);
  last.ended = 1;
  report(last);
  _exit(0);
}

}  // namespace attest::core
