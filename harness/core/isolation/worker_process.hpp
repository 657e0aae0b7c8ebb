// A worker process, as the harness sees it: starts it, exchanges messages with it, watches it and
// ends it. It does not interpret the messages.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/isolation/limits.hpp"
#include "core/isolation/memory/buffers.hpp"
#include "core/isolation/messages/channel.hpp"
#include "core/isolation/status_page.hpp"

namespace attest::core {

struct WorkerOptions {
  std::filesystem::path executable;  // attest-worker
  std::string cpus;                  // "0,1": CPUs that the worker may use; empty: all
  Limits limits;
  bool shows_output = false;      // pass on what it writes to standard output and error
  bool (*cancelled)() = nullptr;  // asked while waiting: true ends the call
};

/// attest-worker beside this program or in the libexec of its prefix, or $ATTEST_WORKER. Throws
/// Error when there is none.
std::filesystem::path find_worker();

class Worker {
 public:
  /// Starts a process for the library at `plugin`, without waiting for it. Throws Error when the
  /// system refuses.
  Worker(const std::filesystem::path& plugin, const WorkerOptions& options);
  /// Ends it and whatever it started.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Channel& channel() { return channel_; }
  const StatusPage& status() const { return *status_; }
  /// Asks paced runs to end, or takes that back for those of the next request.
  void ask_to_stop(bool stop) { status_->stop = stop ? 1 : 0; }

  /// How it ended, as waitpid says, if it does so within `patience_s`.
  std::optional<int> ended(double patience_s);
  /// Tells it to end, with all that it started, and does not wait for that; the destructor does.
  void dismiss();
  /// Ends it now, with all that it started; how many processes it had started and not waited for.
  int end();
  /// Whether the system ended a process for lack of memory since it was started.
  bool out_of_memory() const;
  /// Every file that it has mapped to be executed, as one hash (libraries.hpp); 0: gone.
  uint64_t libraries_hash();
  /// Resident, shared memory included; 0: gone.
  uint64_t resident_bytes();

  /// The last words of its output, on one line.
  std::string said() const;
  /// With WorkerOptions::shows_output, writes new output to standard error. Otherwise returns how
  /// many bytes of output beyond a megabyte were cut so far.
  uint64_t take_output();

 private:
  struct Unmap {
    void operator()(StatusPage* page) const;
  };
  bool hear(double patience_s);
  void show_output();

  Descriptor status_file_, output_;
  std::unique_ptr<StatusPage, Unmap> status_;
  Descriptor control_;
  Descriptor memory_file_;  // statm of the worker, once it was asked for
  Channel channel_;
  pid_t supervisor_ = -1;
  SupervisorReport heard_{};
  uint64_t cut_bytes_ = 0, ooms_before_ = 0;
  bool shows_output_ = false;
  off_t shown_bytes_ = 0;
};

/// Text of a plugin, fit for a terminal and a record: printable, one line, not endless.
std::string tidy(std::string text, size_t most);

}  // namespace attest::core
