// attest-worker: loads one plugin and does what the harness asks of it. It judges nothing.
//
// usage: attest-worker PLUGIN CPUS (started by the harness, with a socket, a status page and the
// supervisor's control socket on descriptors 3 to 5)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "core/isolation/messages/channel.hpp"
#include "core/isolation/messages/messages.hpp"
#include "core/isolation/status_page.hpp"
#include "core/isolation/supervisor.hpp"
#include "core/measure/machine/affinity.hpp"
#include "core/tensor/error.hpp"
#include "core/worker/executor.hpp"
#include "core/worker/faults.hpp"
#include "core/worker/loader.hpp"

namespace attest::core {
namespace {

// Whether descriptor kWorkerSocket still is the socket that it was: a plugin may have closed it,
// and opened a file there.
class SocketIdentity {
 public:
  SocketIdentity() { good_ = fstat(kWorkerSocket, &facts_) == 0; }
  bool holds() const {
    struct stat now{};
    return good_ && fstat(kWorkerSocket, &now) == 0 && now.st_ino == facts_.st_ino &&
           now.st_dev == facts_.st_dev;
  }

 private:
  struct stat facts_{};
  bool good_ = false;
};

// Runs through the allocator once, so that a heap that a call has corrupted shows while it is this
// call's.
void try_heap() {
  std::vector<std::unique_ptr<char[]>> pieces;
  for (size_t bytes = 24; bytes <= 256 << 10; bytes *= 2)
    pieces.push_back(std::make_unique_for_overwrite<char[]>(bytes));
}

Greeting greeting_of(const Executor& executor) {
  Greeting greeting{.tables = {}, .modes_at_load = executor.modes_changed_at_load(), .error = {}};
  for (const attest_impl& table : executor.tables())
    greeting.tables.push_back({.name = table.name,
                               .version = table.version,
                               .summary = table.summary,
                               .operation = table.operation,
                               .device = table.device,
                               .dtypes = table.dtypes,
                               .features = table.features});
  return greeting;
}

Reply answer(Executor& executor, std::span<const std::byte> message,
             const std::vector<Descriptor>& descriptors) {
  Reply reply;
  uint64_t sequence = 0;
  try {
    const Request request = unpack_request(message);
    sequence = request.sequence;
    reply = executor.execute(request, descriptors);
  } catch (const std::exception& error) {  // out of memory while mapping and the like
    reply.result = FailedStep{.message = error.what()};
  }
  try_heap();
  reply.sequence = sequence;
  return reply;
}

int serve(const char* plugin_path, const char* cpus) {
  void* page =
      mmap(nullptr, sizeof(StatusPage), PROT_READ | PROT_WRITE, MAP_SHARED, kWorkerStatus, 0);
  if (page == MAP_FAILED) {
    std::fprintf(stderr, "attest-worker is started by attest, not by hand\n");
    return 64;
  }
  close(kWorkerStatus);
  auto& status = *static_cast<StatusPage*>(page);
  note_faults(status);
  pin_process(cpus);

  const SocketIdentity connection;
  Channel channel{Descriptor(kWorkerSocket)};
  // Output is no terminal, so that printf would keep it to itself, and a crash would lose it.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  status.stage = Stage::kLoad;
  std::optional<Executor> executor;
  try {
    executor.emplace(plugin_path, status);
    channel.send(pack_message(greeting_of(*executor)));
  } catch (const Error& error) {
    channel.send(pack_message(Greeting{.tables = {}, .modes_at_load = "", .error = error.what()}));
    return 0;
  }
  for (;;) {
    status.stage = Stage::kIdle;
    std::vector<std::byte> message;
    std::vector<Descriptor> descriptors;
    if (!connection.holds()) return kLostConnection;
    if (channel.receive(message, descriptors, Clock::time_point::max()) !=
        Channel::Status::kMessage)
      return kLostConnection;
    const Reply reply = answer(*executor, message, descriptors);
    if (!connection.holds() || !channel.send(pack_message(reply))) return kLostConnection;
    executor->clean_up();
  }
}

}  // namespace
}  // namespace attest::core

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: attest-worker PLUGIN CPUS (started by attest, not by hand)\n");
    return 64;
  }
  if (fcntl(attest::core::kWorkerControl, F_GETFD) < 0) {
    std::fprintf(stderr, "attest-worker is started by attest, not by hand\n");
    return 64;
  }
  attest::core::start_supervisor();
  return attest::core::serve(argv[1], argv[2]);
}
