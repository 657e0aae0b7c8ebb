// Linear attention on tensor cores, from sm_80 on, with products of f32 by three products of tf32
// (3xTF32), of a 16-bit V, which is a tf32 as it is, by two. Q, K and V are read once where
// head_dim and head_dim_v are at most 64.
//
// What it costs is reading. So every warp keeps tiles of tokens on their way to shared memory, and
// works on one that has arrived, without waiting for other warps. The rows and columns of a product
// may be any channels, and what is summed over, any tokens. So a lane takes neighbouring channels
// of a row: one read of up to 16 bytes gives it its part of several operands. Rows of Q, K, V and O
// are therefore multiples of 16 bytes and begin on 16 bytes.
#pragma once
#include "cuda/device_problem.cuh"
#include "cuda/mma.cuh"

namespace linear_mma {

constexpr int kWarps = 4, kThreads = 32 * kWarps;  // of a block
constexpr int kMostTile = 64;  // channels on each side of the state that a warp has in registers

ATTEST_HD constexpr int smaller(int a, int b) { return a < b ? a : b; }

/// How kLanes lanes share the kTile channels of a row: each has pieces of up to 16 bytes, and
/// pieces of neighbouring lanes lie side by side.
template <int kTile, int kBytes, int kLanes>
struct Share {
  static constexpr int kOwn = kTile / kLanes, kPieceBytes = smaller(16, kOwn* kBytes),
                       kPieceWords = kPieceBytes / 4, kPiece = kPieceBytes / kBytes,
                       kPieces = kOwn / kPiece, kWords = kOwn * kBytes / 4;
  /// The channel that a lane counts as `own`.
  ATTEST_HD static constexpr int channel(int lane, int own) {
    return (own / kPiece * kLanes + lane) * kPiece + own % kPiece;
  }
  ATTEST_HD static constexpr int lane(int channel) { return channel / kPiece % kLanes; }
  ATTEST_HD static constexpr int own(int channel) {
    return channel / kPiece / kLanes * kPiece + channel % kPiece;
  }
};

/// What kernels for up to kDimension channels of kBytes bytes have in common.
template <int kDimension, int kBytes>
struct Shape {
  static constexpr int kDim = kDimension, kRowBytes = kDim * kBytes, kChunks = kRowBytes / 16;
  static constexpr int kTile = smaller(kDim, kMostTile);  // channels on a side of a warp's state
  static constexpr int kParts = kDim / kTile;
  static constexpr int kAcross = kTile / 8, kDown = kTile / 16;  // products of a warp's state
  static constexpr int64_t kState = kDim * (kDim + 1);           // floats of S and z
};

/// The kernel that sums over keys.
template <int kDimension, int kBytes>
struct KeyShape : Shape<kDimension, kBytes> {
  using Base = Shape<kDimension, kBytes>;
  static constexpr int kFold = kBytes == 2 ? 16 : 8;  // tokens summed before they join a long sum
  static constexpr int kKeys = kDimension <= 16 && kBytes == 2   ? 32
                               : kDimension <= 32 || kBytes == 2 ? 16
                                                                 : 8;  // of a tile
  static constexpr int kStages = 3;
  /// Warps that share their keys, each with its part of the channels of K and of V.
  static constexpr int kGroup = Base::kParts * Base::kParts;
  static constexpr int kTileBytes = kKeys * Base::kRowBytes, kStageBytes = 2 * kTileBytes;
  static constexpr int kSharedBytes = kWarps / kGroup * kStages * kStageBytes;
  // Blocks that a multiprocessor is to have registers for
  static constexpr int kResident = kDimension <= 32 ? 4 : 2;
  using Own = Share<Base::kTile, kBytes, 8>;

