#include "core/isolation/worker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "core/isolation/installation.hpp"
#include "core/isolation/libraries.hpp"
#include "core/isolation/spinning.hpp"
#include "core/tensor/error.hpp"

extern char** environ;

namespace attest::core {
namespace fs = std::filesystem;

namespace {

constexpr off_t kFlood = 1 << 20;    // bytes of output that are kept
constexpr size_t kMostOutput = 600;  // of what a dying worker said, in a reason
constexpr double kEndPatience_s = 10;

// Duplicates at numbers that no descriptor of a worker has, so that moving them into place
// overwrites nothing.
Descriptor lifted(int fd) { return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 64)); }

// Processes that the system has ended for lack of memory since it was started, of everybody's.
uint64_t oom_kills() {
  std::ifstream file("/proc/vmstat");
  std::string key;
  for (uint64_t value = 0; file >> key >> value;)
    if (key == "oom_kill") return value;
  return 0;
}

struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

// Appending, so that output that was cut starts again at the beginning.
Descriptor make_output() {
  Descriptor output(memfd_create("attest-output", MFD_CLOEXEC));
  fcntl(output.get(), F_SETFL, O_APPEND);
  return output;
}

Descriptor make_status_file() {
  Descriptor file(memfd_create("attest-status", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ftruncate(file.get(), sizeof(StatusPage)) != 0)
    throw Error("cannot create the status page");
  fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return file;
}

StatusPage* map_status(const Descriptor& file) {
  void* page = mmap(nullptr, sizeof(StatusPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (page == MAP_FAILED) throw Error("cannot map the status page");
  return static_cast<StatusPage*>(page);
}

pid_t spawn_supervisor(const fs::path& plugin, const WorkerOptions& options,
                       const int (&descriptors)[4]) {
  SpawnSetup setup;
  posix_spawn_file_actions_addopen(&setup.actions, 0, "/dev/null", O_RDONLY, 0);
  const auto [socket, page, control, output] = descriptors;
  for (const auto& [from, to] : {std::pair(output, 1),
                                 {output, 2},
                                 {socket, kWorkerSocket},
                                 {page, kWorkerStatus},
                                 {control, kWorkerControl}})
    posix_spawn_file_actions_adddup2(&setup.actions, from, to);
  // Its own process group: Ctrl-C reaches the harness alone.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setflags(&setup.attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&setup.attributes, &none);
  posix_spawnattr_setsigdefault(&setup.attributes, &all);
  const std::string executable = options.executable, path = plugin;
  const char* arguments[] = {"attest-worker", path.c_str(), options.cpus.c_str(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, executable.c_str(), &setup.actions, &setup.attributes,
                                const_cast<char**>(arguments), environ);
  if (error != 0) throw Error(fmt::format("cannot start {}: {}", executable, std::strerror(error)));
  return pid;
}

}  // namespace

std::string tidy(std::string text, size_t most) {
  if (text.size() > most) text.resize(most);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; }, ' ');
  return text;
}

fs::path find_worker() {
  if (const char* given = std::getenv("ATTEST_WORKER")) return given;
  for (const fs::path& candidate :
       {own_binary().parent_path() / "attest-worker", own_prefix() / "bin/attest-worker",
        own_prefix() / ATTEST_LIBEXECDIR "/attest/attest-worker"})
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  throw Error(
      "attest-worker is not beside this program nor in its prefix's libexec/attest; set "
      "ATTEST_WORKER to it");
}

Worker::Worker(const fs::path& plugin, const WorkerOptions& options)
    : status_file_(make_status_file()),
      output_(make_output()),
      status_(map_status(status_file_)),
      channel_(Descriptor()),
      shows_output_(options.shows_output) {
  bound_spinning();
  auto [ours, theirs] = socket_pair();
  auto [our_end, their_end] = socket_pair();
  const Descriptor socket = lifted(theirs.get()), page = lifted(status_file_.get()),
                   control = lifted(their_end.get()), output = lifted(output_.get());
  ooms_before_ = oom_kills();
  supervisor_ =
      spawn_supervisor(plugin, options, {socket.get(), page.get(), control.get(), output.get()});
  channel_ = Channel(std::move(ours));
  control_ = std::move(our_end);
}

void Worker::Unmap::operator()(StatusPage* page) const { munmap(page, sizeof(StatusPage)); }

Worker::~Worker() { end(); }

// Takes what the supervisor reports; false when nothing comes in time.
bool Worker::hear(double patience_s) {
  pollfd ready{control_.get(), POLLIN, 0};
  if (poll(&ready, 1, int(patience_s * 1e3)) <= 0) return false;
  SupervisorReport report;
  if (recv(control_.get(), &report, sizeof(report), MSG_WAITALL) == ssize_t(sizeof(report)))
    heard_ = report;
  else {
    heard_.ended = 1;
    heard_.how = SIGKILL;
  }  // the supervisor itself is gone, and its worker with it
  return true;
}

std::optional<int> Worker::ended(double patience_s) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(patience_s));
  while (!heard_.ended)
    if (!hear(std::max(0.0, std::chrono::duration<double>(deadline - Clock::now()).count())))
      return std::nullopt;
  return heard_.how;
}

