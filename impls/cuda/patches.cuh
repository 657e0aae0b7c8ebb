// Patches of tokens in 16-bit elements from sm_80 on: what a block of threads does with 128 rows of
// a patch (PTv3: 1,024 tokens that lie anywhere).
//
// All rows of a patch see the same keys, so nothing is hidden but what fills up the last tile. The
// rows of all keys in K and V are looked up once and stay in shared memory; the queries' are among
// them. Nothing of the problem is read in the loop over tiles, which has one barrier a tile: it
// waits for this tile's keys and values, then the next tile's are asked for.
#pragma once
#include "cuda/small_windows.cuh"

namespace flash {

/// Of a block: head sizes up to kDim.
template <int kHeadDim>
struct PatchShape {
  static constexpr int kDim = kHeadDim, kKeys = 64, kWarps = kDim <= 16 ? 8 : 4,
                       kThreads = 32 * kWarps;
  static constexpr int kPerWarp = kDim <= 16 ? 1 : 2,
                       kRows = 16 * kPerWarp * kWarps;             // blocks of 16 rows; rows
  static constexpr int kPerChunk = 8, kChunks = kDim / kPerChunk;  // of a row
  static constexpr int kRowBytes = kDim * 2, kTileBytes = kKeys * kRowBytes;
  static constexpr int kStageBytes = 2 * kTileBytes, kQueryBytes = kRows * kRowBytes;
  static constexpr int kSharedBytes = kQueryBytes + 2 * kStageBytes;  // the keys' rows come on top
  static constexpr int kOwnBytes = 256;
  static constexpr int kResident = kDim <= 16 ? 3 : 2;  // blocks that have registers together
};

/// What the kernel takes: block n has tile n % tiles of patch n / tiles % patches of head n / tiles
/// / patches % heads of a sequence.
struct PatchWork {
  RowsOf q, k, v, o, lse;  // lse.at: null where nobody wants it
  const int32_t* order;    // null: tokens are in the order of their patches
  int64_t order_sequence;  // elements from one sequence's to the next; 0: they share it
  int heads, heads_of_key;
  int tokens, patches;  // of a sequence
  int patch, tiles;     // of a patch: its tokens, its tiles of rows
  int chunks;           // of a row, with 8 channels each
  float scale;          // makes a logit in base 2 of a dot product
};

template <class T, class S>
class PatchBlock {
 public:
  using Type = typename Element<T>::Type;

