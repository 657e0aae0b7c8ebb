// cublas_cuda: what one writes who has a matrix product: scores by cuBLAS, a softmax over each row,
// values by cuBLAS. The score matrix is in memory, some heads or rows of it at a time.
//
// A hidden key has a weight of 0, and 0 times NaN is NaN: where V holds what is not finite, rows
// that see a part of the keys are computed anew without the library.
#include "cuda/cublas.hpp"
#include "cuda/device_problem.cuh"
#include "cuda/matmul_plan.hpp"
#include "cuda/reduce.cuh"

#ifndef ATTEST_MATMUL_BYTES
#define ATTEST_MATMUL_BYTES (int64_t{1} << 30)
#define ATTEST_MATMUL_THREADS 256
#endif

namespace {

constexpr int kThreads = ATTEST_MATMUL_THREADS;

/// Which rows a step has: head `first_head` of all batch * num_heads and the following ones, rows
/// first_row and the following ones. Its scores, and weights, have row_stride elements from row to
/// row.
struct Step {
  int64_t first_head, heads, first_row, rows, row_stride;
};

/// A row of dot products becomes a row of weights, divided by their sum, and LSE is written. The
/// row is read twice: for its largest logit, with the sum so far rescaled where that grows, and for
/// the weights.
template <class T>
__device__ void weigh_row(const attest::Softmax<T>& a, int64_t b, int64_t h, int64_t i,
                          const float* scores, T* weights) {
  const attest::Keys keys = a.keys(b, i);
  float own_top = -INFINITY, own_sum = 0, seen = 0;
  for (int64_t j = keys.begin + threadIdx.x; j < keys.end; j += kThreads) {
    const float logit = a.logit(scores[j], b, h, i, j);
    if (logit == -INFINITY) continue;
    if (logit > own_top) {
      own_sum *= expf(own_top - logit);
      own_top = logit;
    }
    own_sum += expf(logit - own_top);
    seen += 1;
  }
  const auto larger = [](float x, float y) { return fmaxf(x, y); };
  const auto sum = [](float x, float y) { return x + y; };
  float top = cuda::reduce<kThreads>(own_top, larger);
  const bool none = cuda::reduce<kThreads>(seen, sum) == 0;
  if (!none) top = fmaxf(top, a.sink(h));
  float total = cuda::reduce<kThreads>(own_sum != 0 ? own_sum * expf(own_top - top) : 0.0f, sum);
  if (!none) total += expf(a.sink(h) - top);
  for (int64_t j = threadIdx.x; j < a.p.seq_len_kv; j += kThreads) {
    const bool hidden = none || j < keys.begin || j >= keys.end;
    const float logit = hidden ? -INFINITY : a.logit(scores[j], b, h, i, j);
    weights[j] = logit == -INFINITY ? 0.0f : expf(logit - top) / total;
  }
  if (a.lse && threadIdx.x == 0) a.lse(b, h, i) = none ? -INFINITY : top + logf(total);
}

template <class T>
__global__ void __launch_bounds__(kThreads) weigh(const attest_problem* problem, cuda::Data data,
                                                  Step step, const float* scores, T* weights) {
  const attest::Softmax<T> a(*problem, data.at);
  for (int64_t row = blockIdx.x; row < step.heads * step.rows; row += gridDim.x) {
    const int64_t head = step.first_head + row / step.rows, i = step.first_row + row % step.rows;
    weigh_row(a, head / a.p.num_heads, head % a.p.num_heads, i, scores + row * step.row_stride,
              weights + row * step.row_stride);
  }
}

/// Sets *odd where V has an infinity or NaN.
template <class T>
__global__ void __launch_bounds__(kThreads)
    find_odd(const attest_problem* problem, cuda::Data data, int* odd) {
  const attest::Softmax<T> a(*problem, data.at);
  const int64_t rows = a.p.batch * a.p.num_kv_heads * a.p.seq_len_kv;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t b = row / a.p.seq_len_kv / a.p.num_kv_heads,
                  h = row / a.p.seq_len_kv % a.p.num_kv_heads;
    for (int64_t d = threadIdx.x; d < a.p.head_dim_v; d += kThreads) {
      const float value = static_cast<float>(a.v(b, h, row % a.p.seq_len_kv, d));
      if (!(fabsf(value) < INFINITY)) *odd = 1;
    }
  }
}

