// hostile: softmax attention that is right, and harms its process besides. hostile_none and the
// honest_ ones do no harm: what they do looks like it. The library itself sets flush-to-zero when
// it is loaded, as fast-math start-up code does.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <cfenv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "attest.hpp"
#include "mutants/plain_attention.hpp"

namespace {

void flush_to_zero() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#elif defined(__aarch64__)
  __builtin_aarch64_set_fpcr(__builtin_aarch64_get_fpcr() | 1u << 24);
#endif
}
[[gnu::constructor]] void at_load() { flush_to_zero(); }

// Nothing outlives a test by more than this, even where nobody ends it.
constexpr int kMostSeconds = 60;
constexpr size_t kMostHog_bytes = size_t{1} << 30;

void wait_to_be_ended() {
  for (int i = 0; i < kMostSeconds * 10; ++i) usleep(100000);
}

// Processes write their number where a test looks for it.
void live_on() {
  if (const char* path = std::getenv("ATTEST_HOSTILE_PIDS")) {
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    const std::string line = std::to_string(getpid()) + "\n";
    if (write(file, line.data(), line.size()) < 0) _exit(1);
    close(file);
  }
  wait_to_be_ended();
  _exit(0);
}

[[gnu::noinline]] int deeper(int depth) {
  volatile char frame[4096];
  frame[0] = char(depth);
  return depth < 0 ? 0 : deeper(depth + 1) + frame[0];
}

// As if somebody chose another power mode while runs are timed: after more runs than are judged.
void change_mode() {
  static int runs = 0;
  const char* root = std::getenv("ATTEST_MACHINE_ROOT");
  if (++runs != 10 || !root) return;
  const std::string status = std::string(root) + "/var/lib/nvpmodel/status";
  if (std::FILE* file = std::fopen(status.c_str(), "w")) {
    std::fputs("pmode:0002\n", file);
    std::fclose(file);
  }
}

// As if the hardware throttled with every fifth run. The file is that of the made-up boards.
void throttle() {
  static int runs = 0;
  const char* root = std::getenv("ATTEST_MACHINE_ROOT");
  if (++runs % 5 != 0 || !root) return;
  const std::string counter =
      std::string(root) + "/sys/devices/platform/soctherm-oc-event/hwmon/hwmon2/oc2_event_cnt";
  if (std::FILE* file = std::fopen(counter.c_str(), "r+")) {
    int events = 0;
    if (std::fscanf(file, "%d", &events) == 1) {
      std::rewind(file);
      std::fprintf(file, "%d\n", events + 1);
    }
    std::fclose(file);
  }
}

void hog() {
  constexpr size_t kStep = size_t{16} << 20;
  for (size_t taken = 0; taken < kMostHog_bytes; taken += kStep) {
    void* memory = mmap(nullptr, kStep, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) break;
    std::memset(memory, 1, kStep);
  }
  wait_to_be_ended();
}

void flood() {
  const std::vector<char> text(1 << 16, 'x');
  for (int i = 0; i < 128; ++i)
    if (write(1 + i % 2, text.data(), text.size()) < 0) return;
}

void daemonise() {
  if (fork() != 0) return;
  setsid();
  if (fork() == 0) live_on();
  _exit(0);
}

void change_affinity() {
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof(cpus), &cpus);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &cpus)) continue;
    if (CPU_COUNT(&cpus) > 1) CPU_CLR(cpu, &cpus);
    break;
  }
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

void block_signals(bool all) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  if (all) sigfillset(&signals);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void corrupt_heap() {
  volatile char* piece = static_cast<char*>(std::malloc(24));
  for (int i = -16; i < 64; ++i) piece[i] = char(0x5a);
  std::free(const_cast<char*>(piece));
}

void write_late(float* o, int milliseconds) {
  std::thread([o, milliseconds, first = *o] {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    *static_cast<volatile float*>(o) = first;
  }).detach();
}

void throw_in_a_thread() {
  std::thread([]() { throw std::runtime_error("nobody catches this"); }).join();
}

