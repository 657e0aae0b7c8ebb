// Queries a plugin's first implementation for a problem, again for the same problem, and for
// problems that differ from it in one thing each. Prints a line for each query: the milliseconds it
// took, and what differs.
// usage: query_times PLUGIN
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

#include "attest.h"

typedef union Room {
  attest_softmax_params params;
  attest_problem problem;
  attest_support support;
  char bytes[ATTEST_ROOM];
} Room;

static Room params, problem, support;
static attest_tensor tensor[ATTEST_ROLES];

static void describe(void) {
  enum { kHeads = 4, kTokens = 200, kHeadDim = 64 };
  params.params = (attest_softmax_params){.struct_size = sizeof(attest_softmax_params),
                                          .batch = 1,
                                          .num_heads = kHeads,
                                          .num_kv_heads = kHeads,
                                          .seq_len_q = kTokens,
                                          .seq_len_kv = kTokens,
                                          .head_dim = kHeadDim,
                                          .head_dim_v = kHeadDim,
                                          .window_left = -1,
                                          .window_right = -1,
                                          .softmax_scale = 0.125f};
  for (int role = ATTEST_Q; role <= ATTEST_O; ++role)
    tensor[role] = (attest_tensor){.dtype = ATTEST_F16,
                                   .rank = 4,
                                   .access = role == ATTEST_O ? ATTEST_WRITE : ATTEST_READ,
                                   .dim = {1, kHeads, kTokens, kHeadDim},
                                   .stride = {0, (int64_t)kTokens * kHeadDim, kHeadDim, 1}};
  problem.problem = (attest_problem){.struct_size = sizeof(attest_problem),
                                     .operation = ATTEST_SOFTMAX,
                                     .params = &params,
                                     .tensor = tensor,
                                     .threads = 1};
}

static int query(const attest_impl* impl, const char* what) {
  struct timespec begin, end;
  support = (Room){.support = {.struct_size = sizeof(attest_support)}};
  timespec_get(&begin, TIME_UTC);
  const attest_status status = impl->query(&problem.problem, &support.support);
  timespec_get(&end, TIME_UTC);
  if (status != ATTEST_OK) {
    fprintf(stderr, "%s: %s\n", what, support.support.reason);
    return 1;
  }
  printf("%.3f %s\n",
         (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) * 1e-6,
         what);
  return 0;
}

int main(int argc, char** argv) {
  void* plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!plugin) {
    fprintf(stderr, "usage: query_times PLUGIN\n");
    return 64;
  }
  const attest_impl* (*table)(size_t) =
      (const attest_impl* (*)(size_t))dlsym(plugin, "attest_plugin_v1");
  const attest_impl* impl = table(0);
  describe();
  int failed = query(impl, "first") || query(impl, "same");
  params.params.softmax_scale = 0.25f;
  failed = failed || query(impl, "scale");
  tensor[ATTEST_Q].stride[1] *= 2;
  failed = failed || query(impl, "strides");
  for (int role = ATTEST_Q; role <= ATTEST_O; ++role) tensor[role].dtype = ATTEST_BF16;
  failed = failed || query(impl, "dtype");
  params.params.window_right = 0;
  problem.problem.features = ATTEST_WITH_CAUSAL;
  failed = failed || query(impl, "causal") || query(impl, "same");
  describe();
  problem.problem.features = 0;
  return failed || query(impl, "same");
}