/// O anew from the weights, without what has a weight of 0, if V has odd values.
template <class T>
__global__ void __launch_bounds__(kThreads) mend(const attest_problem* problem, cuda::Data data,
                                                 Step step, const T* weights, const int* odd) {
  if (*odd == 0) return;
  const attest::Softmax<T> a(*problem, data.at);
  for (int64_t row = blockIdx.x; row < step.heads * step.rows; row += gridDim.x) {
    const int64_t head = step.first_head + row / step.rows, i = step.first_row + row % step.rows;
    const int64_t b = head / a.p.num_heads, h = head % a.p.num_heads;
    for (int64_t d = threadIdx.x; d < a.p.head_dim_v; d += kThreads) {
      float sum = 0;
      for (int64_t j = 0; j < a.p.seq_len_kv; ++j) {
        const float weight = static_cast<float>(weights[row * step.row_stride + j]);
        if (weight != 0) sum = fmaf(weight, static_cast<float>(a.v(b, a.kv_head(h), j, d)), sum);
      }
      a.o(b, h, i, d) = sum;
    }
  }
}

class Matmul {
 public:
  static constexpr uint64_t kHiding = ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW | ATTEST_WITH_BIAS |
                                      ATTEST_WITH_MASK | ATTEST_WITH_SEQ_LENS;
  static constexpr attest::Info kInfo = {
      /*name=*/"cublas_cuda",
      /*version=*/"2",
      /*summary=*/"cuBLAS products around a softmax, the score matrix in memory",
      /*operation=*/ATTEST_SOFTMAX,
      /*device=*/ATTEST_CUDA,
      /*dtypes=*/ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      /*features=*/kHiding | ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_DIAGONAL |
          ATTEST_WITH_SOFTCAP | ATTEST_WITH_LSE | ATTEST_WITH_STRIDES | ATTEST_WITH_ALIBI |
          ATTEST_WITH_SINKS};

