// Linear attention in tiles of 32 x 32 results by 64 threads with 4 x 4 each, without tensor cores:
// for devices before sm_80, and for what linear_mma.cuh does not take: more channels, rows that are
// no aligned multiples of 16 bytes, and f32 of 65 to 128 channels where a block has no more than 99
// KiB of shared memory. Each tile reads its keys, values or queries again.
#pragma once
#include "cuda/device_problem.cuh"

namespace linear_tiles {

/// Tokens and channels of a tile; threads; results of a thread on each side.
constexpr int kTile = 32, kThreads = 64, kEach = 4;
constexpr int kAcross = kTile / kEach;
static_assert(kAcross * kAcross == kThreads);

/// States in the workspace: [batch, num_kv_heads, chunks] of S [head_dim, head_dim_v] and z
/// [head_dim]. Chunk 0 becomes the sum.
struct States {
  float* memory;
  int64_t chunk, chunks;  // keys of a chunk, chunks of a key head
  __host__ __device__ static int64_t size(const attest_linear_params& p) {
    return p.head_dim * (p.head_dim_v + 1);
  }
  __device__ float* of(const attest_linear_params& p, int64_t head, int64_t which) const {
    return memory + (head * chunks + which) * size(p);
  }
};

__host__ __device__ inline int64_t tiles(int64_t channels) {
  return (channels + kTile - 1) / kTile;
}

struct Square {
  float at[kEach][kEach] = {};
  /// Adds the products of kEach numbers on each side.
  __device__ void add(const float* rows, const float* columns) {
#pragma unroll
    for (int r = 0; r < kEach; ++r)
#pragma unroll
      for (int c = 0; c < kEach; ++c) at[r][c] = fmaf(rows[r], columns[c], at[r][c]);
  }
  __device__ void add(const Square& other) {
#pragma unroll
    for (int r = 0; r < kEach; ++r)
#pragma unroll
      for (int c = 0; c < kEach; ++c) at[r][c] += other.at[r][c];
  }
};

/// Block: a tile of S of one chunk of one key head.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_keys(const attest_problem* problem, const __grid_constant__ cuda::Data data,
             const States states, int64_t blocks) {
  alignas(16) __shared__ float keys[kTile][kTile], values[kTile][kTile];  // [token, channel]
  const attest::Linear<T> a(*problem, data.at);
  const int thread = static_cast<int>(threadIdx.x), row = thread / kAcross * kEach,
            column = thread % kAcross * kEach;
  const int64_t across = tiles(a.p.head_dim_v), down = tiles(a.p.head_dim);
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t e0 = block % across * kTile, c0 = block / across % down * kTile,
                  chunk = block / across / down % states.chunks;
    const int64_t head = block / across / down / states.chunks, b = head / a.p.num_kv_heads,
                  kv = head % a.p.num_kv_heads;
    const int64_t begin = chunk * states.chunk, past = min(begin + states.chunk, a.p.seq_len_kv);
    const int64_t end = cuda::planted(cuda::Bug::kChunkBound) ? past - kTile : past;
    Square sums;
    float z = 0;
    for (int64_t first = begin; first < end; first += kTile) {
      for (int index = thread; index < kTile * kTile; index += kThreads) {
        const int64_t token = index / kTile, channel = index % kTile, j = first + token;
        const bool counts = j < end && a.key_counts(b, j);  // what does not is never read
        keys[token][channel] = counts && c0 + channel < a.p.head_dim
                                   ? a.phi(static_cast<float>(a.k(b, kv, j, c0 + channel)))
                                   : 0;
        values[token][channel] = counts && e0 + channel < a.p.head_dim_v
                                     ? static_cast<float>(a.v(b, kv, j, e0 + channel))
                                     : 0;
      }
      __syncthreads();
      Square part;  // on its own, so that no long chain of additions rounds again and again
      float z_part = 0;
#pragma unroll 4
      for (int token = 0; token < kTile; ++token) {
        part.add(&keys[token][row], &values[token][column]);
        if (thread < kTile) z_part += keys[token][thread];
      }
      sums.add(part);
      z += z_part;
      if (!cuda::planted(cuda::Bug::kNoBarrier)) __syncthreads();
    }
    float* state = states.of(a.p, head, chunk);
    for (int r = 0; r < kEach; ++r)
      for (int c = 0; c < kEach; ++c)
        if (c0 + row + r < a.p.head_dim && e0 + column + c < a.p.head_dim_v)
          state[(c0 + row + r) * a.p.head_dim_v + e0 + column + c] = sums.at[r][c];
    if (e0 == 0 && thread < kTile && c0 + thread < a.p.head_dim)
      state[a.p.head_dim * a.p.head_dim_v + c0 + thread] = z;
    __syncthreads();
  }
}

/// Block: a tile of O, 32 queries x 32 channels, of one head.
template <class T>
__global__ void __launch_bounds__(kThreads)
    read_queries(const attest_problem* problem, const __grid_constant__ cuda::Data data,
                 const States states, int64_t blocks) {
  alignas(16) __shared__ float queries[kTile][kTile], state[kTile][kTile],
      z[kTile];  // [channel, query], [channel, channel of V]
  const attest::Linear<T> a(*problem, data.at);
  const int thread = static_cast<int>(threadIdx.x), row = thread / kAcross * kEach,
            column = thread % kAcross * kEach;
  const int64_t across = tiles(a.p.head_dim_v), down = tiles(a.p.seq_len_q);
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t e0 = block % across * kTile, i0 = block / across % down * kTile,
                  head = block / across / down;
    const int64_t b = head / a.p.num_heads, h = head % a.p.num_heads;
    const float* from = states.of(a.p, b * a.p.num_kv_heads + a.kv_head(h), 0);
    Square sums;
    float total[kEach] = {};
    for (int64_t c0 = 0; c0 < a.p.head_dim; c0 += kTile) {
      for (int index = thread; index < kTile * kTile; index += kThreads) {
        const int64_t low = index % kTile, high = index / kTile, i = i0 + high;
        const bool counts = i < a.p.seq_len_q && c0 + low < a.p.head_dim && a.query_counts(b, i);
        queries[low][high] = counts ? a.phi(static_cast<float>(a.q(b, h, i, c0 + low))) : 0;
        const bool there = c0 + high < a.p.head_dim && e0 + low < a.p.head_dim_v;
        state[high][low] = there ? from[(c0 + high) * a.p.head_dim_v + e0 + low] : 0;
      }
      if (thread < kTile)
        z[thread] =
            c0 + thread < a.p.head_dim ? from[a.p.head_dim * a.p.head_dim_v + c0 + thread] : 0;
      __syncthreads();
#pragma unroll 4
      for (int c = 0; c < kTile; ++c) {
        sums.add(&queries[c][row], &state[c][column]);
#pragma unroll
        for (int r = 0; r < kEach; ++r) total[r] = fmaf(queries[c][row + r], z[c], total[r]);
      }
      __syncthreads();
    }
    for (int r = 0; r < kEach; ++r)
      for (int c = 0; c < kEach; ++c)
        if (i0 + row + r < a.p.seq_len_q && e0 + column + c < a.p.head_dim_v)
          a.o(b, h, i0 + row + r, e0 + column + c) = sums.at[r][c] / (total[r] + a.p.eps);
  }
}

}  // namespace linear_tiles
