// flash_cuda: tiled softmax attention on tensor cores (mma.sync, sm_80 and up), f16 and bf16.
//
// A block has 4 warps and 64 or 128 rows of one head; keys and values come in tiles, two of each in shared memory, one in use and
// one on its way. Scores never leave registers: the accumulators of Q K^T are, pair by pair, the operand of P V (Dao,
// FlashAttention-2, 2023). What a row may see is an interval of keys, whatever the band, patch or window that it comes from, so
// tiles outside of every row's interval are not read and tiles inside of all need no mask. Masks, biases and softcap take a
// second version of the kernel, in which rows may also lie anywhere (pages, orders, grids).
//
// A hidden key has a weight of 0, and 0 times NaN is NaN: from tiles that hide something, infinities and NaN of V are taken out
// before the product, and added where they are seen.
#include "cuda/device_problem.cuh"
#include "cuda/mma.cuh"

#ifndef ATTEST_ONLY_HEAD_DIM
#define ATTEST_ONLY_HEAD_DIM 0
#endif

namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
constexpr float kLargest = 3.4028234663852886e38f;
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;

/// Shapes of a block: head sizes up to kDim, kRows rows, kKeys keys a tile. General: a tile has a table of what is added to each
/// logit.
template <int kHeadDim, int kRowBlocks, int kTileKeys, bool kIsGeneral>
struct Shape {
  static constexpr bool kGeneral = kIsGeneral;
  static constexpr int kDim = kHeadDim, kPerWarp = kRowBlocks, kRows = 16 * kRowBlocks * kWarps, kKeys = kTileKeys;
  static constexpr int kChunks = kDim / 8;  // 16 bytes each
  static constexpr int kTileBytes = kKeys * kDim * 2, kTilesBytes = kRows * kDim * 2 + 4 * kTileBytes,
                       kSharedBytes = kTilesBytes + (kGeneral ? kRows * kKeys * 4 : 0);
  static_assert(kSharedBytes <= 99 << 10, "what a block may have from sm_86 on");
};

/// Byte of a chunk in a tile in shared memory. Chunks of a row are exchanged by its number, so that 8 rows of one chunk lie in 8
/// different groups of banks.
template <class S>
__device__ uint32_t place(int row, int chunk) {
  constexpr int kRowsInLine = S::kChunks >= 8 ? 1 : 8 / S::kChunks, kMask = (S::kChunks < 8 ? S::kChunks : 8) - 1;
  return static_cast<uint32_t>((row * S::kChunks + (chunk ^ (row / kRowsInLine & kMask))) * 16);
}

template <class T>
struct Element;
template <>
struct Element<attest::Half> {
  using Type = __half;
  static constexpr uint32_t kInfinity = 0x7c00;
};
template <>
struct Element<attest::BFloat16> {
  using Type = __nv_bfloat16;
  static constexpr uint32_t kInfinity = 0x7f80;
};

/// The pair with 0 in place of what is not finite.
template <class T>
__device__ uint32_t finite_part(uint32_t pair) {
  constexpr uint32_t kLow = Element<T>::kInfinity, kHigh = kLow << 16;
  return ((pair & kLow) == kLow ? 0 : pair & 0xffff) | ((pair & kHigh) == kHigh ? 0 : pair & 0xffff0000);
}

/// kRows rows of a tile, row r from address(r); rows and chunks beyond what is there are 0.
template <class S, int kCount, class Address>
__device__ void load_tile(uint32_t to, int rows, int chunks, const Address& address) {
  for (int index = static_cast<int>(threadIdx.x); index < kCount * S::kChunks; index += kThreads) {
    const int row = index / S::kChunks, chunk = index % S::kChunks;
    const bool there = row < rows && chunk < chunks;
    cuda::copy_async(to + place<S>(row, chunk), address(there ? row : 0) + (there ? chunk : 0) * 8, there);
  }
}

/// To some 1e-7, which is little beside what 16-bit operands make of a score.
__device__ float tanh_fast(float x) { return 1 - __fdividef(2, 1 + cuda::exp2_fast(2 * kLog2E * fminf(x, 20))); }