  /// Byte of byte `at` of row `row` of a tile. Chunks of 16 bytes are exchanged, so that lanes that
  /// read at a time find their pieces in different banks.
  ATTEST_HD static constexpr int place(int row, int at) {
    constexpr int kChunks = Base::kChunks;
    const int exchanged = kChunks >= 8 ? 2 * (row % 4) : kChunks == 4 ? row & 2 : 0;
    return row * Base::kRowBytes + ((at / 16 ^ exchanged) * 16 | at % 16);
  }
};

/// The kernel that reads the state out for queries. A block has kTile channels of O.
template <int kDimension, int kBytes>
struct QueryShape : Shape<kDimension, kBytes> {
  using Base = Shape<kDimension, kBytes>;
  static constexpr int kRowTiles = kDimension <= 64 ? 2 : 1,
                       kKeys = 16 * kRowTiles;  // queries of a tile
  /// Steps of 8 channels that are summed first. With four of them and two blocks a multiprocessor
  /// instead of three, 64 channels of 16 bits took 108 us instead of 124 on an H100 (40,000 tokens,
  /// 8 heads).
  static constexpr int kStages = 2, kFold = kDimension >= 64 && kBytes == 2 ? 4 : 2;
  static constexpr int kSteps = kDimension / 8;
  static constexpr int kStageBytes = kKeys * Base::kRowBytes;
  static constexpr int kOperandBytes = kDimension * Base::kTile * 8,  // S, split into two tf32
      kStateBytes = kOperandBytes + kDimension * 4;
  ATTEST_HD static constexpr int shared_bytes(int states) {
    return states * kStateBytes + kWarps * kStages * kStageBytes;
  }
  static constexpr int kSharedBytes = shared_bytes(1);
  static constexpr int kResident = kDimension <= 16 ? 4 : kDimension <= 32 ? 3 : 2;
  using OfQ = Share<kDimension, kBytes, 4>;
  using OfO = Share<Base::kTile, kBytes, 4>;

  ATTEST_HD static constexpr int place(int row, int at) {
    const int exchanged = Base::kChunks >= 8 ? 4 * (row % 2) : 0;
    return row * Base::kRowBytes + ((at / 16 ^ exchanged) * 16 | at % 16);
  }
};

/// How the work is cut. A team of warps, 1 or kWarps, has a chunk of keys, or a range of queries.
struct Work {
  float* states;          // [batch, num_kv_heads, chunks, Shape::kState]; chunk 0 becomes the sum
  int64_t chunk, chunks;  // keys of a chunk, chunks of a key head
  int64_t range, ranges;  // queries of a range, ranges of a head
  int key_team, query_team;  // warps
};

template <class T>
struct Storage;
template <>
struct Storage<attest::Half> {
  using Type = __half;
  static constexpr uint32_t kMinusInfinity = 0xfc00fc00;  // whose phi is 0; as many as in a word
};
template <>
struct Storage<attest::BFloat16> {
  using Type = __nv_bfloat16;
  static constexpr uint32_t kMinusInfinity = 0xff80ff80;
};
template <>
struct Storage<float> {
  static constexpr uint32_t kMinusInfinity = 0xff800000;
};

template <int kCount>
struct alignas(4 * kCount) Words {
  uint32_t at[kCount];
};
struct alignas(16) Floats {
  float at[4];
};

/// The element of that number in words of elements.
template <class T>
__device__ inline float element(const uint32_t* words, int number) {
  if constexpr (sizeof(T) == 4)
    return __uint_as_float(words[number]);
  else
    return cuda::as_float(words[number / 2] >> 16 * (number % 2), typename Storage<T>::Type());
}

/// elu + 1 without a branch, which lanes would take both ways. NaN stays NaN, -inf gives 0.
template <class T>
__device__ inline float phi(float x) {
  const bool below = x < 0;
  const float exponent = below ? x : 0, rest = below ? 0 : x;
  if constexpr (sizeof(T) == 2)
    return rest + cuda::exp2_fast(exponent * 1.4426950408889634f);
  else
    return rest + expf(exponent);
}
/// The largest relative error of phi where it is exp. In float32 two units in the last place, as
/// CUDA's manual has it for expf. For 16-bit elements that of exp2_fast, 2^-22, and what half a
/// unit in the last place of the exponent, up to 2^-18, and of log2(e), 2^-26.2 times 126, make of
/// it.
template <class T>
constexpr float kPhiError = sizeof(T) == 2 ? 4.2e-6f : 2.4e-7f;

template <class S>
__device__ inline void load_piece(uint32_t* words, const char* from) {
  const auto piece = *reinterpret_cast<const Words<S::kPieceWords>*>(from);
#pragma unroll
  for (int n = 0; n < S::kPieceWords; ++n) words[n] = piece.at[n];
}

/// How one of `copiers` threads copies tiles of kRows rows of a tensor's head to shared memory: a
/// chunk of 16 bytes of each kStep-th row, the same in all of them.
template <class T, class S, int kCopiers>
class Copier {
 public:
  __device__ Copier(const attest::View<T>& view, int64_t b, int64_t h, int64_t first,
                    int64_t channels, int copier)
      : row_(copier / S::kChunks),
        chunk_(copier % S::kChunks),
        there_(chunk_ * kEach < channels),
        stride_(view.stride(2)),
        from_(&view(b, h, 0, 0) + (first + row_) * stride_ + (there_ ? chunk_ * kEach : 0)) {}

