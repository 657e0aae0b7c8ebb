#include "core/worker/faults.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "core/worker/symbols.hpp"

namespace attest::core {
namespace {

// Around the stack's lower end a fault means that it ran out: a frame may be large, and the system
// keeps a gap of a megabyte.
constexpr uint64_t kBelowStack = 16 << 20;
constexpr size_t kOwnStack_bytes = 64 << 10;

StatusPage* fault_status = nullptr;
uint64_t stack_begin = 0, stack_end = 0;
std::terminate_handler terminate_before = nullptr;

// A line of text that is put together without memory of the heap, which may be broken.
class Line {
 public:
  void add(const char* text, size_t most = sizeof(text_)) {
    for (; *text && size_ < sizeof(text_) && most > 0; ++text, --most) text_[size_++] = *text;
  }
  void add_hex(uint64_t value) {
    add("0x");
    int shift = 60;
    while (shift > 0 && value >> shift == 0) shift -= 4;
    for (; shift >= 0 && size_ < sizeof(text_); shift -= 4)
      text_[size_++] = "0123456789abcdef"[value >> shift & 15];
  }
  bool has_room() const { return size_ + 130 < sizeof(text_); }
  void write_out() const {
    if (write(STDERR_FILENO, text_, size_) < 0) return;
  }

 private:
  char text_[512];
  size_t size_ = 0;
};

// A call on the stack: a place in a library, and the function if the library exports it.
struct Frame {
  /// `returns`: the address is behind a call, which may be the last instruction of its function.
  explicit Frame(const void* address, bool returns = false) : at(address), behind(returns) {
    const char* const inside = static_cast<const char*>(at) - behind;
    ElfW(Sym)* symbol = nullptr;
    known = dladdr1(inside, &library, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) != 0;
    const uint64_t into = distance(library.dli_saddr) - behind;
    named = known && symbol && library.dli_sname && into < symbol->st_size;
  }
  uint64_t distance(const void* from) const {
    return reinterpret_cast<uint64_t>(at) - reinterpret_cast<uint64_t>(from);
  }
  const char* file() const {
    const char* slash = std::strrchr(library.dli_fname, '/');
    return slash ? slash + 1 : library.dli_fname;
  }

  const void* at;
  uint64_t behind;  // bytes
  Dl_info library{};
  bool known = false, named = false;
};

constexpr size_t kMostName = 80;  // names of templates have no end

// "mine.so+0x1139 (crash_here)". A stripped library has no names but those that it exports.
void add_frame(Line& line, const Frame& frame) {
  line.add(frame.file());
  line.add("+");
  line.add_hex(frame.distance(frame.library.dli_fbase));
  const SymbolTable hidden(frame.named ? "" : frame.library.dli_fname);
  const char* const name =
      frame.named ? frame.library.dli_sname
                  : hidden.function_at(frame.distance(frame.library.dli_fbase) - frame.behind);
  if (!name) return;
  line.add(" (");
  line.add(name, kMostName);
  line.add(")");
}

// The calls from the worker's into the plugin to the last one, which comes first, in one line on
// standard error. Functions inside the C library are left out.
void write_stack() {
  constexpr int kMost = 48;
  void* frames[kMost];
  const int count = backtrace(frames, kMost);
  const Frame own(reinterpret_cast<void*>(&write_stack));
  Line line;
  const void* shown = nullptr;
  int interrupted = count;  // the frame that the signal came upon; the system's own is before it
  for (int i = 0; i < count && line.has_room(); ++i) {
    const Frame frame(frames[i], i > interrupted);
    if (frame.known && frame.library.dli_fbase == own.library.dli_fbase) {
      if (shown) break;
      interrupted = i + 2;
      continue;  // the handler
    }
    const bool is_inside_libc =
        !frame.known || (!frame.named && !std::strncmp(frame.file(), "libc.", 5));
    if (is_inside_libc || frames[i] == shown) continue;  // a recursion is shown once
    line.add(shown ? " < " : "\nstack: ");
    add_frame(line, frame);
    shown = frames[i];
  }
  if (!shown) return;
  line.add("\n");
  line.write_out();
}

std::atomic<int> first_signal{0};

[[noreturn]] void die_of(int signal) {
  std::signal(signal, SIG_DFL);
  raise(signal);
  _exit(128 + signal);
}

// Shows where the process was, then lets it die of the signal. A fault in this, or a lock that is
// held, must not change what it dies of.
[[noreturn]] void die_with_stack(int signal) {
  constexpr unsigned kPatience_s = 2;
  if (int none = 0; !first_signal.compare_exchange_strong(none, signal)) die_of(first_signal);
  std::signal(SIGALRM, [](int) { die_of(first_signal); });
  alarm(kPatience_s);
  write_stack();
  die_of(signal);
}

// The harness reads what is noted after the signal has killed.
void note_fault(int signal, siginfo_t* info, void*) {
  if (first_signal == 0) {
    const auto address = reinterpret_cast<uint64_t>(info->si_addr);
    const bool on_stack = address + kBelowStack >= stack_begin && address < stack_end;
    fault_status->fault_address = address;
    fault_status->fault = on_stack ? Fault::kStack : Fault::kAddress;
  }
  die_with_stack(signal);
}

void note_signal(int signal) { die_with_stack(signal); }

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
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs, which a handler cannot
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  action.sa_handler = note_signal;
  for (const int signal : {SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
  terminate_before = std::set_terminate(note_exception);
}

}  // namespace attest::core