/// The largest, and the sum, over the four lanes that share a row.
__device__ float largest_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
__device__ float sum_of_row(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

/// The two rows of a 16-row block that a lane has a part of: what they may see, and what they have seen so far.
struct RowPair {
  int begin[2], end[2];
  float top[2], total[2];  // largest logit in base 2, sum of 2^(logit - top) over this lane's keys
};

template <class T, class S>
class Block {
 public:
  using Type = typename Element<T>::Type;

  __device__ Block(const attest_problem& problem, const cuda::Data& data, int64_t b, int64_t h, int64_t first, char* shared)
      : problem_(problem),
        data_(data),
        b_(b),
        h_(h),
        first_(first),
        terms_(reinterpret_cast<float*>(shared + S::kTilesBytes)),
        q_(cuda::shared_address(shared)),
        k_(q_ + S::kRows * S::kDim * 2),
        v_(k_ + 2 * S::kTileBytes),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {}

  __device__ void run() {
    find_keys();
    if (const attest::Softmax<T> a = views(); past_tile_ > first_tile_)
      k_begin_ = address(a.k, a.key(b_, 0), a.kv_head(h_)), v_begin_ = address(a.v, a.key(b_, 0), a.kv_head(h_));
    load_queries();
    load_keys(first_tile_, 0);
    cuda::commit_copies();
    load_values(first_tile_, 0);
    cuda::commit_copies();
    for (int tile = first_tile_; tile < past_tile_; ++tile) step(tile, (tile - first_tile_) % 2);
    cuda::wait_copies<0>();
    write();
  }

 private:
  __device__ int64_t row_of(int row_block, int half) const {
    return first_ + (warp_ * S::kPerWarp + row_block) * 16 + lane_ / 4 + half * 8;
  }

  /// Made anew where it is needed: kept over the loop, it would take registers from the accumulators.
  __device__ attest::Softmax<T> views() const { return attest::Softmax<T>(problem_, data_.at); }
  __device__ const attest_softmax_params& params() const { return attest::params<attest_softmax_params>(problem_); }
  __device__ int64_t row_stride(int role) const { return problem_.tensor[role].stride[2]; }

  /// What each row sees, and from it the tiles that the block has to read and the keys that all of its rows see.
  __device__ void find_keys() {
    __shared__ int lowest, highest, common_begin, common_end;
    const attest::Softmax<T> a = views();
    if (threadIdx.x == 0) lowest = INT32_MAX, highest = 0, common_begin = 0, common_end = INT32_MAX;
    __syncthreads();
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t i = row_of(m, half);
        const attest::Keys keys = i < a.rows(b_) ? a.keys(b_, i) : attest::Keys{0, 0};
        RowPair& row = rows_[m];
        row.begin[half] = static_cast<int>(keys.begin), row.end[half] = static_cast<int>(keys.end);
        row.top[half] = -INFINITY, row.total[half] = 0;
        if (i >= a.rows(b_) || lane_ % 4 != 0) continue;
        atomicMax(&common_begin, row.begin[half]), atomicMin(&common_end, row.end[half]);
        if (keys.begin < keys.end) atomicMin(&lowest, row.begin[half]), atomicMax(&highest, row.end[half]);
      }
    __syncthreads();
    first_tile_ = highest > 0 ? lowest / S::kKeys : 0, past_tile_ = (highest + S::kKeys - 1) / S::kKeys;
    past_key_ = highest, common_begin_ = common_begin, common_end_ = common_end;
  }

  __device__ const Type* address(const attest::View<T>& view, const attest::Cell& cell, int64_t head) const {
    return reinterpret_cast<const Type*>(&view(cell.batch, head, cell.row, 0));
  }
  __device__ void load_queries() {
    const attest::Softmax<T> a = views();
    const int rows = static_cast<int>(min(int64_t{S::kRows}, a.rows(b_) - first_));
    const Type* base = address(a.q, a.query(b_, first_), h_);
    load_tile<S, S::kRows>(q_, rows, static_cast<int>(a.p.head_dim / 8), [&](int row) {
      return S::kGeneral ? address(a.q, a.query(b_, first_ + row), h_) : base + row * row_stride(ATTEST_Q);
    });
  }
  /// The rows of K or V that a tile has; `begin` is row 0 where rows lie one behind the other.
  __device__ void load_rows(uint32_t to, int role, const Type* begin, int64_t channels, int tile) {
    const int64_t first = int64_t{tile} * S::kKeys, stride = row_stride(role);
    const int rows = static_cast<int>(min(int64_t{S::kKeys}, past_key_ - first));
    if (S::kGeneral) {
      const attest::Softmax<T> a = views();
      const attest::View<T>& view = role == ATTEST_K ? a.k : a.v;
      load_tile<S, S::kKeys>(to, rows, static_cast<int>(channels / 8),
                             [&](int row) { return address(view, a.key(b_, first + row), a.kv_head(h_)); });
    } else {
      begin += first * stride;
      load_tile<S, S::kKeys>(to, rows, static_cast<int>(channels / 8), [&](int row) { return begin + row * stride; });
    }
  }
  __device__ void load_keys(int tile, int stage) {
    if (tile < past_tile_) load_rows(k_ + stage * S::kTileBytes, ATTEST_K, k_begin_, params().head_dim, tile);
  }
  __device__ void load_values(int tile, int stage) {
    if (tile < past_tile_) load_rows(v_ + stage * S::kTileBytes, ATTEST_V, v_begin_, params().head_dim_v, tile);
  }

  __device__ void step(int tile, int stage) {
    cuda::wait_copies<1>();
    __syncthreads();  // these keys are there, and everybody is done with the tiles before
    load_keys(tile + 1, 1 - stage);
    cuda::commit_copies();
    if (S::kGeneral) make_terms(tile);
    float scores[S::kPerWarp][S::kKeys / 8][4] = {};
    multiply_keys(k_ + stage * S::kTileBytes, scores);
    const bool hides =
        S::kGeneral || tile * S::kKeys < common_begin_ || (tile + 1) * S::kKeys > common_end_;  // the same in all threads
    scale(tile, hides, scores);
    weigh(scores);
    cuda::wait_copies<1>();
    __syncthreads();
    load_values(tile + 1, 1 - stage);
    cuda::commit_copies();
    const uint32_t values = v_ + stage * S::kTileBytes;
    if (hides && __syncthreads_or(has_odd_values(values))) add_odd_values(tile, values);
    add_values(values, scores);
  }

  __device__ void multiply_keys(uint32_t keys, float (&scores)[S::kPerWarp][S::kKeys / 8][4]) const {
#pragma unroll
    for (int c = 0; c < S::kDim / 16; ++c) {
      uint32_t q[S::kPerWarp][4];
#pragma unroll
      for (int m = 0; m < S::kPerWarp; ++m)
        cuda::load_blocks(q[m], q_ + place<S>((warp_ * S::kPerWarp + m) * 16 + lane_ % 16, 2 * c + lane_ / 16));
#pragma unroll
      for (int n = 0; n < S::kKeys / 16; ++n) {
        uint32_t k[4];
        cuda::load_blocks(k, keys + place<S>(n * 16 + lane_ / 16 * 8 + lane_ % 8, 2 * c + lane_ / 8 % 2));
#pragma unroll
        for (int m = 0; m < S::kPerWarp; ++m) {
          cuda::multiply_add(scores[m][2 * n], q[m], k[0], k[1], Type());
          cuda::multiply_add(scores[m][2 * n + 1], q[m], k[2], k[3], Type());
        }
      }
    }
  }

  __device__ void make_terms(int tile) {
    const attest::Softmax<T> a = views();
#pragma unroll 1
    for (int index = static_cast<int>(threadIdx.x); index < S::kRows * S::kKeys; index += kThreads) {
      const int64_t i = first_ + index / S::kKeys, j = int64_t{tile} * S::kKeys + index % S::kKeys;
      const float added = i < a.length_q(b_) && j < past_key_ ? a.pair_term(b_, h_, i, j) : -INFINITY;
      terms_[index] = added == -INFINITY ? added : fmaxf(added * kLog2E, -kLargest);  // a finite bias stays finite
    }
    __syncthreads();
  }
  __device__ float& term(int m, int half, int key) const {
    return terms_[((warp_ * S::kPerWarp + m) * 16 + lane_ / 4 + half * 8) * S::kKeys + key];
  }

  /// Dot products become logits in base 2, -inf where hidden.
  __device__ void scale(int tile, bool hides, float (&scores)[S::kPerWarp][S::kKeys / 8][4]) const {
    const float factor = params().softmax_scale * kLog2E, cap = params().softcap * kLog2E;
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int key = n * 8 + lane_ % 4 * 2 + e % 2, j = tile * S::kKeys + key;
          float score = scores[m][n][e] * factor;
          if (S::kGeneral) {
            if (cap > 0) score = cap * tanh_fast(score / cap);
            const float added = term(m, e / 2, key);
            score = added == -INFINITY ? added : score + added;
          }
          if (hides && (j < rows_[m].begin[e / 2] || j >= rows_[m].end[e / 2])) score = -INFINITY;
          scores[m][n][e] = score;
        }
  }

  /// Logits become weights; what was summed before is scaled to the new largest logit.
  __device__ void weigh(float (&scores)[S::kPerWarp][S::kKeys / 8][4]) {
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = rows_[m].top[half];
#pragma unroll
        for (int n = 0; n < S::kKeys / 8; ++n) top = fmaxf(top, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
        top = largest_of_row(top);
        const float from = top == -INFINITY ? 0 : top, keep = cuda::exp2_fast(rows_[m].top[half] - from);
        float total = rows_[m].total[half] * keep;
#pragma unroll
        for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            scores[m][n][e] = cuda::exp2_fast(scores[m][n][e] - from);
            total += scores[m][n][e];
          }
        rows_[m].top[half] = top, rows_[m].total[half] = total;
#pragma unroll
        for (int d = 0; d < S::kDim / 8; ++d) sums_[m][d][2 * half] *= keep, sums_[m][d][2 * half + 1] *= keep;
      }
  }

  /// Weights of 16 keys as the left operand.
  __device__ static void pack_weights(const float (&scores)[S::kKeys / 8][4], int keys, uint32_t (&weights)[4]) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const float(&from)[4] = scores[2 * keys + part / 2];
      weights[part] = cuda::pack(from[part % 2 * 2], from[part % 2 * 2 + 1], Type());
    }
  }

  __device__ void add_values(uint32_t values, const float (&scores)[S::kPerWarp][S::kKeys / 8][4]) {
#pragma unroll
    for (int keys = 0; keys < S::kKeys / 16; ++keys) {
      uint32_t weights[S::kPerWarp][4];
#pragma unroll
      for (int m = 0; m < S::kPerWarp; ++m) pack_weights(scores[m], keys, weights[m]);
#pragma unroll
      for (int d = 0; d < S::kDim / 16; ++d) {
        uint32_t v[4];
        cuda::load_blocks_transposed(v, values + place<S>(keys * 16 + lane_ % 16, 2 * d + lane_ / 16));
#pragma unroll
        for (int m = 0; m < S::kPerWarp; ++m) {
          cuda::multiply_add(sums_[m][2 * d], weights[m], v[0], v[1], Type());
          cuda::multiply_add(sums_[m][2 * d + 1], weights[m], v[2], v[3], Type());
        }
      }
    }
  }

  /// Whether this thread's part of a tile has an infinity or NaN.
  __device__ bool has_odd_values(uint32_t values) const {
    bool odd = false;
#pragma unroll 1
    for (uint32_t at = threadIdx.x * 4; at < S::kTileBytes; at += kThreads * 4) {
      const uint32_t pair = cuda::load_shared(values + at);
      odd |= finite_part<T>(pair) != pair;
    }
    return odd;
  }

  /// Adds infinities and NaN of a tile to the rows that see them, and makes them 0. Slow and rare.
  __device__ void add_odd_values(int tile, uint32_t values) {
#pragma unroll 1
    for (int n = 0; n < S::kKeys; ++n)
#pragma unroll 1
      for (int pair_at = 0; pair_at < S::kDim / 2; ++pair_at) {
        const uint32_t pair = cuda::load_shared(values + place<S>(n, pair_at / 4) + pair_at % 4 * 4);
        if (finite_part<T>(pair) == pair || pair_at % 4 != lane_ % 4) continue;
        const float odd[2] = {odd_part(pair & 0xffff), odd_part(pair >> 16)};
#pragma unroll
        for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            if (!sees(m, half, tile * S::kKeys + n)) continue;
#pragma unroll
            for (int d = 0; d < S::kDim / 8; ++d)
              if (d == pair_at / 4) sums_[m][d][2 * half] += odd[0], sums_[m][d][2 * half + 1] += odd[1];
          }
      }
    __syncthreads();
    for (uint32_t at = threadIdx.x * 4; at < S::kTileBytes; at += kThreads * 4)
      cuda::store_shared(values + at, finite_part<T>(cuda::load_shared(values + at)));
    __syncthreads();
  }
  /// The element as a float, 0 where it is finite.
  __device__ static float odd_part(uint32_t bits) {
    constexpr uint32_t kInfinity = Element<T>::kInfinity;
    const uint32_t magnitude = bits & 0x7fff;
    return magnitude < kInfinity ? 0 : magnitude > kInfinity ? NAN : bits >> 15 ? -INFINITY : INFINITY;
  }
  __device__ bool sees(int m, int half, int j) const {
    if (j < rows_[m].begin[half] || j >= rows_[m].end[half]) return false;
    return !S::kGeneral || term(m, half, j % S::kKeys) != -INFINITY;
  }

  __device__ void write() const {
    const attest::Softmax<T> a = views();
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float total = sum_of_row(rows_[m].total[half]), top = rows_[m].top[half];
        const int64_t i = row_of(m, half);
        if (i >= a.rows(b_)) continue;
        const bool sees = !(total == 0);  // NaN too: all of its logits may be
        const float scale = sees ? 1 / total : 0;
        const attest::Cell cell = a.query(b_, i);
        auto* o = reinterpret_cast<uint32_t*>(&a.o(cell.batch, h_, cell.row, 0));
#pragma unroll
        for (int d = 0; d < S::kDim / 8; ++d)
          if (d * 8 < a.p.head_dim_v)
            o[d * 4 + lane_ % 4] =
                sees ? cuda::pack(sums_[m][d][2 * half] * scale, sums_[m][d][2 * half + 1] * scale, Type()) : 0;
        if (a.lse && lane_ % 4 == 0) a.lse(cell.batch, h_, cell.row) = sees ? top * kLn2 + logf(total) : -INFINITY;
      }
  }

  const attest_problem& problem_;
  const cuda::Data& data_;
  const int64_t b_, h_, first_;
  float* const terms_;  // [kRows, kKeys], shared: added to the logits of this tile, in base 2; -inf where hidden
  const uint32_t q_, k_, v_;
  const int lane_, warp_;
  const Type *k_begin_ = nullptr, *v_begin_ = nullptr;
  int first_tile_ = 0, past_tile_ = 0, common_begin_ = 0, common_end_ = 0;
  int64_t past_key_ = 0;
  RowPair rows_[S::kPerWarp];
  float sums_[S::kPerWarp][S::kDim / 8][4] = {};
};