  /// Copies the rows whose bits are set, zeros for others and beyond the channels, of which nothing
  /// is read.
  __device__ void copy(char* tile, uint32_t counting) const {
    const T* from = from_;
#pragma unroll
    for (int row = 0; row < S::kKeys; row += kStep) {
      cuda::copy_async(cuda::shared_address(tile + S::place(row + row_, chunk_ * 16)), from,
                       there_ && (counting >> (row + row_) & 1));
      from += kStep * stride_;
    }
  }
  /// Goes on by some rows.
  __device__ void go_on(int64_t rows) { from_ += rows * stride_; }

 private:
  static constexpr int kEach = 16 / sizeof(T), kStep = kCopiers / S::kChunks;
  static_assert(kCopiers % S::kChunks == 0 && S::kKeys % kStep == 0);
  const int row_, chunk_;
  const bool there_;
  const int64_t stride_;
  const T* from_;
};

/// Which rows of the next tile count. Each lane asks for one row, a tile ahead, so that nobody
/// waits for the mask.
class Counting {
 public:
  /// `mask`: of the first row, or null; then of rows `stride` apart. `left`: rows from the first
  /// on. `rows`: of a tile.
  __device__ Counting(const uint8_t* mask, int64_t stride, int left, int rows) : stride_(stride) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    left_ = lane < rows ? left - lane : 0;
    mask_ = mask ? mask + lane * stride : nullptr;
    ask();
  }
  /// Bit r: row r of the tile counts. Goes on by some rows.
  __device__ uint32_t take(int rows) {
    const uint32_t all = __ballot_sync(0xffffffff, counts_);
    left_ -= rows;
    if (mask_) mask_ += rows * stride_;
    ask();
    return all;
  }

 private:
  __device__ void ask() { counts_ = left_ > 0 && (!mask_ || *mask_); }
  const uint8_t* mask_;
  const int64_t stride_;
  int left_;
  bool counts_;
};

/// The right operand of a product of [16, 8] and [8, 8] floats, split into two tf32.
struct Right {
  uint32_t big[2], small[2];
};

/// sums += left right over kSteps steps of 8. Without kSmallRight the right side is a tf32 as it
/// is. Products are summed apart, the small ones first, and then added with rounding: tensor cores
/// cut what they add up.
template <bool kSmallRight, int kSteps>
__device__ inline void multiply_add(float (&sums)[4], const cuda::Left<float> (&left)[kSteps],
                                    const Right (&right)[kSteps]) {
  float own[4] = {};
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    if (!cuda::planted(cuda::Bug::kSmallOfLeft))
      cuda::mma_tf32(own, left[s].small, right[s].big[0], right[s].big[1]);
    if (kSmallRight && !cuda::planted(cuda::Bug::kSmallOfRight))
      cuda::mma_tf32(own, left[s].big, right[s].small[0], right[s].small[1]);
  }
#pragma unroll
  for (int s = 0; s < kSteps; ++s)
    cuda::mma_tf32(own, left[s].big, right[s].big[0], right[s].big[1]);
#pragma unroll
  for (int n = 0; n < 4; ++n) sums[n] += own[n];
}

/// Waits for the warps that share a tile.
template <bool kBlock>
__device__ inline void meet() {
  if constexpr (kBlock)
    __syncthreads();
  else
    __syncwarp();
}

// --- Keys ---

/// What a warp sums of the keys of a chunk. Product (m, n) of its part of S has in row r, for lane
/// 4 g + t, the channels Own::channel(r % 8, 2 m + r / 8) of K, and in column r
/// Own::channel(r, n) of V.
template <class T, class S>
class KeySums {
 public:
  static constexpr int kFloats = S::kTile * S::kTile + S::kTile;

  __device__ KeySums()
      : lane_(static_cast<int>(threadIdx.x) % 32), warp_(static_cast<int>(threadIdx.x) / 32) {}