void Worker::dismiss() { shutdown(control_.get(), SHUT_WR); }

int Worker::end() {
  if (supervisor_ < 0) return heard_.strays;
  dismiss();
  if (!ended(kEndPatience_s)) kill(supervisor_, SIGKILL);
  waitpid(supervisor_, nullptr, 0);
  supervisor_ = -1;
  take_output();
  return heard_.strays;
}

bool Worker::out_of_memory() const { return oom_kills() > ooms_before_; }

uint64_t Worker::libraries_hash() {
  if (heard_.worker == 0) hear(0);
  return heard_.worker == 0 ? 0 : hash_libraries(heard_.worker);
}

uint64_t Worker::resident_bytes() {
  if (heard_.worker == 0) hear(0);
  if (!memory_file_) {
    const std::string path = fmt::format("/proc/{}/statm", heard_.worker);
    memory_file_ = Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  char text[128] = {};  // pages: in all, resident, and others
  if (pread(memory_file_.get(), text, sizeof(text) - 1, 0) <= 0) return 0;
  char* resident = nullptr;
  std::strtoull(text, &resident, 10);
  return std::strtoull(resident, nullptr, 10) * uint64_t(sysconf(_SC_PAGESIZE));
}

std::string Worker::said() const {
  std::string text(kMostOutput, '\0');
  const off_t size = lseek(output_.get(), 0, SEEK_END);
  const ssize_t n =
      pread(output_.get(), text.data(), text.size(), std::max<off_t>(0, size - off_t(kMostOutput)));
  text.resize(size_t(std::max<ssize_t>(n, 0)));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return tidy(text, kMostOutput);
}

// Pages that were shown are given back to the system, but for the last ones, which said() reads.
void Worker::show_output() {
  constexpr off_t kKept = 1 << 16;
  char buffer[1 << 14];
  shown_bytes_ = std::min(shown_bytes_, lseek(output_.get(), 0, SEEK_END));  // it may truncate it
  for (ssize_t n; (n = pread(output_.get(), buffer, sizeof(buffer), shown_bytes_)) > 0;) {
    for (ssize_t written = 0; written < n;) {
      const ssize_t step = write(STDERR_FILENO, buffer + written, size_t(n - written));
      if (step <= 0) break;
      written += step;
    }
    shown_bytes_ += n;
  }
  if (shown_bytes_ > kKept)
    fallocate(output_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, shown_bytes_ - kKept);
}

uint64_t Worker::take_output() {
  if (shows_output_) {
    show_output();
    return 0;
  }
  const off_t size = lseek(output_.get(), 0, SEEK_END);
  if (size > kFlood && ftruncate(output_.get(), 0) == 0) cut_bytes_ += uint64_t(size);
  return cut_bytes_;
}

}  // namespace attest::core