template <class T, class S>
__global__ void __launch_bounds__(kThreads)
    attend(const attest_problem* problem, const __grid_constant__ cuda::Data data, int64_t blocks) {
#if __CUDA_ARCH__ >= 800
  char* shared = cuda::dynamic_shared();
  const attest::Softmax<T> a(*problem, data.at);
  const int64_t tiles = (a.p.seq_len_q + S::kRows - 1) / S::kRows;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    // Last rows first: where the band is causal they have most to do.
    const int64_t tile = tiles - 1 - block / (a.p.batch * a.p.num_heads), pair = block % (a.p.batch * a.p.num_heads);
    const int64_t b = pair / a.p.num_heads, first = tile * S::kRows;
    if (first < a.rows(b)) Block<T, S>(*problem, data, b, pair % a.p.num_heads, first, shared).run();
    __syncthreads();
  }
#endif
}

/// Features that only the general version of the kernel knows.
constexpr uint64_t kGeneralFeatures = ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS | ATTEST_WITH_MASK | ATTEST_WITH_PAGES |
                                      ATTEST_WITH_ORDER | ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS | ATTEST_WITH_ALIBI;

class Flash {
 public:
  static constexpr attest::Info kInfo = {
      /*name=*/"flash_cuda",
      /*version=*/"1",
      /*summary=*/"tiles on tensor cores (mma.sync, sm_80 and up), O(N d) memory",
      /*operation=*/ATTEST_SOFTMAX,
      /*device=*/ATTEST_CUDA,
      /*dtypes=*/ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      /*features=*/ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL |
          ATTEST_WITH_LSE | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PATCHES | ATTEST_WITH_STRIDES |
          kGeneralFeatures};

