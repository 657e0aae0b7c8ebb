// deformable_cuda: multi-scale deformable attention on a CUDA device, in float32.
//
// A block takes some rows (one query of one head; neighbours are heads of one query) and as many of
// their points as its shared memory holds. Each thread first finds the four pixels of a point and
// what they weigh. Then each row's own threads read these pixels, each 16 bytes of channels or one
// channel, and add them up: the pixels of a point are found once, not once for each channel.
#include "cuda/device_problem.cuh"

namespace {

constexpr int kThreads = 128;
constexpr int kPoints = 256;  // of all rows of a block, at a time
// Of Corner::steps: the width of a level, and which of its four pixels exist.
constexpr int kMaskShift = 28;
constexpr int64_t kWidest = (int64_t{1} << kMaskShift) - 1;

/// A point's upper left pixel.
struct Corner {
  int32_t token;   // of V; beyond the edge, of the pixel that would be there
  uint32_t steps;  // tokens to the pixel below; bit kMaskShift + k: whether pixel k exists
};

/// `kChannels` channels of a pixel, as they lie in memory.
template <class T, int kChannels>
struct alignas(sizeof(T) * kChannels) Piece {
  T at[kChannels];
};

/// One query of one head. Heads of a query come after one another, then queries.
struct Row {
  uint32_t b, i, h;
  __device__ Row(uint32_t number, const attest_deformable_params& p) {
    const auto heads = static_cast<uint32_t>(p.num_heads),
               queries = static_cast<uint32_t>(p.seq_len_q);
    h = number % heads;
    i = number / heads % queries;
    b = number / heads / queries;
  }
};

/// Finds the pixels of point n of a row, level by level, and what each weighs.
__device__ Corner find_pixels(const attest::Deformable<attest::Any>& a, const Row& row, int n,
                              float (&factor)[4]) {
  const int points = static_cast<int>(a.p.num_points), level = n / points, point = n % points;
  const int32_t height = a.p.level_height[level],
                width = a.p.level_width[cuda::planted(cuda::Bug::kWidthOfFirstLevel) ? 0 : level];
  const float x = a.coordinate(a.locations(row.b, row.h, row.i, level, point, 0), width),
              y = a.coordinate(a.locations(row.b, row.h, row.i, level, point, 1), height);
  for (float& each : factor) each = 0;
  if (!a.inside(x, width) || !a.inside(y, height)) return {0, 0};
  const float weight = a.weights(row.b, row.h, row.i, level, point), left = floorf(x),
              upper = floorf(y), right_share = x - left, lower_share = y - upper;
  const auto column = static_cast<int32_t>(left), line = static_cast<int32_t>(upper);
  auto steps = static_cast<uint32_t>(width);
  for (int k = 0; k < 4; ++k) {
    const int32_t at_x = column + k % 2, at_y = line + k / 2;
    const bool there = at_x >= 0 && (at_x < width || cuda::planted(cuda::Bug::kRightEdgeWraps)) &&
                       at_y >= 0 && at_y < height;
    if (!there) continue;
    factor[k] =
        weight * (k % 2 ? right_share : 1 - right_share) * (k / 2 ? lower_share : 1 - lower_share);
    steps |= 1u << (kMaskShift + k);
  }
  return {static_cast<int32_t>(a.first_token(level)) + line * width + column, steps};
}

/// T: of V. `threads`: of a row, a power of two; each has `kChannels` channels.
template <class T, int kChannels>
__global__ void __launch_bounds__(kThreads, 6)
    sample(const attest_problem* problem, cuda::Data data, int threads) {
  __shared__ Corner corners[kPoints];
  __shared__ float factors[4][kPoints];
  const attest::Deformable<attest::Any> a(*problem, data.at);
  const int thread = static_cast<int>(threadIdx.x), own = thread / threads;  // row of the block
  const int rows = kThreads / threads, chunk = kPoints / rows;
  const int points = static_cast<int>(a.p.num_levels * a.p.num_points),
            channels = static_cast<int>(a.p.head_dim_v);
  const auto all = static_cast<uint32_t>(a.p.batch * a.p.seq_len_q * a.p.num_heads);
  for (uint32_t begin = blockIdx.x * rows; begin < all; begin += gridDim.x * rows) {
    const Row row(begin + own, a.p);
    for (int sweep = 0; sweep < channels; sweep += threads * kChannels) {
      const int channel = sweep + thread % threads * kChannels;
      const bool busy = begin + own < all && channel < channels;
      const attest::View<T> v(*problem, data.at, ATTEST_V);
      const T* const pixels = busy ? &v(row.b, row.h, 0, channel) : nullptr;
      const int64_t stride = v.stride(2);
      float sum[kChannels] = {};
      for (int first = 0; first < points; first += chunk) {
        const int count = min(points - first, chunk);
        for (int n = thread; n < kPoints; n += kThreads) {
          const uint32_t of = begin + n / chunk;
          if (of >= all || n % chunk >= count) continue;
          float factor[4];
          corners[n] = find_pixels(a, Row(of, a.p), first + n % chunk, factor);
          for (int k = 0; k < 4; ++k) factors[k][n] = factor[k];
        }
        __syncthreads();
        const bool dropped = cuda::planted(cuda::Bug::kChunkDropped) && first > 0;
        for (int n = own * chunk; busy && !dropped && n < own * chunk + count; ++n) {
          const Corner corner = corners[n];
          const auto width = static_cast<int32_t>(corner.steps & ((1u << kMaskShift) - 1));
          Piece<T, kChannels> piece[4];
          for (int k = 0; k < 4; ++k) {
            // What does not exist has no address either.
            if (corner.steps >> (kMaskShift + k) & 1) {
              const int32_t token = corner.token + k / 2 * width + k % 2;
              piece[k] = *reinterpret_cast<const Piece<T, kChannels>*>(pixels + token * stride);
            } else {
              for (int c = 0; c < kChannels; ++c) piece[k].at[c] = T{};
            }
          }
          for (int k = 0; k < 4; ++k)
            for (int c = 0; c < kChannels; ++c)
              sum[c] = fmaf(factors[k][n], static_cast<float>(piece[k].at[c]), sum[c]);
        }
        if (!cuda::planted(cuda::Bug::kNoBarrier)) __syncthreads();
      }
      for (int c = 0; busy && c < kChannels; ++c) a.o(row.b, row.h, row.i, channel + c) = sum[c];
    }
  }
}

class DeformableCuda {
 public:
  static constexpr attest::Info kInfo = {
      /*name=*/"deformable_cuda",
      /*version=*/"1",
      /*summary=*/"multi-scale deformable attention in float32, 16 bytes of channels a thread",
      /*operation=*/ATTEST_DEFORMABLE,
      /*device=*/ATTEST_CUDA,
      /*dtypes=*/ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      /*features=*/ATTEST_WITH_ALIGN_CORNERS | ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE |
          ATTEST_WITH_UNALIGNED};

