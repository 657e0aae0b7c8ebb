/* scale.so: implementations of the private operation y = factor * x. What each does besides is in
 * its name. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attest.h"

enum { X = ATTEST_OWN, Y };
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
static attest_status query_dies(const attest_problem* problem, attest_support* support) {
  (void)problem, (void)support;
  abort();
}

static attest_status create(const attest_problem* problem, void** plan) {
  scale_plan* made = malloc(sizeof *made);
  made->problem = problem;
  *plan = made;
  return ATTEST_OK;
}
static attest_status create_fails(const attest_problem* problem, void** plan) {
  (void)problem, (void)plan;
  return ATTEST_RUNTIME_ERROR;
}
static const char* last_error(void) { return "the scale is not to be had"; }

/* All rows times the factor, shifted by `skip` rows at the front, `less` at the end. */
static attest_status scale(const scale_plan* plan, void* const* data, int64_t skip, int64_t less,
                           float factor) {
  const scale_params* p = plan->problem->params;
  const attest_tensor *x = &plan->problem->tensor[X], *y = &plan->problem->tensor[Y];
  for (int64_t r = skip; r < p->rows - less; ++r)
    for (int64_t i = 0; i < p->width; ++i)
      ((float*)data[Y])[r * y->stride[0] + i * y->stride[1]] =
          factor * ((const float*)data[X])[r * x->stride[0] + i * x->stride[1]];
  return ATTEST_OK;
}
static float factor(const void* plan) {
  return ((const scale_params*)((const scale_plan*)plan)->problem->params)->factor;
}

#define RUN(name, ...)                                                                            \
  static attest_status run_##name(void* plan, void* const* data, void* workspace, void* stream) { \
    (void)plan, (void)data, (void)workspace, (void)stream;                                        \
    __VA_ARGS__                                                                                   \
  }
RUN(right, return scale(plan, data, 0, 0, factor(plan));)
RUN(wrong, return scale(plan, data, 0, 0, factor(plan) * 1.00001f);)
RUN(short, return scale(plan, data, 0, 1, factor(plan));)
RUN(zeros, memset(data[Y], 0,
                  sizeof(float) *
                      (size_t)((const scale_params*)((scale_plan*)plan)->problem->params)->rows *
                      (size_t)((const scale_params*)((scale_plan*)plan)->problem->params)->width);
    return ATTEST_OK;)
RUN(beyond, scale(plan, data, 0, 0, factor(plan));
    ((volatile float*)data[Y])[((scale_plan*)plan)->problem->tensor[Y].dim[0] *
                               ((scale_plan*)plan)->problem->tensor[Y].dim[1]] = 1;
    return ATTEST_OK;)
RUN(input, ((volatile float*)data[X])[5] = 1; return scale(plan, data, 0, 0, factor(plan));)
RUN(null, volatile uintptr_t nowhere = 16; *(volatile int*)nowhere = 1;
    return scale(plan, data, 0, 0, factor(plan));)
RUN(exits, _exit(0);)
RUN(hangs, for (;;) pause(); return scale(plan, data, 0, 0, 1);)
RUN(fails, return ATTEST_OUT_OF_MEMORY;)
RUN(talks, if (write(1, "\033[31mhello\n", 11) == 11) abort(); return scale(plan, data, 0, 0, 1);)

static void destroy(void* plan) { free(plan); }

#define TABLE(name, query, create) \
  {sizeof(attest_impl),            \
   ATTEST_PRIVATE,                 \
   ATTEST_CPU,                     \
   0,                              \
   ATTEST_BIT(ATTEST_F32),         \
   ATTEST_WITH_STRIDES,            \
   "scale_" #name,                 \
   "1",                            \
   "y = factor x, " #name,         \
   query,                          \
   create,                         \
   run_##name,                     \
   destroy,                        \
   last_error}

const attest_impl* attest_plugin_v1(size_t index) {
  static const attest_impl tables[] = {
      TABLE(right, query, create),
      TABLE(wrong, query, create),
      TABLE(short, query, create),
      TABLE(zeros, query, create),
      TABLE(beyond, query, create),
      TABLE(input, query, create),
      TABLE(null, query, create),
      TABLE(exits, query, create),
      TABLE(hangs, query, create),
      TABLE(fails, query, create),
      TABLE(talks, query, create),
      {sizeof(attest_impl), ATTEST_PRIVATE, ATTEST_CPU, 0, ATTEST_BIT(ATTEST_F32), 0, "scale_huge",
       "1", "asks for 32 TiB", query_huge, create, run_right, destroy, last_error},
      {sizeof(attest_impl), ATTEST_PRIVATE, ATTEST_CPU, 0, ATTEST_BIT(ATTEST_F32), 0,
       "scale_dies_in_query", "1", "aborts in query", query_dies, create, run_right, destroy,
       last_error},
      {sizeof(attest_impl), ATTEST_PRIVATE, ATTEST_CPU, 0, ATTEST_BIT(ATTEST_F32), 0,
       "scale_not_created", "1", "create fails", query, create_fails, run_right, destroy,
       last_error},
  };
  return index < sizeof tables / sizeof *tables ? &tables[index] : NULL;
}