  static const char* query(const attest_problem& problem, attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    if (p.head_dim > 256 || p.head_dim_v > 256) return "head sizes beyond 256";
    if (p.head_dim % 8 != 0 || p.head_dim_v % 8 != 0) return "head sizes that are no multiple of 8";
    if (p.seq_len_kv > INT32_MAX - 64) return "2^31 keys";
    if (cuda::capability() < 80) return "a device before sm_80";
    for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
      const attest_tensor& tensor = problem.tensor[role];
      if (tensor.dim[3] > 1 && tensor.stride[3] != 1) return "channels that do not lie side by side";
      for (int axis = 0; axis < 3; ++axis)
        if (tensor.stride[axis] % 8 != 0) return "rows that do not start on 16 bytes";
    }
    const int32_t dtype = problem.tensor[ATTEST_Q].dtype;
    support.qk_operand_dtype = support.pv_operand_dtype = dtype;
    return nullptr;
  }
  explicit Flash(const attest_problem& given) : problem(given), device_problem_(given) { at_launch(Prepare{}); }

  const attest_problem& problem;

  void run(void* const* data, void* /*workspace*/, void* stream) {
    at_launch(Launch{*this, cuda::Data(data), static_cast<cudaStream_t>(stream)});
  }

 private:
  /// Lets a kernel have more than 48 KiB of shared memory.
  struct Prepare {
    template <class T, class S>
    void operator()() const {
      cuda::check(cudaFuncSetAttribute(attend<T, S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes),
                  "cudaFuncSetAttribute");
    }
  };
  struct Launch {
    const Flash& plan;
    cuda::Data data;
    cudaStream_t stream;
    template <class T, class S>
    void operator()() const {
      const auto& p = attest::params<attest_softmax_params>(plan.problem);
      const int64_t blocks = (p.seq_len_q + S::kRows - 1) / S::kRows * p.batch * p.num_heads;
      cuda::launch(attend<T, S>, static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, S::kSharedBytes,
                   stream, plan.device_problem_.get(), data, blocks);
    }
  };

  template <class Body>
  void at_launch(const Body& body) const {
    if (problem.tensor[ATTEST_Q].dtype == ATTEST_F16)
      with_shape<attest::Half>(body);
    else
      with_shape<attest::BFloat16>(body);
  }
  template <class T, class Body>
  void with_shape(const Body& body) const {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const int64_t channels = p.head_dim > p.head_dim_v ? p.head_dim : p.head_dim_v;
    constexpr int kOnly = ATTEST_ONLY_HEAD_DIM;  // 0: all; else this one alone, for a quick compilation
    if constexpr (kOnly == 0 || kOnly == 32)
      if (channels <= 32 || kOnly) return with_version<T, Shape<32, 2, 64, false>, Shape<32, 1, 64, true>>(body);
    if constexpr (kOnly == 0 || kOnly == 64)
      if (channels <= 64 || kOnly) return with_version<T, Shape<64, 2, 64, false>, Shape<64, 1, 64, true>>(body);
    if constexpr (kOnly == 0 || kOnly == 128)
      if (channels <= 128 || kOnly) return with_version<T, Shape<128, 2, 32, false>, Shape<128, 1, 32, true>>(body);
    if constexpr (kOnly == 0 || kOnly == 256) with_version<T, Shape<256, 1, 32, false>, Shape<256, 1, 16, true>>(body);
  }
  template <class T, class Plain, class General, class Body>
  void with_version(const Body& body) const {
    if (problem.features & kGeneralFeatures)
      body.template operator()<T, General>();
    else
      body.template operator()<T, Plain>();
  }

  cuda::DeviceProblem device_problem_;
};

}  // namespace

ATTEST_PLUGIN(attest::table<Flash>())