uintptr_t zero() {
  volatile uintptr_t value = 0;
  return value;
}

int runs = 0, pool = 0, late_writes = 0;

struct Problem {
  const attest_problem& problem;
  float* o;
};
using Act = void (*)(const Problem&);

attest_status query(const attest_problem*, attest_support*) { return ATTEST_OK; }
attest_status query_boast(const attest_problem*, attest_support* support) {
  support->stage[ATTEST_SOFTMAX_PROBABILITY].rel_error = 1e30f;
  return ATTEST_OK;
}
attest_status query_unknown(const attest_problem*, attest_support* support) {
  support->stage[ATTEST_SOFTMAX_ACCUMULATOR].dtype = 77;
  return ATTEST_OK;
}
attest_status query_notes(const attest_problem*, attest_support* support) {
  std::memset(support->reason, 'x', sizeof support->reason);  // without an end
  support->reason[0] = '\x1b';
  return ATTEST_OK;
}
attest_status query_hang(const attest_problem*, attest_support*) {
  wait_to_be_ended();
  return ATTEST_OK;
}

attest_status create(const attest_problem* problem, void** plan) {
  *plan = const_cast<attest_problem*>(problem);
  return ATTEST_OK;
}
attest_status create_bound(const attest_problem* problem, void** plan) {
  change_affinity();
  block_signals(false);
  return create(problem, plan);
}
void destroy(void*) {}
const char* last_error() { return ""; }

template <Act kAct>
attest_status run(void* plan, void* const* data, void* /*workspace*/, void* /*stream*/) {
  const auto& problem = *static_cast<const attest_problem*>(plan);
  mutants::attend(attest::Softmax<float>(problem, data));
  ++runs;
  kAct({problem, static_cast<float*>(data[ATTEST_O])});
  return ATTEST_OK;
}

template <Act kAct>
constexpr attest_impl table(const char* name, decltype(&query) ask = query,
                            decltype(&create) make = create) {
  return {sizeof(attest_impl),
          ATTEST_SOFTMAX,
          ATTEST_CPU,
          0,
          ATTEST_BIT(ATTEST_F32),
          ATTEST_WITH_CAUSAL,
          name,
          "1",
          name,
          ask,
          make,
          run<kAct>,
          destroy,
          last_error};
}

#define ACT(...)             \
  [](const Problem& given) { \
    (void)given;             \
    __VA_ARGS__;             \
  }
using Unit = void (*)(const Problem&);

constexpr Unit kNothing = ACT();
constexpr Unit kSegfault = ACT(*reinterpret_cast<volatile int*>(zero() + uintptr_t{16}) = 1);
constexpr Unit kDivides =
    ACT(volatile uintptr_t quotient = 1 / zero(); (void)quotient; raise(SIGFPE));
constexpr Unit kIllegal = ACT(raise(SIGILL));
constexpr Unit kAborts = ACT(std::abort());
constexpr Unit kSignals = ACT(raise(SIGRTMIN + 1));
constexpr Unit kExits = ACT(std::exit(0));
constexpr Unit kLeaves = ACT(_exit(3));
constexpr Unit kStack = ACT(if (deeper(0) == 1) std::abort());
constexpr Unit kHangs = ACT(wait_to_be_ended());
constexpr Unit kHangsBlocked = ACT(block_signals(true); wait_to_be_ended());
// No case is judged on so many inputs.
constexpr Unit kHangsLater = ACT(if (runs > 40) wait_to_be_ended());
constexpr Unit kHogs = ACT(hog());
constexpr Unit kForks = ACT(for (int i = 0; i < 3; ++i) if (fork() == 0) live_on());
constexpr Unit kDaemon = ACT(daemonise(); usleep(20000));
constexpr Unit kForksAndDies = ACT(daemonise(); usleep(20000); std::abort());
constexpr Unit kFloods = ACT(flood());
constexpr Unit kPrints = ACT(std::printf("a kernel says hello\n"));
constexpr Unit kComplains =
    ACT(std::printf("a kernel says hello\n"); std::fputs("and goes\n", stderr); std::abort());
