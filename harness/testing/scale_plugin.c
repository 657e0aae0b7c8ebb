/* scale.so: implementations of the private operation y = factor * x. The name of each says what
 * else it does. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attest.h"

enum { X = ATTEST_OWN, Y };
enum { OPERAND }; /* the stages */
typedef struct {
  uint32_t struct_size;
  float factor;
  int64_t rows, width;
} scale_params;

typedef struct {
  const attest_problem* problem;
} scale_plan;

static attest_status query(const attest_problem* problem, attest_support* support) {
  if (((const scale_params*)problem->params)->width > 4096) {
    strcpy(support->reason, "width is more than 4096");
    return ATTEST_UNSUPPORTED;
  }
  return ATTEST_OK;
}
static attest_status query_huge(const attest_problem* problem, attest_support* support) {
  (void)problem;
  support->workspace_bytes = UINT64_C(1) << 45;
  return ATTEST_OK;
}
static attest_status query_bf16(const attest_problem* problem, attest_support* support) {
  support->stage[OPERAND].dtype = ATTEST_BF16;
  return query(problem, support);
}
static attest_status query_lost(const attest_problem* problem, attest_support* support) {
  support->stage[OPERAND + 1].dtype = ATTEST_BF16; /* which the operation does not have */
  return query(problem, support);
}
static attest_status query_dies(const attest_problem* problem, attest_support* support) {
  (void)problem;
  (void)support;
  abort();
}

static attest_status create(const attest_problem* problem, void** plan) {
  scale_plan* made = malloc(sizeof *made);
  made->problem = problem;
  *plan = made;
  return ATTEST_OK;
}
static attest_status create_fails(const attest_problem* problem, void** plan) {
  (void)problem;
  (void)plan;
  return ATTEST_RUNTIME_ERROR;
}
static const char* last_error(void) { return "the scale is not to be had"; }

static const attest_problem* problem_of(const void* plan) {
  return ((const scale_plan*)plan)->problem;
}
static const scale_params* params_of(const void* plan) { return problem_of(plan)->params; }

static float same(float x) { return x; }
static float to_bf16(float x) { /* to nearest, ties to even; of finite numbers */
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* y = factor * operand(x) on all rows, except `skip` rows at the front and `less` at the end. */
static attest_status scale_rounded(const void* plan, void* const* data, int64_t skip, int64_t less,
                                   float factor, float (*operand)(float)) {
  const scale_params* p = params_of(plan);
  const attest_tensor *x = &problem_of(plan)->tensor[X], *y = &problem_of(plan)->tensor[Y];
  const float* from = data[X];
  float* to = data[Y];
  for (int64_t r = skip; r < p->rows - less; ++r)
    for (int64_t i = 0; i < p->width; ++i)
      to[r * y->stride[0] + i * y->stride[1]] =
          factor * operand(from[r * x->stride[0] + i * x->stride[1]]);
  return ATTEST_OK;
}
static attest_status scale(const void* plan, void* const* data, int64_t skip, int64_t less,
                           float factor) {
  return scale_rounded(plan, data, skip, less, factor, same);
}
static attest_status scale_all(const void* plan, void* const* data) {
  return scale(plan, data, 0, 0, params_of(plan)->factor);
}

/* Writes an int where no plugin may. */
static void write_to_nowhere(void) {
  volatile uintptr_t nowhere = 16;
  *(volatile int*)nowhere = 1;
}
static void write_zeros(const void* plan, float* y) {
  memset(y, 0, sizeof *y * (size_t)params_of(plan)->rows * (size_t)params_of(plan)->width);
}
static void write_beyond(const void* plan, volatile float* y) {
  const attest_tensor* spec = &problem_of(plan)->tensor[Y];
  y[spec->dim[0] * spec->dim[1]] = 1;
}

#define RUN(name, ...)                                                                            \
  static attest_status run_##name(void* plan, void* const* data, void* workspace, void* stream) { \
    (void)plan, (void)data, (void)workspace, (void)stream;                                        \
    __VA_ARGS__                                                                                   \
  }
RUN(right, return scale_all(plan, data);)
RUN(wrong, return scale(plan, data, 0, 0, params_of(plan)->factor * 1.00001f);)
RUN(short, return scale(plan, data, 0, 1, params_of(plan)->factor);)
RUN(bf16, return scale_rounded(plan, data, 0, 0, params_of(plan)->factor, to_bf16);)
RUN(zeros, write_zeros(plan, data[Y]); return ATTEST_OK;)
RUN(beyond, scale_all(plan, data); write_beyond(plan, data[Y]); return ATTEST_OK;)
RUN(input, ((volatile float*)data[X])[5] = 1; return scale_all(plan, data);)
RUN(null, write_to_nowhere(); return scale_all(plan, data);)
RUN(exits, _exit(0);)
RUN(hangs, for (;;) pause(); return scale(plan, data, 0, 0, 1);)
RUN(fails, return ATTEST_OUT_OF_MEMORY;)
RUN(talks, if (write(1, "\033[31mhello\n", 11) == 11) abort(); return scale(plan, data, 0, 0, 1);)

static void destroy(void* plan) { free(plan); }

#define TABLE(name, features, summary, query, create, run) \
  {sizeof(attest_impl),                                    \
   ATTEST_PRIVATE,                                         \
   ATTEST_CPU,                                             \
   0,                                                      \
   ATTEST_BIT(ATTEST_F32),                                 \
   features,                                               \
   "scale_" name,                                          \
   "1",                                                    \
   summary,                                                \
   query,                                                  \
   create,                                                 \
   run,                                                    \
   destroy,                                                \
   last_error}
#define STRIDED(name) \
  TABLE(#name, ATTEST_WITH_STRIDES, "y = factor x, " #name, query, create, run_##name)

const attest_impl* attest_plugin_v1(size_t index) {
  static const attest_impl tables[] = {
      STRIDED(right),
      STRIDED(wrong),
      STRIDED(short),
      STRIDED(zeros),
      STRIDED(beyond),
      STRIDED(input),
      STRIDED(null),
      STRIDED(exits),
      STRIDED(hangs),
      STRIDED(fails),
      STRIDED(talks),
      TABLE("bf16", 0, "rounds x to bf16 and declares it", query_bf16, create, run_bf16),
      TABLE("bf16_undeclared", 0, "rounds x to bf16", query, create, run_bf16),
      TABLE("declares_lost", 0, "declares a stage that there is not", query_lost, create,
            run_right),
      TABLE("huge", 0, "asks for 32 TiB", query_huge, create, run_right),
      TABLE("dies_in_query", 0, "aborts in query", query_dies, create, run_right),
      TABLE("not_created", 0, "create fails", query, create_fails, run_right),
  };
  return index < sizeof tables / sizeof *tables ? &tables[index] : NULL;
}