  static const char* query(const attest_problem& problem, attest_support& support) {
    const auto& p = attest::params<attest_deformable_params>(problem);
    if (problem.tensor[ATTEST_V].dim[2] > INT32_MAX) return "more than 2^31 - 1 tokens of V";
    if (p.batch * p.num_heads * p.seq_len_q > INT32_MAX) return "more than 2^31 - 1 rows of O";
    if (p.num_levels * int64_t{p.num_points} > INT32_MAX)
      return "more than 2^31 - 1 points a query";
    for (int32_t level = 0; level < p.num_levels; ++level)
      if (p.level_width[level] > kWidest) return "a level of 2^28 pixels or more in width";
    support.sum_chain = 4 * int64_t{p.num_levels} * p.num_points;
    return nullptr;
  }
  explicit DeformableCuda(const attest_problem& given) : problem(given), device_problem_(given) {}

  const attest_problem& problem;

  void run(void* const* data, void* /*workspace*/, void* stream) {
    const int32_t dtype = problem.tensor[ATTEST_V].dtype;
    if (dtype == ATTEST_F32) return run_on<float>(data, stream);
    if (dtype == ATTEST_F16) return run_on<attest::Half>(data, stream);
    run_on<attest::BFloat16>(data, stream);
  }

 private:
  template <class T>
  void run_on(void* const* data, void* stream) {
    constexpr int kWide = 16 / sizeof(T);
    if (in_pieces(data[ATTEST_V], kWide))
      launch<T, kWide>(data, stream);
    else
      launch<T, 1>(data, stream);
  }
  /// Whether the channels of each pixel lie in pieces of 16 bytes.
  bool in_pieces(const void* v, int64_t channels) const {
    const attest_tensor& spec = problem.tensor[ATTEST_V];
    bool whole = spec.stride[3] == 1 && reinterpret_cast<uintptr_t>(v) % 16 == 0 &&
                 spec.dim[3] % channels == 0;
    for (int axis = 0; axis < 3; ++axis) whole &= spec.stride[axis] % channels == 0;
    return whole;
  }
  template <class T, int kChannels>
  void launch(void* const* data, void* stream) {
    const auto& p = attest::params<attest_deformable_params>(problem);
    int threads = 1;
    while (threads < kThreads && threads * kChannels < p.head_dim_v) threads *= 2;
    const int64_t rows = p.batch * p.seq_len_q * p.num_heads, in_block = kThreads / threads;
    cuda::launch(sample<T, kChannels>, cuda::grid((rows + in_block - 1) / in_block), kThreads, 0,
                 static_cast<cudaStream_t>(stream), device_problem_.get(), cuda::Data(data),
                 threads);
  }

  cuda::DeviceProblem device_problem_;
};

}  // namespace

ATTEST_PLUGIN(attest::table<DeformableCuda>())