  /// Adds the keys from `first` on, of which there are `left`, in tiles that begin `stride` apart.
  __device__ void add(const attest::Linear<T>& a, int64_t b, int64_t kv, int64_t first, int left,
                      int stride) {
    constexpr int kCopiers = 32 * S::kGroup;
    const int copier = S::kGroup > 1 ? static_cast<int>(threadIdx.x) : lane_;
    Copier<T, S, kCopiers> keys(a.k, b, kv, first, a.p.head_dim, copier),
        values(a.v, b, kv, first, a.p.head_dim_v, copier);
    Counting rows(a.mask ? &a.mask(b, 0, 0, first) : nullptr, a.mask ? a.mask.stride(3) : 0, left,
                  S::kKeys);
    char* ring = cuda::dynamic_shared() + warp_ / S::kGroup * S::kStages * S::kStageBytes;
    const auto copy = [&](int stage) {
      const uint32_t counting = rows.take(stride);
      if (left > 0) {
        keys.copy(ring + stage * S::kStageBytes, counting);
        values.copy(ring + stage * S::kStageBytes + S::kTileBytes, counting);
        keys.go_on(stride);
        values.go_on(stride);
      }
      left -= stride;
      cuda::commit_copies();
      return counting;
    };
    uint32_t counting[S::kStages];
#pragma unroll
    for (int stage = 0; stage < S::kStages - 1; ++stage) counting[stage] = copy(stage);
    int stage = 0;
    while (left + (S::kStages - 1) * stride > 0) {
      cuda::wait_copies<S::kStages - 2>();
      meet<(S::kGroup > 1)>();  // everybody has read what was in the stage before this one
      counting[S::kStages - 1] = copy((stage + S::kStages - 1) % S::kStages);
      add_tile(ring + stage * S::kStageBytes, counting[0]);
#pragma unroll
      for (int n = 0; n + 1 < S::kStages; ++n) counting[n] = counting[n + 1];
      stage = (stage + 1) % S::kStages;
    }
#pragma unroll
    for (int x = 0; x < Own::kOwn; ++x)
      for (int step = 1; step < 4; step *= 2) z_[x] += __shfl_xor_sync(0xffffffff, z_[x], step);
  }

  /// Gives warp 0 of the block the sums of all warps, added in a fixed order.
  __device__ void add_warps() {
    float* room = reinterpret_cast<float*>(cuda::dynamic_shared());  // the ring has been read
    if (!cuda::planted(cuda::Bug::kNoBarrier)) __syncthreads();
    for (int half = kWarps / 2; half > 0; half /= 2) {
      if (warp_ >= half && warp_ < 2 * half) save(room + (warp_ - half) * kFloats);
      __syncthreads();
      if (warp_ < half) add_saved(room + warp_ * kFloats);
      __syncthreads();
    }
  }

  /// Writes this warp's part of a state. A state has S by parts, [parts of V][parts of K] of
  /// products [kDown][kAcross][32 lanes][4], then z by channels.
  __device__ void store(float* state) {
    const int of_k = warp_ % S::kGroup % S::kParts, of_v = warp_ % S::kGroup / S::kParts;
    save_products(state + (of_v * S::kParts + of_k) * S::kTile * S::kTile);
    if (of_v == 0) save_z(state + S::kDim * S::kDim + of_k * S::kTile);
  }

 private:
  using Own = typename S::Own;

