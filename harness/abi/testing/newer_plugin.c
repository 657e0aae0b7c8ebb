/* newer_header.so: the C example as built with a newer header. It reads fields that this host does
 * not know, which must be 0. Its support and its table are longer than this host's. */
#include "attest_newer.h" /* its guard keeps attest.h out */

#define attest_plugin_v1 example_table
#include "../example/plugin.c"
#undef attest_plugin_v1

static attest_status query_newer(const attest_problem* problem, attest_support* support) {
  const attest_softmax_params* p = problem->params;
  if (p->num_scales != 0 || problem->deadline_ns != 0 ||
      problem->tensor[ATTEST_KEY_SCALES].dtype != ATTEST_NONE)
    return ATTEST_INVALID_PROBLEM;
  for (int n = 0; n < 64; ++n) support->energy_joules[n] = 1;
  return query(problem, support);
}
static attest_status run_newer(void* plan, void* const* data, void* workspace, void* stream) {
  return data[ATTEST_KEY_SCALES] ? ATTEST_INVALID_PROBLEM : run(plan, data, workspace, stream);
}
static attest_status tune(void* plan) {
  (void)plan;
  return ATTEST_OK;
}

const attest_impl* attest_plugin_v1(size_t index) {
  static attest_impl table;
  table = *example_table(0);
  table.name = "newer_header";
  table.features |= ATTEST_WITH_KEY_SCALES;
  table.query = query_newer;
  table.run = run_newer;
  table.tune = tune;
  return index == 0 ? &table : NULL;
}