constexpr Unit kCloses = ACT(for (int fd = 0; fd < 256; ++fd) close(fd));
constexpr Unit kShrinks = ACT(for (int fd = 3; fd < 256; ++fd) if (ftruncate(fd, 0) != 0) continue);
constexpr Unit kThrows = ACT(throw std::runtime_error("the kernel lost its way"));
constexpr Unit kThreadThrows = ACT(throw_in_a_thread());
constexpr Unit kRounding = ACT(std::fesetround(FE_UPWARD));
constexpr Unit kFlush = ACT(flush_to_zero());
constexpr Unit kMask = ACT(block_signals(false));
constexpr Unit kAffinity = ACT(change_affinity());
constexpr Unit kThreads = ACT(std::thread(wait_to_be_ended).detach());
constexpr Unit kDescriptors = ACT(if (open("/dev/null", O_RDONLY) < 0) std::abort());
constexpr Unit kLate = ACT(write_late(given.o, 5));
// Writes to the first run's tensors while later runs go on.
constexpr Unit kLater = ACT(if (late_writes++ == 0) write_late(given.o, 15));
constexpr Unit kHeap = ACT(corrupt_heap());
constexpr Unit kMode = ACT(change_mode());
constexpr Unit kThrottle = ACT(throttle());
constexpr Unit kGarbage = ACT(if (write(3, "GET / HTTP/1.1\r\n", 16) < 0) std::abort());
// Threads that end some time after run, and use no tensor
constexpr Unit kHelpers =
    ACT(std::thread([] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }).detach());
constexpr Unit kPool =
    ACT(if (pool++ == 0) for (int i = 0; i < 6; ++i) std::thread(wait_to_be_ended).detach());

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  static const attest_impl tables[] = {
      table<kNothing>("hostile_none"),
      table<kPool>("honest_pool"),
      table<kHelpers>("honest_helpers"),
      table<kNothing>("honest_binds", query, create_bound),
      table<kPrints>("honest_prints"),
      table<kNothing>("hostile_notes", query_notes),
      table<kMode>("honest_mode"),
      table<kThrottle>("honest_throttle"),
      table<kSegfault>("hostile_segfault"),
      table<kDivides>("hostile_divides"),
      table<kIllegal>("hostile_illegal"),
      table<kAborts>("hostile_aborts"),
      table<kComplains>("hostile_complains"),
      table<kSignals>("hostile_signals"),
      table<kExits>("hostile_exits"),
      table<kLeaves>("hostile_leaves"),
      table<kStack>("hostile_stack"),
      table<kHangs>("hostile_hangs"),
      table<kHangsBlocked>("hostile_hangs_blocked"),
      table<kHangsLater>("hostile_hangs_later"),
      table<kNothing>("hostile_hangs_in_query", query_hang),
      table<kHogs>("hostile_hogs"),
      table<kForks>("hostile_forks"),
      table<kDaemon>("hostile_daemon"),
      table<kForksAndDies>("hostile_forks_and_dies"),
      table<kFloods>("hostile_floods"),
      table<kCloses>("hostile_closes"),
      table<kShrinks>("hostile_shrinks"),
      table<kThrows>("hostile_throws"),
      table<kThreadThrows>("hostile_thread_throws"),
      table<kRounding>("hostile_rounding"),
      table<kFlush>("hostile_flush"),
      table<kMask>("hostile_mask"),
      table<kAffinity>("hostile_affinity"),
      table<kThreads>("hostile_threads"),
      table<kDescriptors>("hostile_descriptors"),
      table<kLate>("hostile_late"),
      table<kLater>("hostile_later"),
      table<kHeap>("hostile_heap"),
      table<kGarbage>("hostile_garbage"),
      table<kNothing>("hostile_boasts", query_boast),
      table<kNothing>("hostile_unknown", query_unknown),
  };
  return index < sizeof tables / sizeof *tables ? &tables[index] : nullptr;
}
