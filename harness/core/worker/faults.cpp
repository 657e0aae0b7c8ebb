#include "core/worker/faults.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <csignal>
#include <cstdlib>
#include <exception>

namespace attest::core {
namespace {

// Around the stack's lower end a fault means that it ran out: a frame may be large, and the system
// keeps a gap of a megabyte.
constexpr uint64_t kBelowStack = 16 << 20;
constexpr size_t kOwnStack_bytes = 64 << 10;

StatusPage* fault_status = nullptr;
uint64_t stack_begin = 0, stack_end = 0;
std::terminate_handler terminate_before = nullptr;

// The harness reads what is noted after the signal has killed.
void note_fault(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  const bool on_stack = address + kBelowStack >= stack_begin && address < stack_end;
  fault_status->fault_address = address;
  fault_status->fault = on_stack ? Fault::kStack : Fault::kAddress;
  std::signal(signal, SIG_DFL);
  raise(signal);
}

[[noreturn]] void note_exception() {
  if (std::current_exception()) fault_status->fault = Fault::kException;
  if (terminate_before) terminate_before();
  std::abort();
}

void find_stack() {
  pthread_attr_t attributes;
  void* begin = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &begin, &bytes) == 0) {
    stack_begin = reinterpret_cast<uint64_t>(begin);
    stack_end = stack_begin + bytes;
  }
  pthread_attr_destroy(&attributes);
}

}  // namespace

void note_faults(StatusPage& page) {
  fault_status = &page;
  find_stack();
  static char own_stack[kOwnStack_bytes];  // so that a stack overflow is noted too
  const stack_t alternate{.ss_sp = own_stack, .ss_flags = 0, .ss_size = sizeof(own_stack)};
  sigaltstack(&alternate, nullptr);
  struct sigaction action{};
  action.sa_sigaction = note_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
  terminate_before = std::set_terminate(note_exception);
}

}  // namespace attest::core