  __device__ void add_tile(const char* keys, uint32_t counting) {
    constexpr int kSteps = S::kFold / 8;
    const int g = lane_ / 4, t = lane_ % 4;
    const int of_k = warp_ % S::kGroup % S::kParts * S::kTile * static_cast<int>(sizeof(T)),
              of_v = warp_ % S::kGroup / S::kParts * S::kTile * static_cast<int>(sizeof(T));
#pragma unroll 1
    for (int fold = 0; fold < S::kKeys; fold += S::kFold) {
      // This lane's channels of keys t, t + 4 of each step
      uint32_t k[2 * kSteps][Own::kWords], v[2 * kSteps][Own::kWords];
#pragma unroll
      for (int n = 0; n < 2 * kSteps; ++n) {
        const int row = fold + 4 * n + t;
#pragma unroll
        for (int piece = 0; piece < Own::kPieces; ++piece) {
          const int at = (piece * 8 + g) * Own::kPieceBytes, word = piece * Own::kPieceWords;
          load_piece<Own>(k[n] + word, keys + S::place(row, of_k + at));
          load_piece<Own>(v[n] + word, keys + S::kTileBytes + S::place(row, of_v + at));
        }
#pragma unroll
        for (int word = 0; word < Own::kWords; ++word)
          if (!(counting >> row & 1)) k[n][word] = Storage<T>::kMinusInfinity;
      }
      Right right[S::kAcross][kSteps];
#pragma unroll
      for (int n = 0; n < S::kAcross; ++n)
#pragma unroll
        for (int s = 0; s < kSteps; ++s)
          right[n][s] = right_of(element<T>(v[2 * s], n), element<T>(v[2 * s + 1], n));
#pragma unroll
      for (int m = 0; m < S::kDown; ++m) {
        cuda::Left<float> left[kSteps];
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
          uint32_t features[4];  // of key t in rows g and g + 8, of key t + 4
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            const float feature = phi<T>(element<T>(k[2 * s + n / 2], 2 * m + n % 2));
            z_[2 * m + n % 2] += feature;
            features[n] = __float_as_uint(feature);
          }
          left[s].set(features);
        }
#pragma unroll
        for (int n = 0; n < S::kAcross; ++n)
          multiply_add<kSplitsValues>(sums_[m][n], left, right[n]);
      }
    }
  }
  static constexpr bool kSplitsValues = sizeof(T) == 4;
  __device__ static Right right_of(float first, float second) {
    if constexpr (kSplitsValues) {
      const cuda::Split a(__float_as_uint(first)), b(__float_as_uint(second));
      return {{a.big, b.big}, {a.small, b.small}};
    } else {
      return {{__float_as_uint(first), __float_as_uint(second)}, {}};
    }
  }

  __device__ void save_products(float* to) const {
#pragma unroll
    for (int m = 0; m < S::kDown; ++m)
#pragma unroll
      for (int n = 0; n < S::kAcross; ++n) {
        const float(&sums)[4] = sums_[m][n];
        reinterpret_cast<Floats*>(to)[(m * S::kAcross + n) * 32 + lane_] = {
            {sums[0], sums[1], sums[2], sums[3]}};
      }
  }
  __device__ void save_z(float* to) const {
    if (lane_ % 4 != 0) return;
#pragma unroll
    for (int x = 0; x < Own::kOwn; ++x) to[Own::channel(lane_ / 4, x)] = z_[x];
  }
  __device__ void save(float* to) const {
    save_products(to);
    save_z(to + S::kTile * S::kTile);
  }
  __device__ void add_saved(const float* from) {
#pragma unroll
    for (int m = 0; m < S::kDown; ++m)
#pragma unroll
      for (int n = 0; n < S::kAcross; ++n) {
        const Floats more =
            reinterpret_cast<const Floats*>(from)[(m * S::kAcross + n) * 32 + lane_];
#pragma unroll
        for (int e = 0; e < 4; ++e) sums_[m][n][e] += more.at[e];
      }
#pragma unroll
    for (int x = 0; x < Own::kOwn; ++x)
      z_[x] += from[S::kTile * S::kTile + Own::channel(lane_ / 4, x)];
  }

  const int lane_, warp_;
  float sums_[S::kDown][S::kAcross][4] = {}, z_[Own::kOwn] = {};
};

/// Sums the states of chunks of keys. A block has a chunk, or each of its warps one.
template <class T, class S>
__global__ void __launch_bounds__(kThreads, S::kResident)
    sum_keys(const attest_problem* problem, const __grid_constant__ cuda::Data data,
             const __grid_constant__ Work work, int64_t blocks) {
  if (cuda::before_sm80()) return;
  const attest::Linear<T> a(*problem, data.at);
  const int warp = static_cast<int>(threadIdx.x) / 32, team = work.key_team;
  const int64_t tasks = a.p.batch * a.p.num_kv_heads * work.chunks;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t task = block * (kWarps / team) + warp / team;
    KeySums<T, S> sums;
    if (task < tasks) {
      const int64_t head = task / work.chunks, begin = task % work.chunks * work.chunk,
                    past = min(begin + work.chunk, a.p.seq_len_kv);
      const int64_t end = cuda::planted(cuda::Bug::kChunkBound) ? past - S::kKeys : past;
      const int takers = team / S::kGroup;
      const int64_t first = begin + warp % team / S::kGroup * S::kKeys;
      sums.add(a, head / a.p.num_kv_heads, head % a.p.num_kv_heads, first,
               static_cast<int>(end - first), takers * S::kKeys);
    }
    cuda::let_next_launch_begin();
    const bool apart = team > S::kGroup;  // warps have sums of the same channels
    if (apart) sums.add_warps();
    if (task < tasks && (!apart || warp == 0)) sums.store(work.states + task * S::kState);
    __syncthreads();
  }
}

// --- Queries ---

/// A state in shared memory: S as right operands of products, [kSteps][kAcross][32 lanes], then z.
/// Step s has for lane 4 g + t the channels OfQ::channel(t, 2 s) and (t, 2 s + 1) of S, and product
/// n in column g OfO::channel(g / 2, 2 n + g % 2) of V.
template <class S>
struct State {
  char* at;

  __device__ Words<4>* operands() const { return reinterpret_cast<Words<4>*>(at); }
  __device__ float* z() const { return reinterpret_cast<float*>(at + S::kOperandBytes); }

