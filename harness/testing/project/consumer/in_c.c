/* The smallest plugin in C: one table that takes nothing. It tests only building and loading. */
#include <attest.h>

static attest_status query(const attest_problem* problem, attest_support* support) {
  (void)problem;
  (void)support;
  return ATTEST_UNSUPPORTED;
}
static attest_status create(const attest_problem* problem, void** plan) {
  (void)problem;
  *plan = NULL;
  return ATTEST_OK;
}
static attest_status run(void* plan, void* const* data, void* workspace, void* stream) {
  (void)plan;
  (void)data;
  (void)workspace;
  (void)stream;
  return ATTEST_RUNTIME_ERROR;
}
static void destroy(void* plan) { (void)plan; }
static const char* last_error(void) { return "not made to run"; }

const char* a_symbol_that_must_stay_inside(void) { return "inside"; }

const attest_impl* attest_plugin_v1(size_t index) {
  static const attest_impl table = {.struct_size = sizeof table,
                                    .operation = ATTEST_SOFTMAX,
                                    .device = ATTEST_CPU,
                                    .dtypes = ATTEST_BIT(ATTEST_F32),
                                    .name = "in_c",
                                    .version = "1",
                                    .summary = "takes nothing",
                                    .query = query,
                                    .create = create,
                                    .run = run,
                                    .destroy = destroy,
                                    .last_error = last_error};
  return index == 0 ? &table : NULL;
}