  static const char* query(const attest_problem& problem, attest_support& support) {
    static thread_local std::string why;
    if (why = cuda::Cublas::missing(); !why.empty()) return why.c_str();
    const auto& p = attest::params<attest_softmax_params>(problem);
    for (const int64_t size : {p.seq_len_q, p.seq_len_kv})
      if (size > INT32_MAX - cuda::MatmulPlan::kRowMultiple) return "2^31 tokens";
    for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
      const attest_tensor& tensor = problem.tensor[role];
      if (tensor.dim[3] > 1 && tensor.stride[3] != 1)
        return "channels that do not lie side by side";
      if (tensor.dim[2] > 1 && (tensor.stride[2] < tensor.dim[3] || tensor.stride[2] > INT32_MAX))
        return "rows that overlap or lie too far apart";
    }
    const int32_t dtype = problem.tensor[ATTEST_Q].dtype;
    for (const int stage : {ATTEST_SOFTMAX_QK, ATTEST_SOFTMAX_PV, ATTEST_SOFTMAX_PROBABILITY})
      support.stage[stage].dtype = dtype;
    support.arithmetic = ATTEST_P_NORMALISED_FIRST;
    const cuda::MatmulPlan plan = plan_of(problem);
    support.workspace_bytes =
        static_cast<uint64_t>(plan.scores_bytes + plan.weights_bytes + kFlagBytes) +
        cuda::Cublas::kWorkspaceBytes;
    return nullptr;
  }
  explicit Matmul(const attest_problem& given)
      : problem(given), device_problem_(given), plan_(plan_of(given)) {}

  const attest_problem& problem;

  template <class T>
  void run(void* const* data, void* workspace, void* stream) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    auto* scores = static_cast<float*>(workspace);
    char* const after_scores = static_cast<char*>(workspace) + plan_.scores_bytes;
    auto* weights = reinterpret_cast<T*>(after_scores);
    auto* odd = reinterpret_cast<int*>(after_scores + plan_.weights_bytes);
    cublas_.use(stream, after_scores + plan_.weights_bytes + kFlagBytes);
    const auto queue = static_cast<cudaStream_t>(stream);
    const cuda::Data addresses(data);
    if (problem.features & kHiding) {
      cuda::check(cudaMemsetAsync(odd, 0, sizeof(int), queue), "cudaMemsetAsync");
      cuda::launch(find_odd<T>, cuda::grid(p.batch * p.num_kv_heads * p.seq_len_kv), kThreads, 0,
                   queue, device_problem_.get(), addresses, odd);
    }
    const int64_t together = heads_together(problem), all = p.batch * p.num_heads;
    for (int64_t group = 0; group < all; group += together)
      for (int64_t head = group; head < group + together; head += plan_.heads)
        for (int64_t row = 0; row < p.seq_len_q; row += plan_.rows) {
          const Step step{head, smaller(plan_.heads, group + together - head), row,
                          smaller(plan_.rows, p.seq_len_q - row), plan_.row_stride};
          multiply_keys<T>(data, step, scores);
          cuda::launch(weigh<T>, cuda::grid(step.heads * step.rows), kThreads, 0, queue,
                       device_problem_.get(), addresses, step, static_cast<const float*>(scores),
                       weights);
          multiply_values<T>(data, step, weights);
          if (problem.features & kHiding)
            cuda::launch(mend<T>, cuda::grid(step.heads * step.rows), kThreads, 0, queue,
                         device_problem_.get(), addresses, step, static_cast<const T*>(weights),
                         static_cast<const int*>(odd));
        }
  }

 private:
  static constexpr int64_t kFlagBytes = 256;
  static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

  /// How many heads follow one another at one distance in Q and O, and in K and V: all, or those of
  /// one sequence, or those that share a head of K and V.
  static int64_t heads_together(const attest_problem& problem) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const int64_t group = p.num_heads / p.num_kv_heads;
    if (group > 1) return group;
    for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
      const attest_tensor& tensor = problem.tensor[role];
      if (p.batch > 1 && p.num_heads > 1 && tensor.stride[0] != p.num_heads * tensor.stride[1])
        return p.num_heads;
    }
    return p.batch * p.num_heads;
  }
  static cuda::MatmulPlan plan_of(const attest_problem& problem) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    return {{p.batch * p.num_heads, heads_together(problem), p.seq_len_q, p.seq_len_kv},
            problem.tensor[ATTEST_Q].dtype == ATTEST_F32 ? 4 : 2,
            ATTEST_MATMUL_BYTES};
  }

  /// The matrices of a step's heads from row `row` on: rows of a tensor are columns to cuBLAS.
  template <class T>
  cuda::Cublas::Matrices matrices(void* const* data, int32_t role, const Step& step,
                                  int64_t row) const {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const attest_tensor& tensor = problem.tensor[role];
    const bool of_keys = role == ATTEST_K || role == ATTEST_V;
    const int64_t b = step.first_head / p.num_heads, h = step.first_head % p.num_heads,
                  group = p.num_heads / p.num_kv_heads;
    const int64_t at = b * tensor.stride[0] + (of_keys ? h / group : h) * tensor.stride[1] +
                       row * tensor.stride[2];
    const int64_t between = p.num_heads > 1 ? tensor.stride[1] : tensor.stride[0];
    const int64_t ld = tensor.dim[2] > 1 ? tensor.stride[2] : tensor.dim[3];
    return {static_cast<T*>(data[role]) + at, type_of<T>(), static_cast<int>(ld),
            of_keys && group > 1 ? 0 : between};
  }
  template <class T>
  static constexpr cuda::Cublas::Type type_of() {
    return sizeof(T) == 4                    ? cuda::Cublas::kF32
           : std::is_same_v<T, attest::Half> ? cuda::Cublas::kF16
                                             : cuda::Cublas::kBF16;
  }

  template <class T>
  void multiply_keys(void* const* data, const Step& step, float* scores) const {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const auto keys = static_cast<int>(p.seq_len_kv);
    cublas_.multiply(cuda::Cublas::kTransposed, cuda::Cublas::kAsIs, keys,
                     static_cast<int>(step.rows), static_cast<int>(p.head_dim),
                     matrices<T>(data, ATTEST_K, step, 0),
                     matrices<T>(data, ATTEST_Q, step, step.first_row),
                     {scores, cuda::Cublas::kF32, static_cast<int>(step.row_stride),
                      step.rows * step.row_stride},
                     static_cast<int>(step.heads));
  }
  template <class T>
  void multiply_values(void* const* data, const Step& step, const T* weights) const {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const auto keys = static_cast<int>(p.seq_len_kv);
    cublas_.multiply(
        cuda::Cublas::kAsIs, cuda::Cublas::kAsIs, static_cast<int>(p.head_dim_v),
        static_cast<int>(step.rows), keys, matrices<T>(data, ATTEST_V, step, 0),
        {weights, type_of<T>(), static_cast<int>(step.row_stride), step.rows * step.row_stride},
        matrices<T>(data, ATTEST_O, step, step.first_row), static_cast<int>(step.heads));
  }

  cuda::DeviceProblem device_problem_;
  const cuda::MatmulPlan plan_;
  const cuda::Cublas& cublas_ = cuda::Cublas::of_process();
};

}  // namespace

ATTEST_PLUGIN(attest::table<Matmul>())