  /// Loads it by `threads` threads, of which this is `thread`; zeros beyond the channels that there
  /// are. `of_v`: which kTile channels of V.
  template <class Own>
  __device__ void load(const float* state, const attest_linear_params& p, int of_v, int thread,
                       int threads) const {
    constexpr int kPart = S::kTile * S::kTile;
    const float* from = state + of_v * S::kParts * kPart;
    for (int index = thread; index < S::kParts * kPart / 4; index += threads) {
      const Floats four = reinterpret_cast<const Floats*>(from)[index];
      const int lane = index % 32, n = index / 32 % S::kAcross,
                m = index / 32 / S::kAcross % S::kDown, of_k = index * 4 / kPart;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int c = of_k * S::kTile + Own::channel(lane / 4, 2 * m + e / 2),
                  v = Own::channel(lane % 4 * 2 + e % 2, n);
        const bool there = c < p.head_dim && of_v * S::kTile + v < p.head_dim_v;
        put(c, v, there ? four.at[e] : 0);
      }
    }
    for (int c = thread; c < S::kDim; c += threads)
      z()[c] = c < p.head_dim ? state[S::kDim * S::kDim + c] : 0;
  }

 private:
  __device__ void put(int c, int v, float value) const {
    using OfQ = typename S::OfQ;
    using OfO = typename S::OfO;
    const int step = OfQ::own(c) / 2, n = OfO::own(v) / 2,
              lane = (OfO::lane(v) * 2 + OfO::own(v) % 2) * 4 + OfQ::lane(c);
    const cuda::Split split(__float_as_uint(value));
    uint32_t* words = operands()[(step * S::kAcross + n) * 32 + lane].at + OfQ::own(c) % 2;
    words[0] = split.big;
    words[2] = split.small;
  }
};

template <class T, class S>
class Queries {
 public:
  /// For the queries from `first` on, of which there are `left`, in tiles that begin `stride`
  /// apart. `ring`: of this warp. The first tile is then on its way.
  __device__ Queries(const attest::Linear<T>& a, int64_t b, int64_t h, int64_t first, int left,
                     int stride, int of_v, State<S> state, char* ring)
      : state_(state),
        ring_(ring),
        lane_(static_cast<int>(threadIdx.x) % 32),
        stride_(stride),
        eps_(a.p.eps),
        channels_(static_cast<int>(a.p.head_dim_v) - of_v * S::kTile),
        o_stride_(a.o.stride(2)),
        left_(left),
        o_(&a.o(b, h, 0, of_v * S::kTile) + (first + lane_ / 4) * o_stride_),
        queries_(a.q, b, h, first, a.p.head_dim, lane_),
        rows_(a.query_mask ? &a.query_mask(b, 0, first, 0) : nullptr,
              a.query_mask ? a.query_mask.stride(2) : 0, left, S::kKeys),
        counting_(copy(0)) {}

  /// Reads the state out for all of them.
  __device__ void run() {
    int stage = 0;
    while (left_ + stride_ > 0) {
      __syncwarp();  // everybody has read what was in the other stage
      const uint32_t next = copy(stage ^ 1);
      if (!cuda::planted(cuda::Bug::kNoWait)) cuda::wait_copies<1>();
      __syncwarp();
      read_tile(ring_ + stage * S::kStageBytes, counting_, left_ + 2 * stride_);
      o_ += stride_ * o_stride_;
      counting_ = next;
      stage ^= 1;
    }
    cuda::wait_copies<0>();
  }

 private:
  using OfQ = typename S::OfQ;
  using OfO = typename S::OfO;

  /// Starts the copies of the next tile. Returns which of its rows count.
  __device__ uint32_t copy(int stage) {
    const uint32_t counting = rows_.take(stride_);
    if (left_ > 0) queries_.copy(ring_ + stage * S::kStageBytes, counting);
    queries_.go_on(stride_);
    left_ -= stride_;
    cuda::commit_copies();
    return counting;
  }

