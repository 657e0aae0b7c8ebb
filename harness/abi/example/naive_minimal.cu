// naive_minimal: online softmax on a CUDA device, one thread for each query, in float32: slow,
// obvious, the template for a new kernel.
#include <string>

#include "attest.hpp"

namespace {

constexpr int kThreads = 64;        // of a block
constexpr int kMostChannels = 256;  // of V: each thread keeps a row of O
constexpr int64_t kMostBlocks = 65535;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not report it again
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// What the views of attest.hpp read of a problem, in the device's memory.
struct ProblemCopy {
  attest_problem problem;
  alignas(64) unsigned char params[ATTEST_ROOM];
  attest_tensor tensor[ATTEST_ROLES];
};

/// Addresses of the tensors as a kernel's argument: the host's array is gone when a kernel starts.
struct Addresses {
  void* at[ATTEST_ROLES];
};

/// One row of O and LSE.
template <class T>
__device__ void attend_row(const attest::Softmax<T>& a, int64_t b, int64_t h, int64_t i) {
  const attest::Cell query = a.query(b, i);
  const attest::Keys keys = a.keys(b, i);
  float sum[kMostChannels] = {}, top = -INFINITY, total = 0;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    const attest::Cell key = a.key(b, j);
    float dot = 0;
    for (int64_t d = 0; d < a.p.head_dim; ++d)
      dot += static_cast<float>(a.q(query.batch, h, query.row, d)) *
             static_cast<float>(a.k(key.batch, a.kv_head(h), key.row, d));
    const float s = a.logit(dot, b, h, i, j);
    if (s == -INFINITY) continue;  // hidden: what lies there is not to be touched
    const float peak = top > s ? top : s, keep = expf(top - peak), weight = expf(s - peak);
    for (int64_t d = 0; d < a.p.head_dim_v; ++d)
      sum[d] =
          keep * sum[d] + weight * static_cast<float>(a.v(key.batch, a.kv_head(h), key.row, d));
    total = keep * total + weight;
    top = peak;
  }
  for (int64_t d = 0; d < a.p.head_dim_v; ++d)
    a.o(query.batch, h, query.row, d) = total == 0 ? 0 : sum[d] / total;
  if (a.lse) a.lse(query.batch, h, query.row) = top + logf(total);  // -inf where no key
}

template <class T>
__global__ void attend(const ProblemCopy* copy, Addresses data) {
  const attest::Softmax<T> a(copy->problem, data.at);
  const int64_t rows = a.p.batch * a.p.num_heads * a.p.seq_len_q;
  for (int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x; row < rows;
       row += int64_t{gridDim.x} * kThreads) {
    const int64_t i = row % a.p.seq_len_q, head = row / a.p.seq_len_q;
    const int64_t b = head / a.p.num_heads, h = head % a.p.num_heads;
    if (i < a.rows(b)) attend_row(a, b, h, i);
  }
}

class NaiveMinimal {
 public:
  static constexpr attest::Info kInfo = {
      /*name=*/"naive_minimal",
      /*version=*/"1",
      /*summary=*/"one thread for each query, in float32",
      /*operation=*/ATTEST_SOFTMAX,
      /*device=*/ATTEST_CUDA,
      /*dtypes=*/ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      /*features=*/ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
          ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS |
          ATTEST_WITH_MASK | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS |
          ATTEST_WITH_PAGES | ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES | ATTEST_WITH_GRID |
          ATTEST_WITH_REL_BIAS | ATTEST_WITH_STRIDES | ATTEST_WITH_UNALIGNED | ATTEST_WITH_ALIBI};

  /// Why it refuses the problem, or null.
  static const char* query(const attest_problem& problem, attest_support& /*support*/) {
    return attest::params<attest_softmax_params>(problem).head_dim_v > kMostChannels
               ? "head_dim_v beyond 256"
               : nullptr;
  }
  /// Never timed.
  explicit NaiveMinimal(const attest_problem& given) : problem(given) {
    check(cudaMalloc(&copy_, sizeof(ProblemCopy)), "cudaMalloc");
    ProblemCopy copy{};
    std::memcpy(copy.params, problem.params, sizeof(copy.params));
    std::memcpy(copy.tensor, problem.tensor, sizeof(copy.tensor));
    copy.problem = problem;
    copy.problem.params = copy_->params;
    copy.problem.tensor = copy_->tensor;
    const cudaError_t copied = cudaMemcpy(copy_, &copy, sizeof(copy), cudaMemcpyHostToDevice);
    if (copied != cudaSuccess) cudaFree(copy_);
    check(copied, "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // other streams do not wait for it
  }
  NaiveMinimal(const NaiveMinimal&) = delete;
  NaiveMinimal& operator=(const NaiveMinimal&) = delete;
  ~NaiveMinimal() { cudaFree(copy_); }

  const attest_problem& problem;

  /// Enqueues the work on `stream` and does not wait for it. `data` are addresses on the device.
  template <class T>
  void run(void* const* data, void* /*workspace*/, void* stream) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const int64_t blocks = (p.batch * p.num_heads * p.seq_len_q + kThreads - 1) / kThreads;
    const auto grid = static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
    Addresses addresses;
    std::memcpy(addresses.at, data, sizeof(addresses.at));
    const auto queue = static_cast<cudaStream_t>(stream);
    attend<T><<<grid, kThreads, 0, queue>>>(copy_, addresses);
    check(cudaGetLastError(), "launch");
  }

 private:
  ProblemCopy* copy_ = nullptr;  // on the device
};

}  // namespace

ATTEST_PLUGIN(attest::table<NaiveMinimal>())
