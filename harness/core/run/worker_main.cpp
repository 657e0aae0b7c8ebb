// attest-worker: loads one plugin and does what the harness asks of it. It judges nothing.
//
// usage: attest-worker PLUGIN CPUS (started by the harness, with a socket and a status page on descriptors 3 and 4)
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/measure/affinity.hpp"
#include "core/run/channel.hpp"
#include "core/run/executor.hpp"
#include "core/run/loader.hpp"
#include "core/run/status_page.hpp"
#include "core/run/wire.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

StatusPage* status_page = nullptr;

// Notes the address and lets the signal kill: the harness reads both.
void note_fault(int signal, siginfo_t* info, void*) {
  status_page->fault_address = reinterpret_cast<uint64_t>(info->si_addr);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void catch_faults() {
  static char stack[64 << 10];  // its own stack, so that a stack overflow is noted too
  const stack_t alternate{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof(stack)};
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = note_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

nlohmann::json describe(const std::vector<attest_impl>& tables) {
  nlohmann::json list = nlohmann::json::array();
  for (const attest_impl& table : tables)
    list.push_back({{"name", table.name},
                    {"version", table.version},
                    {"summary", table.summary},
                    {"operation", table.operation},
                    {"device", table.device},
                    {"dtypes", table.dtypes},
                    {"features", table.features}});
  return list;
}

int serve(const char* plugin_path, const char* cpus) {
  void* page = mmap(nullptr, sizeof(StatusPage), PROT_READ | PROT_WRITE, MAP_SHARED, kWorkerStatus, 0);
  if (page == MAP_FAILED) return std::fprintf(stderr, "attest-worker is started by attest, not by hand\n"), 64;
  close(kWorkerStatus);
  status_page = static_cast<StatusPage*>(page);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  catch_faults();
  pin_process(cpus);

  Channel channel{Descriptor(kWorkerSocket)};
  status_page->stage = Stage::kLoad;
  std::optional<Executor> executor;
  try {
    executor.emplace(plugin_path, *status_page);
    channel.send({{word::kTables, describe(executor->tables())}, {"flushes_subnormals", executor->flushed_at_load()}});
  } catch (const Error& error) {
    channel.send({{word::kError, error.what()}});
    return 0;
  }
  for (;;) {
    status_page->stage = Stage::kIdle;
    nlohmann::json request;
    std::vector<Descriptor> descriptors;
    if (channel.receive(request, descriptors, Clock::time_point::max()) != Channel::Status::kMessage) return 0;
    nlohmann::json reply;
    try {
      reply = executor->execute(request, descriptors);
    } catch (const std::exception& error) {  // out of memory while mapping and the like
      reply = {{word::kStatus, ATTEST_RUNTIME_ERROR}, {word::kMessage, error.what()}};
    }
    if (!channel.send(reply)) return 0;
  }
}

}  // namespace
}  // namespace attest::core

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: attest-worker PLUGIN CPUS (started by attest, not by hand)\n"), 64;
  return attest::core::serve(argv[1], argv[2]);
}