  /// `left`: rows from the tile's first on.
  __device__ void read_tile(const char* tile, uint32_t counting, int left) const {
    const int g = lane_ / 4, t = lane_ % 4;
    float sums[S::kRowTiles][S::kAcross][4] = {}, totals[S::kRowTiles][2] = {};
#pragma unroll 1
    for (int piece = 0; piece < OfQ::kPieces; ++piece) {
      // This lane's channels of rows g and g + 8 of each 16
      uint32_t q[S::kRowTiles][2][OfQ::kPieceWords];
#pragma unroll
      for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const int row = 16 * m + 8 * n + g;
          load_piece<OfQ>(q[m][n], tile + S::place(row, (piece * 4 + t) * OfQ::kPieceBytes));
#pragma unroll
          for (int word = 0; word < OfQ::kPieceWords; ++word)
            if (!(counting >> row & 1)) q[m][n][word] = Storage<T>::kMinusInfinity;
        }
      const float* z = state_.z() + OfQ::channel(t, piece * OfQ::kPiece);
      constexpr int kFolds = OfQ::kPiece / 2 / S::kFold;
#pragma unroll
      for (int fold = 0; fold < kFolds; ++fold)
        add_steps(sums, totals, q, z, piece * OfQ::kPiece / 2, fold * S::kFold);
    }
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        float total = totals[m][n];
        for (int step = 1; step < 4; step *= 2) total += __shfl_xor_sync(0xffffffff, total, step);
        const int row = 16 * m + 8 * n;
        if (row + g < left) store_row(o_ + row * o_stride_, sums[m], n, total + eps_);
      }
  }

  /// Adds S::kFold steps, from `step` on of those of a piece, whose first is `base`.
  __device__ void add_steps(float (&sums)[S::kRowTiles][S::kAcross][4],
                            float (&totals)[S::kRowTiles][2],
                            const uint32_t (&q)[S::kRowTiles][2][OfQ::kPieceWords], const float* z,
                            int base, int step) const {
    cuda::Left<float> left[S::kRowTiles][S::kFold];
#pragma unroll
    for (int s = 0; s < S::kFold; ++s)
#pragma unroll
      for (int m = 0; m < S::kRowTiles; ++m) {
        uint32_t features[4];  // of rows g and g + 8, then the same of the next channel
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int channel = 2 * (step + s) + n / 2;
          const float feature = phi<T>(element<T>(q[m][n % 2], channel));
          totals[m][n % 2] = fmaf(feature, z[channel], totals[m][n % 2]);
          features[n] = __float_as_uint(feature);
        }
        left[m][s].set(features);
      }
    const Words<4>* operands = state_.operands() + (base + step) * (S::kAcross * 32) + lane_;
#pragma unroll
    for (int n = 0; n < S::kAcross; ++n) {
      Right right[S::kFold];
#pragma unroll
      for (int s = 0; s < S::kFold; ++s) {
        const Words<4> words = operands[(s * S::kAcross + n) * 32];
        right[s] = {{words.at[0], words.at[1]}, {words.at[2], words.at[3]}};
      }
#pragma unroll
      for (int m = 0; m < S::kRowTiles; ++m) multiply_add<true>(sums[m][n], left[m], right);
    }
  }

  /// Writes this lane's channels of a row of O: element 2 n + e of them is sums[n][2 half + e] /
  /// total.
  __device__ void store_row(T* to, float (&sums)[S::kAcross][4], int half, float total) const {
    constexpr float kLeast = 0x1p-120f, kMost = 0x1p120f;  // whose reciprocals are exact enough
    if (total < kLeast || total > kMost) {
      const float scale = total < kLeast ? 0x1p64f : 0x1p-64f;
      total *= scale;
#pragma unroll
      for (int n = 0; n < S::kAcross; ++n) {
        sums[n][2 * half] *= scale;
        sums[n][2 * half + 1] *= scale;
      }
    }
    const float factor = 1 / total;
    uint32_t words[OfO::kWords];
#pragma unroll
    for (int n = 0; n < S::kAcross; ++n) {
      const float o[] = {sums[n][2 * half] * factor, sums[n][2 * half + 1] * factor};
      if constexpr (sizeof(T) == 4) {
        words[2 * n] = __float_as_uint(o[0]);
        words[2 * n + 1] = __float_as_uint(o[1]);
      } else {
        words[n] = cuda::pack(o[0], o[1], typename Storage<T>::Type());
      }
    }
#pragma unroll
    for (int piece = 0; piece < OfO::kPieces; ++piece) {
      const int channel = OfO::channel(lane_ % 4, piece * OfO::kPiece);
      if (channel >= channels_) continue;
      Words<OfO::kPieceWords> out;
#pragma unroll
      for (int n = 0; n < OfO::kPieceWords; ++n) out.at[n] = words[piece * OfO::kPieceWords + n];
      *reinterpret_cast<Words<OfO::kPieceWords>*>(to + channel) = out;
    }
  }

  const State<S> state_;
  char* const ring_;
  const int lane_, stride_;
  const float eps_;
  const int channels_;  // of O in this block's part, and beyond it
  const int64_t o_stride_;
  int left_;  // rows of which nothing has been copied
  T* o_;      // this lane's first row of the next tile, the part's first channel
  Copier<T, S, 32> queries_;
  Counting rows_;
  uint32_t counting_;  // rows of the tile that is on its way
};

