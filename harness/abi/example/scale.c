/* scale_cpu: y = factor * x, an implementation of the private operation `scale`. The operation
 * itself, which attest judges it by, has the same roles and parameters. */
#include "attest.h"

enum { X = ATTEST_OWN, Y };
typedef struct {
  uint32_t struct_size;
  float factor;
  int64_t rows, width;
} scale_params;

static attest_status query(const attest_problem* problem, attest_support* support) {
  (void)problem;
  (void)support; /* computes in float32, and needs no workspace */
  return ATTEST_OK;
}
static attest_status create(const attest_problem* problem, void** plan) {
  *plan = (void*)problem;
  return ATTEST_OK;
}
static void destroy(void* plan) { (void)plan; }
static const char* last_error(void) { return ""; }

static attest_status run(void* plan, void* const* data, void* workspace, void* stream) {
  const attest_problem* problem = plan;
  const scale_params* p = problem->params;
  const float* x = data[X];
  float* y = data[Y];
  (void)workspace;
  (void)stream;
  for (int64_t i = 0; i < p->rows * p->width; ++i) y[i] = p->factor * x[i];
  return ATTEST_OK;
}

const attest_impl* attest_plugin_v1(size_t index) {
  static const attest_impl table = {.struct_size = sizeof(attest_impl),
                                    .operation = ATTEST_PRIVATE,
                                    .device = ATTEST_CPU,
                                    .dtypes = ATTEST_BIT(ATTEST_F32),
                                    .name = "scale_cpu",
                                    .version = "1",
                                    .summary = "y = factor * x, in C",
                                    .query = query,
                                    .create = create,
                                    .run = run,
                                    .destroy = destroy,
                                    .last_error = last_error};
  return index == 0 ? &table : NULL;
}
