/* The smallest useful plugin in C: attention by definition, f32, dense, with or without a causal
 * mask. This command builds it; -I names the folder of attest.h:
 *   cc -O2 -shared -fPIC -I.. -o plugin.so plugin.c -lm */
#include <math.h>

#include "attest.h"

static attest_status query(const attest_problem* problem, attest_support* support) {
  const attest_softmax_params* p = problem->params;
  support->workspace_bytes = sizeof(float) * (uint64_t)p->seq_len_kv; /* one row of scores */
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
  const attest_softmax_params* p = problem->params;
  float* score = workspace;
  (void)stream;
  /* Tensors are dense, so batch, head and query together are one index; so are batch and head. */
  for (int64_t row = 0; row < p->batch * p->num_heads * p->seq_len_q; ++row) {
    const int64_t i = row % p->seq_len_q, head = row / p->seq_len_q;
    const float* q = (const float*)data[ATTEST_Q] + row * p->head_dim;
    const float* k = (const float*)data[ATTEST_K] + head * p->seq_len_kv * p->head_dim;
    const float* v = (const float*)data[ATTEST_V] + head * p->seq_len_kv * p->head_dim;
    float *o = (float*)data[ATTEST_O] + row * p->head_dim, top = -INFINITY, total = 0;
    const int64_t keys = p->window_right == 0 && i + 1 < p->seq_len_kv ? i + 1 : p->seq_len_kv;
    for (int64_t j = 0; j < keys; ++j) {
      score[j] = 0;
      for (int64_t d = 0; d < p->head_dim; ++d)
        score[j] += p->softmax_scale * q[d] * k[j * p->head_dim + d];
      if (score[j] > top) top = score[j];
    }
    for (int64_t d = 0; d < p->head_dim; ++d) o[d] = 0;
    for (int64_t j = 0; j < keys; ++j) {
      const float weight = expf(score[j] - top);
      for (int64_t d = 0; d < p->head_dim; ++d) o[d] += weight * v[j * p->head_dim + d];
      total += weight;
    }
    for (int64_t d = 0; d < p->head_dim; ++d) o[d] /= total;
  }
  return ATTEST_OK;
}

const attest_impl* attest_plugin_v1(size_t index) {
  static const attest_impl table = {.struct_size = sizeof(attest_impl),
                                    .operation = ATTEST_SOFTMAX,
                                    .device = ATTEST_CPU,
                                    .dtypes = ATTEST_BIT(ATTEST_F32),
                                    .features = ATTEST_WITH_CAUSAL,
                                    .name = "plugin_c",
                                    .version = "1",
                                    .summary = "by definition, in C",
                                    .query = query,
                                    .create = create,
                                    .run = run,
                                    .destroy = destroy,
                                    .last_error = last_error};
  return index == 0 ? &table : NULL;
}
