// naive_cuda: softmax attention on a CUDA device, one block a row, as plain as flash attention can
// be: it takes every feature that attest.hpp's views know, in float32, and is what quicker kernels
// are compared with.
#include "cuda/device_problem.cuh"
#include "cuda/reduce.cuh"

namespace {

constexpr int kThreads = 128;  // keys at a time, one a thread
constexpr int kChannels = 8;   // of O, a thread
constexpr float kHidden = -1;  // in place of a weight

/// One row of O and LSE.
template <class T>
__device__ void attend_row(const attest::Softmax<T>& a, int64_t b, int64_t h, int64_t i) {
  __shared__ float weights[kThreads];
  __shared__ attest::Cell cells[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const attest::Cell at = a.query(b, i);
  const attest::Keys keys = a.keys(b, i);
  const int64_t kv = a.kv_head(h);
  float sum[kChannels] = {}, top = -INFINITY, total = 0;
  for (int64_t begin = keys.begin; begin < keys.end; begin += kThreads) {
    const int64_t j = begin + thread;
    float logit = -INFINITY;
    if (j < keys.end) {
      const attest::Cell key = a.key(b, j);
      float dot = 0;
      for (int64_t d = 0; d < a.p.head_dim; ++d)
        dot = fmaf(static_cast<float>(a.q(at.batch, h, at.row, d)),
                   static_cast<float>(a.k(key.batch, kv, key.row, d)), dot);
      logit = a.logit(dot, b, h, i, j);
      cells[thread] = key;
    }
    const float peak =
        fmaxf(top, cuda::reduce<kThreads>(logit, [](float x, float y) { return fmaxf(x, y); }));
    const bool none = cuda::reduce<kThreads>(logit != logit ? 1.0f : 0.0f, [](float x, float y) {
                        return x + y;
                      }) == 0;                // fmaxf drops NaN
    if (peak == -INFINITY && none) continue;  // the same in every thread
    const float keep = expf(top - peak), weight = logit == -INFINITY ? 0 : expf(logit - peak);
    weights[thread] = logit == -INFINITY ? kHidden : weight;
    total = total * keep + cuda::reduce<kThreads>(weight, [](float x, float y) {
              return x + y;
            });  // its barriers make weights and cells seen
    for (int c = 0; c < kChannels; ++c) {
      const int64_t d = thread + int64_t{c} * kThreads;
      if (d >= a.p.head_dim_v) break;
      sum[c] = cuda::scaled(sum[c], keep);
      for (int n = 0; n < kThreads && begin + n < keys.end; ++n)
        if (weights[n] != kHidden)  // what is hidden may hold NaN
          sum[c] += cuda::scaled(static_cast<float>(a.v(cells[n].batch, kv, cells[n].row, d)),
                                 weights[n]);
    }
    top = peak;
    __syncthreads();  // before weights are written again
  }
  float keep = 1;
  if (a.sinks && total != 0) {
    const float peak = fmaxf(top, a.sink(h));
    keep = expf(top - peak);
    total = total * keep + expf(a.sink(h) - peak);
    top = peak;
  }
  for (int c = 0; c < kChannels; ++c) {
    const int64_t d = thread + int64_t{c} * kThreads;
    if (d < a.p.head_dim_v)
      a.o(at.batch, h, at.row, d) = total == 0 ? 0 : cuda::scaled(sum[c], keep / total);
  }
  if (a.lse && thread == 0) a.lse(at.batch, h, at.row) = total == 0 ? -INFINITY : top + logf(total);
}

template <class T>
__global__ void __launch_bounds__(kThreads) attend(const attest_problem* problem, cuda::Data data) {
  const attest::Softmax<T> a(*problem, data.at);
  const int64_t rows = a.p.batch * a.p.num_heads * a.p.seq_len_q;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t b = row / a.p.seq_len_q / a.p.num_heads, h = row / a.p.seq_len_q % a.p.num_heads,
                  i = row % a.p.seq_len_q;
    if (i < a.rows(b)) attend_row(a, b, h, i);
  }
}

class Naive {
 public:
  static constexpr attest::Info kInfo = {
      /*name=*/"naive_cuda",
      /*version=*/"1",
      /*summary=*/"one block a row, float32, every feature",
      /*operation=*/ATTEST_SOFTMAX,
      /*device=*/ATTEST_CUDA,
      /*dtypes=*/ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      /*features=*/ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
          ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS |
          ATTEST_WITH_MASK | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS |
          ATTEST_WITH_PAGES | ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES | ATTEST_WITH_GRID |
          ATTEST_WITH_REL_BIAS | ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE |
          ATTEST_WITH_UNALIGNED | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS};

  static const char* query(const attest_problem& problem, attest_support& support) {
    support.sum_chain = attest::params<attest_softmax_params>(problem).seq_len_kv;
    return attest::params<attest_softmax_params>(problem).head_dim_v > kThreads * kChannels
               ? "head_dim_v beyond 1024"
               : nullptr;
  }
  explicit Naive(const attest_problem& given) : problem(given), device_problem_(given) {}

  const attest_problem& problem;

  void run(void* const* data, void* /*workspace*/, void* stream) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const int64_t rows = p.batch * p.num_heads * p.seq_len_q;
    const unsigned blocks = cuda::grid(rows);
    const bool mixed = (problem.features & ATTEST_WITH_MIXED_DTYPE) != 0;
    const int32_t dtype = problem.tensor[ATTEST_Q].dtype;
    const auto queue = static_cast<cudaStream_t>(stream);
    const cuda::Data addresses(data);
    if (mixed)
      cuda::launch(attend<attest::Any>, blocks, kThreads, 0, queue, device_problem_.get(),
                   addresses);
    else if (dtype == ATTEST_F32)
      cuda::launch(attend<float>, blocks, kThreads, 0, queue, device_problem_.get(), addresses);
    else if (dtype == ATTEST_F16)
      cuda::launch(attend<attest::Half>, blocks, kThreads, 0, queue, device_problem_.get(),
                   addresses);
    else
      cuda::launch(attend<attest::BFloat16>, blocks, kThreads, 0, queue, device_problem_.get(),
                   addresses);
  }

 private:
  cuda::DeviceProblem device_problem_;
};

}  // namespace

ATTEST_PLUGIN(attest::table<Naive>())
