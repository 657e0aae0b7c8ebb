/* dying.so: implementations of softmax attention that end their process, hang, or declare nonsense. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "attest.h"

static attest_status query(const attest_problem* problem, attest_support* support) { return (void)problem, (void)support, ATTEST_OK; }
static attest_status query_boast(const attest_problem* problem, attest_support* support) {
  return (void)problem, support->probability_rel_error = 1e30f, ATTEST_OK;
}
static attest_status query_unknown(const attest_problem* problem, attest_support* support) {
  return (void)problem, support->accumulator_dtype = 77, ATTEST_OK;
}
static attest_status create(const attest_problem* problem, void** plan) { return *plan = (void*)(uintptr_t)problem, ATTEST_OK; }
static void destroy(void* plan) { (void)plan; }
static const char* last_error(void) { return ""; }

#define RUN(name, ...)                                                                            \
  static attest_status run_##name(void* plan, void* const* data, void* workspace, void* stream) { \
    (void)plan, (void)data, (void)workspace, (void)stream;                                        \
    __VA_ARGS__                                                                                   \
    return ATTEST_OK;                                                                             \
  }
RUN(aborts, abort();)
RUN(exits, exit(0);)
RUN(signals, raise(SIGRTMIN + 1);)
RUN(hangs, for (;;) pause();)
RUN(shrinks, for (int fd = 3; fd < 256; ++fd) if (ftruncate(fd, 0) != 0) continue;)
RUN(nothing)

#define TABLE(name, query, run)                                                                                                \
  {sizeof(attest_impl), ATTEST_SOFTMAX, ATTEST_CPU, 0, ATTEST_BIT(ATTEST_F32), ATTEST_WITH_CAUSAL, "dying_" #name, "1", #name, \
   query, create, run, destroy, last_error}

const attest_impl* attest_plugin_v1(size_t index) {
  static const attest_impl tables[] = {
      TABLE(aborts, query, run_aborts),        TABLE(exits, query, run_exits),           TABLE(signals, query, run_signals),
      TABLE(hangs, query, run_hangs),          TABLE(shrinks, query, run_shrinks),       TABLE(boasts, query_boast, run_nothing),
      TABLE(unknown, query_unknown, run_nothing),
  };
  return index < sizeof tables / sizeof *tables ? &tables[index] : NULL;
}
