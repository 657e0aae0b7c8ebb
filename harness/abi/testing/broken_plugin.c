/* Plugins that no host can use, one for each definition: VERSION_TWO, NO_SYMBOL, SHORT_TABLE,
 * NULL_RUN, NO_TABLES. */
#include "attest.h"

static attest_status query(const attest_problem* problem, attest_support* support) {
  (void)problem;
  (void)support;
  return ATTEST_OK;
}
static attest_status create(const attest_problem* problem, void** plan) {
  (void)problem;
  (void)plan;
  return ATTEST_OK;
}
static attest_status run(void* plan, void* const* data, void* workspace, void* stream) {
  (void)plan;
  (void)data;
  (void)workspace;
  (void)stream;
  return ATTEST_OK;
}
static void destroy(void* plan) { (void)plan; }
static const char* last_error(void) { return ""; }

static attest_impl table = {.struct_size = sizeof(attest_impl),
                            .operation = ATTEST_SOFTMAX,
                            .dtypes = ATTEST_BIT(ATTEST_F32),
                            .name = "broken",
                            .version = "1",
                            .summary = "not to be used",
                            .query = query,
                            .create = create,
                            .run = run,
                            .destroy = destroy,
                            .last_error = last_error};

#if defined(VERSION_TWO)
#define attest_plugin_v1 attest_plugin_v2
__attribute__((visibility("default"))) const attest_impl* attest_plugin_v2(size_t index);
#elif defined(NO_SYMBOL)
#define attest_plugin_v1 some_other_function
const attest_impl* some_other_function(size_t index);
#endif

const attest_impl* attest_plugin_v1(size_t index) {
#if defined(SHORT_TABLE)
  table.struct_size = offsetof(attest_impl, run);
#elif defined(NULL_RUN)
  table.run = NULL;
#elif defined(NO_TABLES)
  return NULL;
#endif
  return index == 0 ? &table : NULL;
}