  __device__ PatchBlock(const PatchWork& work, int block, char* shared)
      : work_(work),
        shared_(shared),
        key_rows_(reinterpret_cast<int*>(shared + S::kSharedBytes)),
        begin_(cuda::shared_address(shared)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {
    const int tile = block % work.tiles, patch = block / work.tiles % work.patches,
              pair = block / work.tiles / work.patches;
    head_ = pair % work.heads;
    sequence_ = pair / work.heads;
    const int first = patch * work.patch, past = min(first + work.patch, work.tokens);
    count_ = min(work.patch, work.tokens);
    first_key_ = past - min(past, work.patch);  // a short last patch is filled up
    row_ = first + tile * S::kRows - first_key_;
    rows_ = min(S::kRows, past - first - tile * S::kRows);
    const int kv_head = head_ / work.heads_of_key;
    for (int which = 0; which < 2; ++which) {
      const RowsOf& from = copied_tensor(which) == 0 ? work.k : work.v;
      begins_[which] = from.of(sequence_, kv_head) + copied_chunk() * 16;
      strides_[which] = from.token;
    }
  }

  __device__ void run() {
    if (rows_ <= 0) return;
    find_rows();
    __syncthreads();
    load_queries();
    load(0, 0);
    if (__syncthreads_or(walk<false>()) && !cuda::planted(cuda::Bug::kInfinitiesForgotten)) {
      load(0, 0);
      walk<true>();
    }
    write();
  }

 private:
  static constexpr int kTiles = S::kKeys / 8;  // of scores, 16 rows by 8 keys
  static constexpr int kRowsInTurn = S::kThreads / S::kChunks,
                       kChunksOfTile = S::kKeys * S::kChunks;
  static_assert(2 * kChunksOfTile % S::kThreads == 0);

  __device__ uint32_t keys(int stage) const {
    return begin_ + static_cast<uint32_t>(S::kQueryBytes + stage * S::kStageBytes);
  }
  __device__ uint32_t values(int stage) const { return keys(stage) + S::kTileBytes; }
  /// Of the tile of rows.
  __device__ int row_of(int m, int half) const {
    return (warp_ * S::kPerWarp + m) * 16 + lane_ / 4 + 8 * half;
  }
  __device__ static int copied_row(int turn) {
    return turn * kRowsInTurn + static_cast<int>(threadIdx.x) / S::kChunks;
  }
  /// K, 0, or V, 1. Where there are as many threads as chunks of both, each has one of them.
  __device__ static int copied_tensor(int which) {
    return kChunksOfTile < S::kThreads ? static_cast<int>(threadIdx.x) / kChunksOfTile : which;
  }
  __device__ static int copied_chunk() { return static_cast<int>(threadIdx.x) % S::kChunks; }

  __device__ void find_rows() const {
    const int32_t* const order =
        work_.order ? work_.order + sequence_ * work_.order_sequence + first_key_ : nullptr;
    for (int n = static_cast<int>(threadIdx.x); n < count_; n += S::kThreads)
      key_rows_[n] = order ? order[n] : first_key_ + n;
  }
  __device__ void load_queries() const {
    const char* const from = work_.q.of(sequence_, head_) + copied_chunk() * 16;
#pragma unroll
    for (int turn = 0; turn < S::kRows / kRowsInTurn; ++turn) {
      const int row = copied_row(turn);
      const bool there = row < rows_ && copied_chunk() < work_.chunks;
      const int64_t at = there ? key_rows_[row_ + row] : 0;
      cuda::copy_async(begin_ + place<S>(row, copied_chunk()),
                       there ? from + at * work_.q.token : work_.q.at, there);
    }
  }
  /// Starts to copy the keys and values of a tile; beyond the last key zeros.
  __device__ void load(int tile, int stage) const {
#pragma unroll
    for (int turn = 0; turn < 2 * kChunksOfTile / S::kThreads; ++turn) {
      const int which = turn * S::kThreads / kChunksOfTile, row = copied_row(turn) % S::kKeys,
                key = tile * S::kKeys + row;
      const bool there = key < count_ && copied_chunk() < work_.chunks;
      const int64_t at = there ? key_rows_[key] : 0;
      cuda::copy_async(keys(stage) + static_cast<uint32_t>(copied_tensor(which) * S::kTileBytes) +
                           place<S>(row, copied_chunk()),
                       begins_[which] + at * strides_[which], there);
    }
    cuda::commit_copies();
  }

  /// Goes over all tiles, of which the first is on its way. Returns whether some sum is no number.
  /// kCareful: infinities and NaN of V count with whatever weight.
  template <bool kCareful>
  __device__ bool walk() {
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        top_[m][half] = -INFINITY;
        total_[m][half] = 0;
      }
#pragma unroll
      for (int d = 0; d < S::kDim / 8; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums_[m][d][e] = 0;
    }
    const int tiles = (count_ + S::kKeys - 1) / S::kKeys;
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      const int stage = tile % 2;
      cuda::wait_copies<0>();
      if (!cuda::planted(cuda::Bug::kNoBarrier))
        __syncthreads();  // this tile is there, and everybody is done with the one before
      if (tile + 1 < tiles) load(tile + 1, 1 - stage);
      float scores[S::kPerWarp][kTiles][4] = {};
      multiply_keys(keys(stage), scores);
      if (tile + 1 == tiles && !cuda::planted(cuda::Bug::kTailSeen)) hide_tail(tile, scores);
      weigh(scores);
      add_values<kCareful>(values(stage), scores);
      if (kCareful) add_odd_values(values(stage), min(S::kKeys, count_ - tile * S::kKeys));
    }
    float odd = 0;  // NaN, if one of them is infinite or NaN
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int d = 0; d < S::kDim / 8; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e) odd = fmaf(sums_[m][d][e], 0, odd);
    return odd != 0;
  }

  __device__ void multiply_keys(uint32_t keys, float (&scores)[S::kPerWarp][kTiles][4]) const {
    const uint32_t rows_at = begin_ + place<S>(warp_ * S::kPerWarp * 16 + lane_ % 16, lane_ / 16),
                   keys_at = keys + place<S>(lane_ / 16 * 8 + lane_ % 8, lane_ / 8 % 2);
#pragma unroll
    for (int c = 0; c < S::kChunks / 2; ++c) {
      cuda::Left<Type> left[S::kPerWarp];
#pragma unroll
      for (int m = 0; m < S::kPerWarp; ++m) {
        uint32_t rows[4];
        cuda::load_blocks(rows, (rows_at ^ c * 32) + m * 16 * S::kRowBytes);
        left[m].set(rows);
      }
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        uint32_t k[4];
        cuda::load_blocks(k, (keys_at ^ c * 32) + n * 8 * S::kRowBytes);
#pragma unroll
        for (int m = 0; m < S::kPerWarp; ++m) {
          cuda::multiply_add(scores[m][n], left[m], cuda::Right<Type>{k[0], k[1]});
          cuda::multiply_add(scores[m][n + 1], left[m], cuda::Right<Type>{k[2], k[3]});
        }
      }
    }
  }
  __device__ void hide_tail(int tile, float (&scores)[S::kPerWarp][kTiles][4]) const {
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          // What a scale of whatever sign makes -inf
          if (tile * S::kKeys + n * 8 + lane_ % 4 * 2 + e % 2 >= count_)
            scores[m][n][e] = -INFINITY;
  }
  /// Dot products become weights; what was summed before is scaled to the new largest logit.
  __device__ void weigh(float (&scores)[S::kPerWarp][kTiles][4]) {
    const float scale = work_.scale;
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = -INFINITY;
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
          top = fmaxf(top, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
        top = fmaxf(top_[m][half], largest_of_row(top) * scale);
        const float from = top == -INFINITY ? 0 : top,
                    keep = fmaxf(cuda::exp2_fast(top_[m][half] - from), kSmallest);
        float total = total_[m][half] * keep;
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            scores[m][n][e] = cuda::exp2_fast(fmaf(scores[m][n][e], scale, -from));
            total += scores[m][n][e];
          }
        top_[m][half] = top;
        total_[m][half] = total;
#pragma unroll
        for (int d = 0; d < S::kDim / 8; ++d) {
          sums_[m][d][2 * half] *= keep;
          sums_[m][d][2 * half + 1] *= keep;
        }
      }
  }
  template <bool kCareful>
  __device__ void add_values(uint32_t values, const float (&weights)[S::kPerWarp][kTiles][4]) {
    const uint32_t values_at = values + place<S>(lane_ % 16, lane_ / 16);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      cuda::Left<Type> left[S::kPerWarp];
#pragma unroll
      for (int m = 0; m < S::kPerWarp; ++m) {
        uint32_t packed[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const float(&from)[4] = weights[m][n + part / 2];
          packed[part] = cuda::pack(from[part % 2 * 2], from[part % 2 * 2 + 1], Type());
        }
        left[m].set(packed);
      }
#pragma unroll
      for (int d = 0; d < S::kDim / 16; ++d) {
        uint32_t right[4];
        cuda::load_blocks_transposed(right, (values_at ^ d * 32) + n * 8 * S::kRowBytes);
        if (kCareful)
#pragma unroll
          for (uint32_t& word : right) word = finite_part<T>(word);
#pragma unroll
        for (int m = 0; m < S::kPerWarp; ++m) {
          cuda::multiply_add(sums_[m][2 * d], left[m], cuda::Right<Type>{right[0], right[1]});
          cuda::multiply_add(sums_[m][2 * d + 1], left[m], cuda::Right<Type>{right[2], right[3]});
        }
      }
    }
  }
  /// Adds infinities and NaN of a tile of V to all rows.
  __device__ void add_odd_values(uint32_t values, int keys) {
#pragma unroll 1
    for (int key = 0; key < keys; ++key)
#pragma unroll
      for (int d = 0; d < S::kDim / 8; ++d) {
        const uint32_t word =
            cuda::load_shared(values + place<S>(key, d) + static_cast<uint32_t>(lane_ % 4 * 4));
#pragma unroll
        for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
          for (int e = 0; e < 4; ++e) sums_[m][d][e] += odd_part<T>(word, e % 2);
      }
  }

  /// Rows of O by way of the warp's rows of Q, which are done with, so that a row is written in one
  /// piece.
  __device__ void write() const {
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float total = sum_of_row(total_[m][half]),
                    scale = total == 0 ? 0 : __fdividef(1, total);
        const int row = row_of(m, half);
        const uint32_t to = begin_ + place<S>(row, 0) + static_cast<uint32_t>(lane_ % 4 * 4);
#pragma unroll
        for (int d = 0; d < S::kDim / 8; ++d)
          cuda::store_shared(to ^ d * 16,
                             cuda::pack(cuda::scaled(sums_[m][d][2 * half], scale),
                                        cuda::scaled(sums_[m][d][2 * half + 1], scale), Type()));
        if (work_.lse.at && lane_ % 4 == 0 && row < rows_)
          *reinterpret_cast<float*>(work_.lse.of(sequence_, head_) +
                                    int64_t{key_rows_[row_ + row]} * work_.lse.token) =
              total == 0 ? -INFINITY : top_[m][half] * kLn2 + logf(total);
      }
    __syncthreads();
    char* const o = work_.o.of(sequence_, head_) + copied_chunk() * 16;
#pragma unroll
    for (int turn = 0; turn < S::kRows / kRowsInTurn; ++turn)
      if (const int row = copied_row(turn); row < rows_ && copied_chunk() < work_.chunks)
        *reinterpret_cast<Chunk*>(o + int64_t{key_rows_[row_ + row]} * work_.o.token) =
            *reinterpret_cast<const Chunk*>(shared_ + place<S>(row, copied_chunk()));
  }

  const PatchWork& work_;
  char* const shared_;   // a tile of queries, two stages of keys and values, then:
  int* const key_rows_;  // of all keys that the patch sees, [count_]
  const uint32_t begin_;
  const int lane_, warp_;
  int head_, sequence_;
  const char* begins_[2];  // what the thread copies of K and V, in token 0; by copied_tensor
  int strides_[2];         // bytes from a token to the next
  int first_key_, count_;  // position of the first key, how many there are
  int row_, rows_;         // the block's first row, counted from first_key_; how many there are
  float top_[S::kPerWarp][2], total_[S::kPerWarp][2];  // as RowPair has them
  float sums_[S::kPerWarp][S::kDim / 8][4];
};

}  // namespace flash