/// Reads states out for ranges of queries. A block has a range, or each of its warps one. Its first
/// queries come while the launch before it, which makes the states, ends.
template <class T, class S>
__global__ void __launch_bounds__(kThreads, S::kResident)
    read_queries(const attest_problem* problem, const __grid_constant__ cuda::Data data,
                 const __grid_constant__ Work work, int64_t blocks) {
  if (cuda::before_sm80()) return;
  const attest::Linear<T> a(*problem, data.at);
  const int warp = static_cast<int>(threadIdx.x) / 32, team = work.query_team,
            states = kWarps / team;
  const int64_t across = (a.p.head_dim_v + S::kTile - 1) / S::kTile;
  const int64_t tasks = a.p.batch * a.p.num_heads * work.ranges * across;
  const State<S> state{cuda::dynamic_shared() + warp / team * S::kStateBytes};
  char* ring =
      cuda::dynamic_shared() + states * S::kStateBytes + warp * S::kStages * S::kStageBytes;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t own = block * states + warp / team, task = min(own, tasks - 1);
    const int of_v = static_cast<int>(task % across);
    const int64_t range = task / across % work.ranges, head = task / across / work.ranges,
                  b = head / a.p.num_heads, h = head % a.p.num_heads;
    const int64_t begin = range * work.range, end = min(begin + work.range, a.p.seq_len_q),
                  first = begin + warp % team * S::kKeys;
    Queries<T, S> queries(a, b, h, first, own < tasks ? static_cast<int>(end - first) : 0,
                          team * S::kKeys, of_v, state, ring);
    cuda::wait_for_launch_before();
    state.template load<Share<S::kTile, sizeof(T), 8>>(
        work.states + (b * a.p.num_kv_heads + a.kv_head(h)) * work.chunks * S::kState, a.p, of_v,
        static_cast<int>(threadIdx.x) % (32 * team), 32 * team);
    __syncthreads();
    queries.run();
    __syncthreads();
  }
}

// --- Short sequences ---

/// The kernel whose warps have a head each. In shared memory are of every warp the tiles of keys,
/// then the state, the tiles of queries.
template <int kDimension, int kBytes>
struct HeadShape {
  using Keys = KeyShape<kDimension, kBytes>;
  using Queries = QueryShape<kDimension, kBytes>;
  static constexpr int kDim = kDimension, kKeys = Keys::kKeys, kResident = Keys::kResident;
  static constexpr int kRingBytes = Keys::kStages * Keys::kStageBytes;
  static constexpr int kSharedBytes = kWarps * kRingBytes + Queries::shared_bytes(kWarps);
  static_assert(Keys::kGroup == 1 && Keys::kState * 4 <= kRingBytes);
};

/// Linear attention of heads of few tokens, each by one warp, which keeps the state to itself.
template <class T, class S>
__global__ void __launch_bounds__(kThreads, S::kResident)
    attend_short(const attest_problem* problem, const __grid_constant__ cuda::Data data) {
  using K = typename S::Keys;
  using Q = typename S::Queries;
  if (cuda::before_sm80()) return;
  const attest::Linear<T> a(*problem, data.at);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  char* keys = cuda::dynamic_shared() + warp * S::kRingBytes;
  char* rest = cuda::dynamic_shared() + kWarps * S::kRingBytes;
  const State<Q> state{rest + warp * Q::kStateBytes};
  char* ring = rest + kWarps * Q::kStateBytes + warp * Q::kStages * Q::kStageBytes;
  const int64_t heads = a.p.batch * a.p.num_heads;
  const int num_queries = static_cast<int>(a.p.seq_len_q),
            num_keys = static_cast<int>(a.p.seq_len_kv);
  for (int64_t head = blockIdx.x * int64_t{kWarps} + warp; head < heads;
       head += int64_t{gridDim.x} * kWarps) {
    const int64_t b = head / a.p.num_heads, h = head % a.p.num_heads;
    KeySums<T, K> sums;
    sums.add(a, b, a.kv_head(h), 0, num_keys, K::kKeys);
    Queries<T, Q> queries(a, b, h, 0, num_queries, Q::kKeys, 0, state, ring);
    __syncwarp();  // everybody has read the last keys
    float* summed = reinterpret_cast<float*>(keys);
    sums.store(summed);
    __syncwarp();
    state.template load<typename K::Own>(summed, a.p, 0, lane, 32);
    __syncwarp();
    queries.run();
    __syncwarp();
  }
}

}  // namespace linear_mma
