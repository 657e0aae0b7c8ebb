// linear_cpu: linear attention with phi = elu + 1 (LoFTR), O(tokens * head_dim * head_dim_v), in
// float32, SIMD and threads. Pass one sums phi(k)^T v into a state a chunk of keys, pass two adds
// the chunks in their order, pass three reads the state out for each query. The chunks follow from
// the sizes alone, so that any number of threads gives the same bits.
#include <omp.h>

#include <algorithm>

#include "attest.hpp"
#include "simd/linear/linear.hpp"
#include "simd/sizes.hpp"
#include "simd/storage.hpp"

namespace {

const attest_linear_params& params(const attest_problem& problem) {
  return *static_cast<const attest_linear_params*>(problem.params);
}

struct LinearCpu {
  static constexpr attest::Info kInfo{
      .name = "linear_cpu",
      .version = "1",
      .summary = "linear attention (elu + 1) in float32, SIMD and threads",
      .operation = ATTEST_LINEAR,
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_MASK |
                  ATTEST_WITH_QUERY_MASK | ATTEST_WITH_STRIDES | ATTEST_WITH_UNALIGNED};
  static constexpr int64_t kMaxHeadDim = 512, kMaxChunks = 64, kMinChunk = 2048, kQueries = 1024;

  const attest_problem& problem;

  struct Plan {
    int64_t chunk, chunks;  // keys of a chunk, chunks of a key head
    int64_t state;          // floats of one state
    size_t scratch_bytes;   // of one thread
    size_t workspace_bytes;
  };
  static Plan plan(const attest_problem& problem) {
    const attest_linear_params& p = params(problem);
    const int64_t tile = impls::kLinearTile;
    Plan plan;
    const int64_t chunks =
        std::clamp<int64_t>((p.seq_len_kv + kMinChunk - 1) / kMinChunk, 1, kMaxChunks);
    plan.chunk = ((p.seq_len_kv + chunks - 1) / chunks + tile - 1) / tile * tile;
    plan.chunks = (p.seq_len_kv + plan.chunk - 1) / plan.chunk;
    plan.state = impls::round_up(impls::linear_state_floats(p.head_dim, p.head_dim_v), 64);
    plan.scratch_bytes = impls::linear_scratch_bytes(p.head_dim, p.head_dim_v);
    plan.workspace_bytes =
        static_cast<size_t>(p.batch * p.num_kv_heads * plan.chunks * plan.state) * 4 +
        static_cast<size_t>(problem.threads) * plan.scratch_bytes;
    return plan;
  }

  static const char* query(const attest_problem& problem, attest_support& support) {
    const attest_linear_params& p = params(problem);
    if (p.feature_map != 0) return "a feature map other than elu + 1";
    if (p.head_dim > kMaxHeadDim || p.head_dim_v > kMaxHeadDim)
      return "head_dim or head_dim_v above 512";
    for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
      const attest_tensor& t = problem.tensor[role];
      if (t.dim[3] > 1 && t.stride[3] != 1)
        return "the elements of a row of Q, K, V or O are not contiguous";
    }
    const Plan work = plan(problem);
    support.stage[ATTEST_LINEAR_FEATURES].rel_error = impls::kExp2Error;
    support.sum_chain = impls::kLinearTile + work.chunk / impls::kLinearTile + work.chunks;
    support.workspace_bytes = work.workspace_bytes;
    return nullptr;
  }

  impls::LinearSlice slice(void* const* data, int64_t b, int64_t h) const {
    const attest_linear_params& p = params(problem);
    const attest_tensor* const t = problem.tensor;
    const int64_t kv_head = h / (p.num_heads / p.num_kv_heads),
                  size = t[ATTEST_Q].dtype == ATTEST_F32 ? 4 : 2;
    const auto at = [&](int role, int64_t head, int64_t bytes) {
      return static_cast<char*>(data[role]) +
             (b * t[role].stride[0] + head * t[role].stride[1]) * bytes;
    };
    impls::LinearSlice s;
    s.dtype = t[ATTEST_Q].dtype;
    s.q = at(ATTEST_Q, h, size);
    s.k = at(ATTEST_K, kv_head, size);
    s.v = at(ATTEST_V, kv_head, size);
    s.o = at(ATTEST_O, h, size);
    s.q_stride = t[ATTEST_Q].stride[2];
    s.k_stride = t[ATTEST_K].stride[2];
    s.v_stride = t[ATTEST_V].stride[2];
    s.o_stride = t[ATTEST_O].stride[2];
    if (data[ATTEST_MASK] != nullptr) {
      s.mask = reinterpret_cast<const uint8_t*>(at(ATTEST_MASK, 0, 1));
      s.mask_stride = t[ATTEST_MASK].stride[3];
    }
    if (data[ATTEST_QUERY_MASK] != nullptr) {
      s.query_mask = reinterpret_cast<const uint8_t*>(at(ATTEST_QUERY_MASK, 0, 1));
      s.query_mask_stride = t[ATTEST_QUERY_MASK].stride[2];
    }
    s.head_dim = p.head_dim;
    s.head_dim_v = p.head_dim_v;
    s.eps = p.eps;
    return s;
  }

  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) const {
    const attest_linear_params& p = params(problem);
    const Plan work = plan(problem);
    const int64_t repeat = p.num_heads / p.num_kv_heads, kv_heads = p.batch * p.num_kv_heads;
    const int64_t parts = (p.seq_len_q + kQueries - 1) / kQueries;
    float* const states = static_cast<float*>(workspace);
    char* const scratches = static_cast<char*>(workspace) + kv_heads * work.chunks * work.state * 4;
#pragma omp parallel num_threads(problem.threads)
    {
      void* const scratch =
          scratches + static_cast<size_t>(omp_get_thread_num()) * work.scratch_bytes;
#pragma omp for schedule(dynamic, 1)
      for (int64_t task = 0; task < kv_heads * work.chunks; ++task) {
        const int64_t head = task / work.chunks, begin = task % work.chunks * work.chunk;
        const impls::Range keys{begin, std::min(begin + work.chunk, p.seq_len_kv)};
        impls::sum_keys(slice(data, head / p.num_kv_heads, head % p.num_kv_heads * repeat), keys,
                        states + task * work.state, scratch);
      }
#pragma omp for schedule(static)
      for (int64_t head = 0; head < kv_heads; ++head) {
        float* const state = states + head * work.chunks * work.state;
        for (int64_t n = 1; n < work.chunks; ++n)
          for (int64_t i = 0; i < work.state; ++i) state[i] += state[n * work.state + i];
      }
#pragma omp for schedule(dynamic, 1)
      for (int64_t task = 0; task < p.batch * p.num_heads * parts; ++task) {
        const int64_t head = task / parts, b = head / p.num_heads, h = head % p.num_heads,
                      begin = task % parts * kQueries;
        const int64_t kv_head = b * p.num_kv_heads + h / repeat;
        impls::read_queries(slice(data, b, h), {begin, std::min(begin + kQueries, p.seq_len_q)},
                            states + kv_head * work.chunks * work.state, scratch);
      }
    }
  }
};

}  // namespace

ATTEST_PLUGIN(attest::table<LinearCpu>())
