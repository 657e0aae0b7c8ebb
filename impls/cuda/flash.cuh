// Tiled softmax attention on tensor cores: what a block of threads does with 16 to 128 rows, for
// flash_cuda.cu and window_cuda.cu, which have the kernels and say what they are about.
#pragma once
#include "cuda/device_problem.cuh"
#include "cuda/flash_shapes.hpp"
#include "cuda/mma.cuh"
#include "cuda/split.hpp"

namespace flash {

constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
constexpr float kLargest = 3.4028234663852886e38f;
constexpr float kExp2Error = 2.4e-7f;  // 2^-22, as the PTX manual has it for ex2.approx.ftz
constexpr float kSmallest = 1.401298464324817e-45f;  // above 0; no infinity becomes NaN by it

/// Byte of a chunk of 16 bytes in shared memory, where rows have kChunks of them. Chunks of a row
/// are permuted by its number, so that one chunk of 8 rows lies in 8 different groups of banks.
template <int kChunks>
__device__ inline uint32_t place_in_rows(int row, int chunk) {
  constexpr int kRowsInLine = kChunks >= 8 ? 1 : 8 / kChunks,
                kMask = (kChunks < 8 ? kChunks : 8) - 1;
  return static_cast<uint32_t>((row * kChunks + (chunk ^ (row / kRowsInLine & kMask))) * 16);
}
/// The same in a tile of Q, K or V.
template <class S>
__device__ inline uint32_t place(int row, int chunk) {
  return place_in_rows<S::kChunks>(row, chunk);
}

template <class T>
struct Element;
template <>
struct Element<attest::Half> {
  using Type = __half;
  static constexpr bool kBeforeSm80 = true;  // tensor cores take it
  static constexpr uint32_t kInfinity = 0x7c00;
};
template <>
struct Element<attest::BFloat16> {
  using Type = __nv_bfloat16;
  static constexpr bool kBeforeSm80 = false;
  static constexpr uint32_t kInfinity = 0x7f80;
};

template <>
struct Element<float> {
  using Type = float;
  static constexpr bool kBeforeSm80 = false;
  static constexpr uint32_t kInfinity = 0x7f800000;
};

/// Whether a kernel of this shape is there on the device that the code is compiled for.
template <class T, class S>
__device__ constexpr bool runs_here() {
#if __CUDA_ARCH__ >= 800
  return true;
#elif __CUDA_ARCH__ >= 750
  return Element<T>::kBeforeSm80 && S::kSharedBytes + S::kOwnBytes <= 64 << 10;
#else
  return false;
#endif
}

/// The two elements of a word, or the one, with 0 in place of what is not finite; what tf32 rounds
/// to infinity gives way a little.
template <class T>
__device__ uint32_t finite_part(uint32_t word) {
  constexpr uint32_t kInfinity = Element<T>::kInfinity;
  if constexpr (sizeof(T) == 4) {
    constexpr uint32_t kSign = 0x80000000, kMost = 0x7f7fefff;
    const uint32_t magnitude = word & ~kSign;
    return magnitude >= kInfinity ? 0 : magnitude > kMost ? (word & kSign) | kMost : word;
  } else {
    constexpr uint32_t kLow = kInfinity, kHigh = kLow << 16;
    return ((word & kLow) == kLow ? 0 : word & 0xffff) |
           ((word & kHigh) == kHigh ? 0 : word & 0xffff0000);
  }
}
/// One of the elements of a word as a float, 0 where it is finite.
template <class T>
__device__ float odd_part(uint32_t word, int which) {
  constexpr uint32_t kInfinity = Element<T>::kInfinity,
                     kMagnitude = sizeof(T) == 4 ? 0x7fffffff : 0x7fff;
  const uint32_t bits = sizeof(T) == 4 ? word : word >> which * 16 & 0xffff,
                 magnitude = bits & kMagnitude;
  return magnitude < kInfinity   ? 0
         : magnitude > kInfinity ? NAN
         : bits > kMagnitude     ? -INFINITY
                                 : INFINITY;
}

/// kCount rows of a tile, row r from address(r); rows and chunks beyond what is there are 0.
template <class S, int kCount, class Address>
__device__ void load_tile(uint32_t to, int rows, int chunks, const Address& address) {
  for (int index = static_cast<int>(threadIdx.x); index < kCount * S::kChunks;
       index += S::kThreads) {
    const int row = index / S::kChunks, chunk = index % S::kChunks;
    const bool there = row < rows && chunk < chunks;
    cuda::copy_async(to + place<S>(row, chunk),
                     address(there ? row : 0) + (there ? chunk : 0) * S::kPerChunk, there);
  }
}

/// The same of rows `stride` elements apart from `from` on. Every thread has one chunk of rows that
/// are a multiple of 8 apart, so that their places are too, and addresses are made by adding.
template <class S, int kCount, class Type>
__device__ void load_rows(uint32_t to, int rows, int chunks, const Type* from, int64_t stride) {
  constexpr int kRowsInTurn = S::kThreads / S::kChunks;
  if constexpr (kRowsInTurn > 0 && kRowsInTurn % 8 == 0) {
    const int first = static_cast<int>(threadIdx.x) / S::kChunks,
              chunk = static_cast<int>(threadIdx.x) % S::kChunks;
    to += place<S>(first, chunk);
    from += chunk * S::kPerChunk;
    const Type* const begin = from;
    from += first * stride;
    const int there = chunk < chunks ? rows - first : 0;
#pragma unroll
    for (int turn = 0; turn < kCount / kRowsInTurn; ++turn, from += kRowsInTurn * stride) {
      if (cuda::planted(cuda::Bug::kIndexOf32Bits))
        from = begin + static_cast<int32_t>((first + turn * kRowsInTurn) * stride);
      cuda::copy_async(to + turn * kRowsInTurn * S::kChunks * 16, from, turn * kRowsInTurn < there);
    }
  } else {
    load_tile<S, kCount>(to, rows, chunks, [&](int row) { return from + row * stride; });
  }
}

/// For 16-bit operands to some 1e-7, which is little beside what they make of a score.
template <class T>
__device__ float tanh_of(float x) {
  if (sizeof(T) == 4) return tanhf(x);
  const float bounded = x > 20 ? 20 : x;  // fminf would drop NaN
  return 1 - __fdividef(2, 1 + cuda::exp2_fast(2 * kLog2E * bounded));
}

/// The largest, and the sum, over the four lanes that share a row.
__device__ inline float largest_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
__device__ inline float sum_of_row(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

/// The two rows of a 16-row block that a lane has a part of: what they may see, and what they have
/// seen so far.
struct RowPair {
  int begin[2], end[2];
  float top[2], total[2];  // largest logit in base 2, sum of 2^(logit - top) over this lane's keys
};

/// A term as it is added to logits in base 2. A finite one stays finite; fmaxf would drop NaN.
ATTEST_HD inline float in_base_2(float term) {
  const float scaled = term * kLog2E;
  return term != -INFINITY && scaled < -kLargest ? -kLargest : scaled;
}

/// Where a tile's terms of pairs come from.
enum class Terms {
  kNone,
  kTable,  // made in shared memory, in base 2
  kBias,   // BIAS of 16 bits, copied as it is
  kMask,   // MASK, copied as it is
};
/// MASK or BIAS, if it is all that pairs have and can be copied as it lies in memory.
struct RawTerms {
  const char* from;  // of the task's first row and the first key of all tiles
  int64_t row_bytes;
  int rows;   // that are queries
  int piece;  // bytes that are copied at once: 4, 8 or 16; 0: it cannot be copied
  bool is_mask;
};

/// What is added to the logits of pairs inside one window of a grid: a table of one head's relative
/// bias, and for each place of the window where its row and column stand in that table; what is
/// above 16 bits differs where rolling alone brought two together.
struct WindowTerms {
  const float* table;  // shared, as the arrays below
  const int* codes;    // [places of the window]
  int64_t first;       // place of the window
  int centre;
  float shift_bias;
};

/// What a block computes: kRows rows from `first` on of sequence b, where row r is query r / pack
/// of head `head` + r % pack (query heads that share keys are packed into one tile where queries
/// are few); of their keys' tiles, the part that is its split's.
struct Task {
  int64_t b, head, kv_head, first, past;  // no row from `past` on
  int pack, split, splits;
  float* partial;  // of all splits, where there is more than one
  const WindowTerms*
      window;  // of Kind::kWindow, in place of attest.hpp's terms of pairs; null: pairs have none
  const int* key_rows;  // shared: the rows in K and V of all keys, from the first that any row
                        // sees; null: to be asked for one by one
};

/// What a split leaves of a row: the largest logit in base 2, and the sum of 2^(logit - top). Its
/// sums of V are not divided yet.
struct Part {
  float top, total;
};
/// Where a split's part of a row lies in the workspace: all sums [batch, num_heads, seq_len_q,
/// splits, head_dim_v], then all Parts.
struct Partials {
  const attest_softmax_params& p;
  int splits;
  float* memory;
  __device__ int64_t at(int64_t b, int64_t h, int64_t i, int split) const {
    return ((b * p.num_heads + h) * p.seq_len_q + i) * splits + split;
  }
  __device__ float* sums(int64_t at) const { return memory + at * p.head_dim_v; }
  __device__ Part& part(int64_t at) const {
    return reinterpret_cast<Part*>(memory +
                                   p.batch * p.num_heads * p.seq_len_q * splits * p.head_dim_v)[at];
  }
};

/// A sink, in base 2, joins the sum of a row; what is to become of the row's sums of V.
__device__ inline float join_sink(float sink, Part& part) {
  if (part.total == 0) return 1;  // the row sees no key
  const float top = fmaxf(part.top, sink), keep = cuda::exp2_fast(part.top - top);
  part.top = top;
  part.total = part.total * keep + cuda::exp2_fast(sink - top);
  return keep;
}
/// The same of the sink of head h, if it has one.
template <class T>
__device__ float join_sink(const attest::Softmax<T>& a, int64_t h, Part& part) {
  return a.sinks ? join_sink(a.sink(h) * kLog2E, part) : 1;
}

template <class T, class S>
class Block {
 public:
  using Type = typename Element<T>::Type;

  __device__ Block(const attest_problem& problem, const cuda::Data& data, const Task& task,
                   char* shared)
      : problem_(problem),
        data_(data),
        task_(task),
        terms_(reinterpret_cast<float*>(shared + S::kTilesBytes)),
        q_(cuda::shared_address(shared)),
        table_(q_ + S::kTilesBytes),
        k_(q_ + S::kRows * S::kDim * S::kBytes),
        v_(k_ + 2 * S::kTileBytes),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {}

  __device__ void run() {
    find_keys();
    if (const attest::Softmax<T> a = views(); past_tile_ > first_tile_) {
      attest::Cell from = a.key(task_.b, origin_);
      if (S::kScattered && task_.key_rows) from.row = 0;
      k_begin_ = address(a.k, from, task_.kv_head);
      v_begin_ = address(a.v, from, task_.kv_head);
    }
    load_queries();
    while (true) {
      load_keys(first_tile_, 0);
      load_terms(first_tile_, 0);
      cuda::commit_copies();
      load_values(first_tile_, 0);
      cuda::commit_copies();
      for (int tile = first_tile_; tile < past_tile_; ++tile) step(tile, (tile - first_tile_) % 2);
      cuda::wait_copies<0>();
      // An infinity of V that is seen with a weight that is rounded to 0 has made NaN, as would a
      // true one: only then, all again.
      if (careful_ || cuda::planted(cuda::Bug::kInfinitiesForgotten) ||
          !__syncthreads_or(has_odd_sums()))
        break;
      careful_ = true;
      forget();
    }
    write();
  }

 private:
  __device__ int64_t row_of(int row_block, int half) const {
    return task_.first + (warp_ * S::kPerWarp + row_block) * 16 + lane_ / 4 + half * 8;
  }
  __device__ int64_t query_of(int64_t row) const {
    return task_.pack == 1 ? row : row / task_.pack;
  }
  __device__ int64_t head_of(int64_t row) const {
    return task_.head + (task_.pack == 1 ? 0 : row % task_.pack);
  }

  /// Made anew where it is needed: kept over the loop, it would take registers from the
  /// accumulators.
  __device__ attest::Softmax<T> views() const { return attest::Softmax<T>(problem_, data_.at); }
  __device__ const attest_softmax_params& params() const {
    return attest::params<attest_softmax_params>(problem_);
  }
  __device__ int64_t row_stride(int role) const { return problem_.tensor[role].stride[2]; }

  /// What each row sees, and from it the tiles that the block has to read and the keys that all of
  /// its rows see.
  __device__ void find_keys() {
    __shared__ int lowest, highest, common_begin, common_end;
    const attest::Softmax<T> a = views();
    if (threadIdx.x == 0) {
      lowest = INT32_MAX;
      highest = 0;
      common_begin = 0;
      common_end = INT32_MAX;
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t i = query_of(row_of(m, half));
        const attest::Keys keys =
            row_of(m, half) < task_.past ? a.keys(task_.b, i) : attest::Keys{0, 0};
        RowPair& row = rows_[m];
        row.begin[half] = static_cast<int>(keys.begin);
        row.end[half] = static_cast<int>(keys.end);
        row.top[half] = -INFINITY;
        row.total[half] = 0;
        if (row_of(m, half) >= task_.past || lane_ % 4 != 0) continue;
        atomicMax(&common_begin, row.begin[half]);
        atomicMin(&common_end, row.end[half]);
        if (keys.begin < keys.end) {
          atomicMin(&lowest, row.begin[half]);
          atomicMax(&highest, row.end[half]);
        }
      }
    __syncthreads();
    origin_ = highest > 0 ? lowest : 0;
    const split::Range tiles =
        split::part((highest - origin_ + S::kKeys - 1) / S::kKeys, task_.splits, task_.split);
    first_tile_ = static_cast<int>(tiles.begin);
    past_tile_ = static_cast<int>(tiles.end);
    if (cuda::planted(cuda::Bug::kSplitBound) && task_.split + 1 < task_.splits &&
        past_tile_ > first_tile_)
      --past_tile_;
    has_terms_ = S::kGeneral && (S::kWindow ? task_.window != nullptr : a.has_pair_terms());
    in_columns_ = S::kGeneral && !S::kWindow && has_column_terms(a);
    in_line_ = !S::kScattered || (!a.grid && problem_.tensor[ATTEST_ORDER].dtype == ATTEST_NONE &&
                                  problem_.tensor[ATTEST_PAGE_TABLE].dtype == ATTEST_NONE);
    past_key_ = highest;
    common_begin_ = common_begin;
    common_end_ = common_end;
    if (S::kCopiesTerms && in_columns_ && past_tile_ > first_tile_) find_raw_terms(a);
  }
  /// Finds out whether MASK or BIAS can be copied as it lies in memory. float32 would take more
  /// shared memory than the table of terms has.
  __device__ void find_raw_terms(const attest::Softmax<T>& a) {
    if (a.alibi_slopes || (a.mask && a.bias) || (!a.mask && S::kBytes != 2)) return;
    if ((a.mask ? a.mask.stride(3) : a.bias.stride(3)) != 1) return;
    raw_.is_mask = static_cast<bool>(a.mask);
    if (a.mask) {
      raw_.from = reinterpret_cast<const char*>(&a.mask(task_.b, task_.head, task_.first, origin_));
      raw_.row_bytes = a.mask.stride(2);
    } else {
      raw_.from = reinterpret_cast<const char*>(&a.bias(task_.b, task_.head, task_.first, origin_));
      raw_.row_bytes = a.bias.stride(2) * S::kBytes;
    }
    raw_.rows = static_cast<int>(
        min(min(task_.past, a.length_q(task_.b)) - task_.first, int64_t{S::kRows}));
    const uint64_t bits = reinterpret_cast<uint64_t>(raw_.from) |
                          static_cast<uint64_t>(raw_.row_bytes) | uint64_t{16};
    raw_.piece = bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 0;
  }

  __device__ const Type* address(const attest::View<T>& view, const attest::Cell& cell,
                                 int64_t head) const {
    return reinterpret_cast<const Type*>(&view(cell.batch, head, cell.row, 0));
  }
  __device__ void load_queries() {
    const attest::Softmax<T> a = views();
    const int rows = static_cast<int>(min(int64_t{S::kRows}, task_.past - task_.first));
    const Type* base = address(a.q, a.query(task_.b, query_of(task_.first)), head_of(task_.first));
    load_tile<S, S::kRows>(q_, rows, static_cast<int>(a.p.head_dim / S::kPerChunk), [&](int row) {
      if (in_line_ && task_.pack == 1) return base + row * row_stride(ATTEST_Q);
      return address(a.q, a.query(task_.b, query_of(task_.first + row)),
                     head_of(task_.first + row));
    });
  }
  __device__ int64_t first_key(int tile) const { return origin_ + int64_t{tile} * S::kKeys; }
  /// The rows of K or V that a tile has. `begin` is row 0 of the head if the task has key_rows, and
  /// otherwise the row of the first key. Rows that do not lie in line are looked up without it.
  __device__ void load_rows(uint32_t to, int role, const Type* begin, int64_t channels, int tile) {
    const int64_t first = first_key(tile), stride = row_stride(role);
    const int rows = static_cast<int>(min(int64_t{S::kKeys}, int64_t{past_key_} - first)),
              chunks = static_cast<int>(channels / S::kPerChunk);
    if (S::kScattered && task_.key_rows) {
      const int* const key_rows = task_.key_rows + tile * S::kKeys;
      load_tile<S, S::kKeys>(to, rows, chunks,
                             [&](int row) { return begin + key_rows[row] * stride; });
    } else if (S::kScattered && !in_line_) {
      const attest::Softmax<T> a = views();
      const attest::View<T>& view = role == ATTEST_K ? a.k : a.v;
      load_tile<S, S::kKeys>(to, rows, chunks, [&](int row) {
        return address(view, a.key(task_.b, first + row), task_.kv_head);
      });
    } else {
      flash::load_rows<S, S::kKeys>(to, rows, chunks, begin + int64_t{tile} * S::kKeys * stride,
                                    stride);
    }
  }
  __device__ void load_keys(int tile, int stage) {
    if (tile < past_tile_)
      load_rows(k_ + stage * S::kTileBytes, ATTEST_K, k_begin_, params().head_dim, tile);
  }
  __device__ void load_values(int tile, int stage) {
    if (cuda::planted(cuda::Bug::kTileOfKeys)) tile = first_tile_;
    if (tile < past_tile_)
      load_rows(v_ + stage * S::kTileBytes, ATTEST_V, v_begin_, params().head_dim_v, tile);
  }

  /// Where the copy of MASK or BIAS has a byte of a row's keys.
  template <int kElementBytes>
  __device__ static uint32_t raw_place(int row, int byte) {
    return place_in_rows<S::kKeys * kElementBytes / 16>(row, byte / 16) +
           static_cast<uint32_t>(byte % 16);
  }
  template <int kElementBytes>
  __device__ uint32_t raw_stage(int stage) const {
    return table_ + static_cast<uint32_t>(stage * S::kRows * S::kKeys * kElementBytes);
  }
  template <int kElementBytes, int kPiece>
  __device__ void copy_terms(int tile, int stage) const {
    constexpr int kPieces = S::kKeys * kElementBytes / kPiece, kStep = S::kThreads / kPieces;
    static_assert(S::kThreads % kPieces == 0);
    const int thread = cuda::anew(static_cast<int>(threadIdx.x)), byte = thread % kPieces * kPiece;
    const int64_t left = (past_key_ - first_key(tile)) * kElementBytes - byte;
    const int there = left < 0 ? 0 : left < kPiece ? static_cast<int>(left) : kPiece;
    const int64_t row_bytes = cuda::planted(cuda::Bug::kTermsOfRowsBefore) ? 0 : raw_.row_bytes;
    int row = thread / kPieces;
    const char* from =
        raw_.from + int64_t{tile} * S::kKeys * kElementBytes + byte + row * row_bytes;
#pragma unroll 4
    for (; row < S::kRows; row += kStep, from += kStep * row_bytes) {
      const bool any = row < raw_.rows && there > 0;
      cuda::copy_part_async<kPiece>(
          raw_stage<kElementBytes>(stage) + raw_place<kElementBytes>(row, byte),
          any ? from : raw_.from, any ? there : 0);
    }
  }
  template <int kElementBytes>
  __device__ void copy_terms(int tile, int stage) const {
    switch (raw_.piece) {
      case 16: return copy_terms<kElementBytes, 16>(tile, stage);
      case 8: return copy_terms<kElementBytes, 8>(tile, stage);
      default: copy_terms<kElementBytes, 4>(tile, stage);
    }
  }
  __device__ void load_terms(int tile, int stage) const {
    if constexpr (S::kCopiesTerms) {
      if (raw_.piece == 0 || tile >= past_tile_) return;
      if (cuda::planted(cuda::Bug::kTermsOfFirstTile)) tile = first_tile_;
      if (raw_.is_mask) return copy_terms<1>(tile, stage);
      if constexpr (S::kBytes == 2) copy_terms<2>(tile, stage);
    }
  }

  __device__ void step(int tile, int stage) {
    if (!cuda::planted(cuda::Bug::kNoWait)) cuda::wait_copies<1>();
    if (!cuda::planted(cuda::Bug::kNoBarrier))
      __syncthreads();  // these keys are there, and everybody is done with the tiles before
    load_keys(tile + 1, 1 - stage);
    load_terms(tile + 1, 1 - stage);
    cuda::commit_copies();
    if (S::kGeneral && has_terms_ && raw_.piece == 0) make_terms(tile);
    float scores[S::kPerWarp][S::kKeys / 8][4] = {};
    multiply_keys(k_ + stage * S::kTileBytes, scores);
    if (S::kBytes == 4 && careful_ && !cuda::planted(cuda::Bug::kNotSplitAnew))
      repair(k_ + stage * S::kTileBytes, scores);
    const bool is_cut = careful_ || first_key(tile) < common_begin_ ||
                        first_key(tile + 1) > common_end_;  // in all threads
    bool hides = is_cut;
    weigh(scores, scale(tile, is_cut, scores, hides));
    cuda::wait_copies<1>();
    if (S::kGeneral)
      hides = __syncthreads_or(hides);  // now in all threads
    else
      __syncthreads();
    load_values(tile + 1, 1 - stage);
    cuda::commit_copies();
    const uint32_t values = v_ + stage * S::kTileBytes;
    if (hides && __syncthreads_or(has_odd_values(values))) add_odd_values(tile, values);
    add_values(values, scores);
  }

  /// lane_, for addresses in tiles. Where sums take half of all registers, those addresses are made
  /// again for each tile: the compiler kept them over the loop, and so spilled them. (float32 has
  /// no registers to save: it spills more so.)
  __device__ int lane_in_tile() const {
    return S::kBytes == 2 && S::kPerWarp * S::kDim > 128 ? cuda::anew(lane_) : lane_;
  }
  __device__ void multiply_keys(uint32_t keys,
                                float (&scores)[S::kPerWarp][S::kKeys / 8][4]) const {
    const int lane = lane_in_tile();
#pragma unroll S::kBytes == 4 ? (S::kDim > 128 ? 1 : 2) : S::kChunks / 2
    for (int c = 0; c < S::kChunks / 2; ++c) {
      cuda::Left<Type> q[S::kPerWarp];
#pragma unroll
      for (int m = 0; m < S::kPerWarp; ++m) {
        uint32_t rows[4];
        cuda::load_blocks(
            rows, q_ + place<S>((warp_ * S::kPerWarp + m) * 16 + lane % 16, 2 * c + lane / 16));
        q[m].set(rows);
      }
#pragma unroll
      for (int n = 0; n < S::kKeys / 16; ++n) {
        uint32_t k[4];
        cuda::load_blocks(k,
                          keys + place<S>(n * 16 + lane / 16 * 8 + lane % 8, 2 * c + lane / 8 % 2));
        const cuda::Right<Type> first{k[0], k[1]}, second{k[2], k[3]};
#pragma unroll
        for (int m = 0; m < S::kPerWarp; ++m) {
          cuda::multiply_add(scores[m][2 * n], q[m], first);
          cuda::multiply_add(scores[m][2 * n + 1], q[m], second);
        }
      }
    }
  }

  /// Where a tile has the 4 bytes with this element.
  __device__ static uint32_t word_of(int row, int channel) {
    return place<S>(row, channel / S::kPerChunk) + channel % S::kPerChunk * S::kBytes / 4 * 4;
  }

  /// Dot products that splitting made NaN (of infinities, and of what tf32 rounds to one) once
  /// more, without it. Slow and rare.
  __device__ void repair(uint32_t keys, float (&scores)[S::kPerWarp][S::kKeys / 8][4]) const {
    constexpr int kKeysOfLane = S::kKeys / 4;
#pragma unroll 1
    for (int which = 0; which < S::kPerWarp * 2 * kKeysOfLane; ++which) {
      const int m = which / (2 * kKeysOfLane), half = which / kKeysOfLane % 2,
                n = which % kKeysOfLane / 2, e = 2 * half + which % 2;
      const int row = (warp_ * S::kPerWarp + m) * 16 + half * 8 + lane_ / 4,
                key = n * 8 + lane_ % 4 * 2 + which % 2;
      float dot = 0;
#pragma unroll 1
      for (int channel = 0; channel < S::kDim; ++channel)
        dot += __uint_as_float(cuda::load_shared(q_ + word_of(row, channel))) *
               __uint_as_float(cuda::load_shared(keys + word_of(key, channel)));
#pragma unroll
      for (int i = 0; i < S::kPerWarp * S::kKeys / 2; ++i) {
        float& score = scores[i / (S::kKeys / 2)][i % (S::kKeys / 2) / 4][i % 4];
        if (i == (m * S::kKeys / 8 + n) * 4 + e && score != score) score = dot;
      }
    }
  }

  __device__ void make_terms(int tile) {
    if constexpr (S::kWindow)
      make_window_terms(tile);
    else if (in_columns_)
      make_column_terms(tile);
    else
      make_pair_terms(tile);
    __syncthreads();
  }
  /// Where terms_ has a key of a row. Groups of eight keys are permuted by the row's number, so
  /// that the same eight keys of four neighbouring rows lie in different banks.
  __device__ static int term_place(int row, int key) {
    constexpr int kRowsInLine = S::kKeys < 32 ? 32 / S::kKeys : 1,
                  kMask = (S::kKeys < 32 ? S::kKeys : 32) / 8 - 1;
    return row * S::kKeys + (key ^ (row / kRowsInLine & kMask) * 8);
  }
  /// Each thread has one key, and so its code once.
  __device__ void make_window_terms(int tile) {
    static_assert(S::kThreads % S::kKeys == 0);
    const WindowTerms& window = *task_.window;
    const int key = static_cast<int>(threadIdx.x) % S::kKeys,
              in_window = static_cast<int>(first_key(tile) - window.first) + key,
              rows = static_cast<int>(task_.past - task_.first);
    const int* const queries = window.codes + (task_.first - window.first);
    const bool seen = first_key(tile) + key < past_key_;
    const int key_code = seen ? window.codes[in_window] : 0,
              from = window.centre - (key_code & 0xffff);
#pragma unroll 4
    for (int row = static_cast<int>(threadIdx.x) / S::kKeys; row < S::kRows;
         row += S::kThreads / S::kKeys) {
      float added = -INFINITY;
      if (seen && row < rows) {
        const int query_code = queries[row];
        added = in_base_2(window.table[(query_code & 0xffff) + from] +
                          (query_code >> 16 != key_code >> 16 ? window.shift_bias : 0));
      }
      terms_[term_place(row, key)] = added;
    }
  }
  /// Whether pairs have no terms but those of MASK, BIAS and ALIBI_SLOPES, and each row of the tile
  /// is a query. Then make_column_terms makes the terms in fewer instructions than make_pair_terms.
  __device__ bool has_column_terms(const attest::Softmax<T>& a) const {
    return !a.rel_bias && !a.grid && !a.block_mask && a.p.global_tokens == 0 && task_.pack == 1;
  }
  /// Each thread walks down columns of the tile, so it finds addresses by adding. It reads several
  /// terms before it stores them, so that their reads are under way together.
  __device__ void make_column_terms(int tile) {
    constexpr int kSideBySide = S::kThreads < S::kKeys ? S::kThreads : S::kKeys,
                  kStep = S::kThreads / kSideBySide, kOfThread = S::kRows / kStep,
                  kTogether = kOfThread < 16 ? kOfThread : 16;
    static_assert(S::kThreads % kSideBySide == 0 && S::kKeys % kSideBySide == 0);
    static_assert(kOfThread % kTogether == 0);
    const attest::Softmax<T> a = views();
    const int first_row = static_cast<int>(threadIdx.x) / kSideBySide;
    const int64_t i = task_.first + first_row;
    const int rows = static_cast<int>(
        min(min(task_.past, a.length_q(task_.b)) - task_.first, int64_t{S::kRows}));
    const float slope = a.alibi_slopes ? a.alibi_slopes(task_.b, task_.head) : 0;
    const int64_t bias_step = a.bias ? kStep * a.bias.stride(2) : 0,
                  mask_step = a.mask ? kStep * a.mask.stride(2) : 0;
#pragma unroll 1
    for (int key = static_cast<int>(threadIdx.x) % kSideBySide; key < S::kKeys;
         key += kSideBySide) {
      const int64_t j = first_key(tile) + key;
      const int there = j < past_key_ ? rows : 0;
      const bool any = first_row < there;
      const T* bias = any && a.bias ? &a.bias(task_.b, task_.head, i, j) : nullptr;
      const uint8_t* mask = any && a.mask ? &a.mask(task_.b, task_.head, i, j) : nullptr;
      int64_t distance = a.diagonal(task_.b, i) - j;
#pragma unroll 1
      for (int from = first_row; from < S::kRows; from += kTogether * kStep) {
        float terms[kTogether];
        bool seen[kTogether];
#pragma unroll
        for (int n = 0; n < kTogether; ++n) {
          const bool row_there = from + n * kStep < there;
          seen[n] = row_there && (!mask || mask[n * mask_step] != 0);
          const int64_t at = cuda::planted(cuda::Bug::kTermsOfRowsBefore) ? 0 : n * bias_step;
          terms[n] = row_there && bias ? static_cast<float>(bias[at]) : 0;
        }
#pragma unroll
        for (int n = 0; n < kTogether; ++n) {
          const int64_t apart = distance + n * kStep;
          if (slope != 0) terms[n] -= slope * static_cast<float>(apart < 0 ? -apart : apart);
          terms_[term_place(from + n * kStep, key)] = seen[n] ? in_base_2(terms[n]) : -INFINITY;
        }
        if (bias) bias += kTogether * bias_step;
        if (mask) mask += kTogether * mask_step;
        distance += kTogether * kStep;
      }
    }
  }
  __device__ void make_pair_terms(int tile) {
    const attest::Softmax<T> a = views();
#pragma unroll 1
    for (int index = static_cast<int>(threadIdx.x); index < S::kRows * S::kKeys;
         index += S::kThreads) {
      const int64_t row = task_.first + index / S::kKeys, i = query_of(row),
                    j = first_key(tile) + index % S::kKeys;
      terms_[term_place(index / S::kKeys, index % S::kKeys)] =
          row < task_.past && i < a.length_q(task_.b) && j < past_key_
              ? in_base_2(a.pair_term(task_.b, head_of(row), i, j))
              : -INFINITY;
    }
  }
  /// body(std::integral_constant<Terms, ...>()) with where this task's terms come from.
  template <class Body>
  __device__ decltype(auto) with_terms(const Body& body) const {
    if constexpr (S::kGeneral) {
      if (has_terms_ && raw_.piece == 0) return body(TermsFrom<Terms::kTable>());
      if constexpr (S::kCopiesTerms) {
        if (has_terms_ && raw_.is_mask) return body(TermsFrom<Terms::kMask>());
        if constexpr (S::kBytes == 2)
          if (has_terms_) return body(TermsFrom<Terms::kBias>());
      }
    }
    return body(TermsFrom<Terms::kNone>());
  }
  template <Terms kTerms>
  using TermsFrom = std::integral_constant<Terms, kTerms>;

  /// The terms of a row's key, which is even, and the next one, in base 2.
  template <Terms kTerms>
  __device__ void read_terms(int row, int key, int stage, float (&terms)[2]) const {
    terms[0] = terms[1] = 0;
    if constexpr (kTerms == Terms::kTable) {
      uint32_t both[2];
      cuda::load_shared(both, table_ + static_cast<uint32_t>(term_place(row, key) * 4));
      terms[0] = __uint_as_float(both[0]);
      terms[1] = __uint_as_float(both[1]);
    } else if constexpr (kTerms == Terms::kMask) {
      const uint32_t at = raw_stage<1>(stage) + raw_place<1>(row, key),
                     both = cuda::load_shared(at / 4 * 4) >> at % 4 * 8;
      terms[0] = (both & 0xff) != 0 ? 0 : -INFINITY;
      terms[1] = (both & 0xff00) != 0 ? 0 : -INFINITY;
    } else if constexpr (kTerms == Terms::kBias) {
      const uint32_t both = cuda::load_shared(raw_stage<2>(stage) + raw_place<2>(row, 2 * key));
      T elements[2];
      memcpy(elements, &both, sizeof(both));
      terms[0] = in_base_2(static_cast<float>(elements[0]));
      terms[1] = in_base_2(static_cast<float>(elements[1]));
    }
  }

  /// Dot products become logits in base 2, -inf where hidden, but for a positive factor, which is
  /// returned: what makes weights of them multiplies anyway. `is_cut`: some row does not see all
  /// keys of the tile. Sets `hides` where a term hides a pair.
  __device__ float scale(int tile, bool is_cut, float (&scores)[S::kPerWarp][S::kKeys / 8][4],
                         bool& hides) const {
    return with_terms(
        [&](auto from) { return scale_with<decltype(from)::value>(tile, is_cut, scores, hides); });
  }
  template <Terms kTerms>
  __device__ float scale_with(int tile, bool is_cut, float (&scores)[S::kPerWarp][S::kKeys / 8][4],
                              bool& hides) const {
    const int stage = (tile - first_tile_) % 2;
    const int thread = cuda::anew(static_cast<int>(threadIdx.x)), lane = thread % 32,
              first_row = thread / 32 * S::kPerWarp * 16 + lane / 4;
    const float whole = params().softmax_scale * kLog2E, cap = params().softcap * kLog2E;
    const float factor = S::kGeneral || !(whole > 0) ? whole : 1;
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int n = 0; n < S::kKeys / 8; ++n)
        for (int half = 0; half < 2; ++half) {
          const int first = n * 8 + lane % 4 * 2;
          float terms[2];
          read_terms<kTerms>(first_row + m * 16 + half * 8, first, stage, terms);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float score = scores[m][n][2 * half + e];
            if (S::kGeneral || factor != 1) score *= factor;
            if (S::kGeneral && cap > 0) {
              const float share = sizeof(T) == 4 ? score / cap : __fdividef(score, cap);
              score = cap * tanh_of<T>(share);
            }
            if (kTerms != Terms::kNone) {
              const bool hidden = terms[e] == -INFINITY;
              hides |= hidden;
              score = hidden ? -INFINITY : score + terms[e];
            }
            const int j = origin_ + tile * S::kKeys + first + e;
            if (is_cut && (j < rows_[m].begin[half] || j >= rows_[m].end[half])) score = -INFINITY;
            scores[m][n][2 * half + e] = score;
          }
        }
    return S::kGeneral || factor != 1 ? 1 : whole;
  }

  /// Logits times `factor` become weights; what was summed before is scaled to the new largest
  /// logit.
  __device__ void weigh(float (&scores)[S::kPerWarp][S::kKeys / 8][4], float factor) {
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = -INFINITY;
#pragma unroll
        for (int n = 0; n < S::kKeys / 8; ++n)
          top = fmaxf(top, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
        top = fmaxf(rows_[m].top[half], largest_of_row(top) * factor);
        const float from = top == -INFINITY ? 0 : top,
                    keep = fmaxf(cuda::exp2_fast(rows_[m].top[half] - from), kSmallest);
        float total = rows_[m].total[half] * keep;
#pragma unroll
        for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            scores[m][n][e] = cuda::exp2_fast(fmaf(scores[m][n][e], factor, -from));
            total += scores[m][n][e];
          }
        rows_[m].top[half] = top;
        rows_[m].total[half] = total;
#pragma unroll
        for (int d = 0; d < S::kDim / 8; ++d) {
          sums_[m][d][2 * half] *= keep;
          sums_[m][d][2 * half + 1] *= keep;
        }
      }
  }

  static constexpr int kStepKeys = 2 * S::kPerChunk;  // of one product of weights and values

  /// Weights of kStepKeys keys as the left operand. Where that has single elements, keys 0 2 4 6 1
  /// 3 5 7 of eight stand for 0 to 7, so that each lane has what it needs.
  __device__ static cuda::Left<Type> pack_weights(const float (&scores)[S::kKeys / 8][4],
                                                  int keys) {
    uint32_t packed[4];
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      if constexpr (S::kBytes == 4) {
        packed[part] = __float_as_uint(scores[keys][part % 2 * 2 + part / 2]);
      } else {
        const float(&from)[4] = scores[2 * keys + part / 2];
        packed[part] = cuda::pack(from[part % 2 * 2], from[part % 2 * 2 + 1], Type());
      }
    }
    cuda::Left<Type> weights;
    weights.set(packed);
    return weights;
  }
  /// Values of these keys in 16 channels as two right operands. No two lanes read one bank.
  __device__ void load_right(uint32_t values, int keys, int channels, int lane,
                             uint32_t (&right)[4]) const {
    if constexpr (S::kBytes == 4) {
      // Chunks are exchanged within lines of 8, so what is 8 chunks or rows further on stays that;
      // the rest is in these bits.
      const uint32_t even = values + place<S>(lane % 4 * 2, lane / 16) + lane / 4 % 4 * 4,
                     odd = (even + S::kDim * 4) ^ 16;
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int chunk = channels * 4 + part / 2 * 2;
        right[part] = cuda::load_shared(((part % 2 == 0 ? even : odd) ^ chunk % 8 * 16) +
                                        chunk / 8 * 128 + keys * 8 * S::kDim * 4);
      }
    } else {
      cuda::load_blocks_transposed(
          right, values + place<S>(keys * 16 + lane % 16, 2 * channels + lane / 16));
    }
  }

  __device__ void add_values(uint32_t values, const float (&scores)[S::kPerWarp][S::kKeys / 8][4]) {
    const int lane = lane_in_tile();
#pragma unroll
    for (int keys = 0; keys < S::kKeys / kStepKeys; ++keys) {
      cuda::Left<Type> weights[S::kPerWarp];
#pragma unroll
      for (int m = 0; m < S::kPerWarp; ++m) weights[m] = pack_weights(scores[m], keys);
#pragma unroll
      for (int d = 0; d < S::kDim / 16; ++d) {
        uint32_t v[4];
        load_right(values, keys, d, lane, v);
        const cuda::Right<Type> first{v[0], v[1]}, second{v[2], v[3]};
#pragma unroll
        for (int m = 0; m < S::kPerWarp; ++m) {
          cuda::multiply_add(sums_[m][2 * d], weights[m], first);
          cuda::multiply_add(sums_[m][2 * d + 1], weights[m], second);
        }
      }
    }
  }

  /// Whether this thread's part of a tile has an infinity or NaN.
  __device__ bool has_odd_values(uint32_t values) const {
    bool odd = false;
#pragma unroll 4
    for (uint32_t at = threadIdx.x * 4; at < S::kTileBytes; at += S::kThreads * 4) {
      const uint32_t word = cuda::load_shared(values + at);
      odd |= finite_part<T>(word) != word;
    }
    return odd;
  }

  /// Adds infinities and NaN of a tile to the rows that see them, and makes them 0. Slow and rare.
  __device__ void add_odd_values(int tile, uint32_t values) {
#pragma unroll 1
    for (int n = 0; n < S::kKeys; ++n)
#pragma unroll 1
      for (int group = 0; group < S::kDim / 8; ++group) {
        const int channel = group * 8 + lane_ % 4 * 2;
        const uint32_t first = cuda::load_shared(values + word_of(n, channel)),
                       second = S::kBytes == 4 ? cuda::load_shared(values + word_of(n, channel + 1))
                                               : first;
        const float odd[2] = {odd_part<T>(first, 0), odd_part<T>(second, 1)};
        if (odd[0] == 0 && odd[1] == 0) continue;
#pragma unroll
        for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            if (!sees(m, half, tile, n)) continue;
#pragma unroll
            for (int d = 0; d < S::kDim / 8; ++d) {
              sums_[m][d][2 * half] += d == group ? odd[0] : 0;
              sums_[m][d][2 * half + 1] += d == group ? odd[1] : 0;
            }
          }
      }
    __syncthreads();
    for (uint32_t at = threadIdx.x * 4; at < S::kTileBytes; at += S::kThreads * 4)
      cuda::store_shared(values + at, finite_part<T>(cuda::load_shared(values + at)));
    __syncthreads();
  }
  __device__ bool sees(int m, int half, int tile, int key) const {
    const int64_t j = first_key(tile) + key;
    if (j < rows_[m].begin[half] || j >= rows_[m].end[half]) return false;
    return with_terms([&](auto from) {
      float terms[2];
      read_terms<decltype(from)::value>((warp_ * S::kPerWarp + m) * 16 + lane_ / 4 + half * 8,
                                        key / 2 * 2, (tile - first_tile_) % 2, terms);
      return terms[key % 2] != -INFINITY;
    });
  }
  __device__ bool has_odd_sums() const {
    bool odd = false;
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int d = 0; d < S::kDim / 8; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e) odd |= !(fabsf(sums_[m][d][e]) <= kLargest);
    return odd;
  }
  __device__ void forget() {
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        rows_[m].top[half] = -INFINITY;
        rows_[m].total[half] = 0;
      }
#pragma unroll
      for (int d = 0; d < S::kDim / 8; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums_[m][d][e] = 0;
    }
  }

  __device__ void write() const {
    const attest::Softmax<T> a = views();
#pragma unroll
    for (int m = 0; m < S::kPerWarp; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Part part{rows_[m].top[half], sum_of_row(rows_[m].total[half])};
        const int64_t i = query_of(row_of(m, half)), h = head_of(row_of(m, half));
        if (row_of(m, half) >= task_.past) continue;
        if (task_.splits > 1)
          write_part(a, part, h, i, m, half);
        else
          write_row(a, part, h, i, m, half);
      }
  }
  __device__ void write_row(const attest::Softmax<T>& a, Part part, int64_t h, int64_t i, int m,
                            int half) const {
    const float keep = join_sink(a, h, part);
    const bool sees = !(part.total == 0);  // NaN too: all of its logits may be
    const float scale = sees ? keep / part.total : 0;
    const attest::Cell cell = a.query(task_.b, i);
    using Pair = decltype(cuda::pack(0, 0, Type()));
    auto* o = reinterpret_cast<Pair*>(&a.o(cell.batch, h, cell.row, 0));
#pragma unroll
    for (int d = 0; d < S::kDim / 8; ++d)
      if (d * 8 + lane_ % 4 * 2 < a.p.head_dim_v) {
        const float(&sums)[4] = sums_[m][d];
        o[d * 4 + lane_ % 4] = sees ? cuda::pack(cuda::scaled(sums[2 * half], scale),
                                                 cuda::scaled(sums[2 * half + 1], scale), Type())
                                    : Pair{};
      }
    if (a.lse && lane_ % 4 == 0)
      a.lse(cell.batch, h, cell.row) = sees ? part.top * kLn2 + logf(part.total) : -INFINITY;
  }
  __device__ void write_part(const attest::Softmax<T>& a, Part part, int64_t h, int64_t i, int m,
                             int half) const {
    if (cuda::planted(cuda::Bug::kSinkInEverySplit)) join_sink(a, h, part);
    const Partials partials{a.p, task_.splits, task_.partial};
    const int64_t at = partials.at(task_.b, h, i, task_.split);
    if (lane_ % 4 == 0) partials.part(at) = part;
    float* to = partials.sums(at);
#pragma unroll
    for (int d = 0; d < S::kDim / 8; ++d)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (d * 8 + lane_ % 4 * 2 < a.p.head_dim_v)
          to[d * 8 + lane_ % 4 * 2 + e] = sums_[m][d][2 * half + e];
  }

  const attest_problem& problem_;
  const cuda::Data& data_;
  const Task& task_;    // in shared memory, where it takes no registers
  float* const terms_;  // [kRows, kKeys], shared: added to the logits of this tile, in base 2; -inf
                        // where hidden. Or two stages of MASK or BIAS as they lie in memory.
  const uint32_t q_, table_, k_, v_;  // table_ is terms_, too
  const int lane_, warp_;
  const Type *k_begin_ = nullptr, *v_begin_ = nullptr;
  bool has_terms_ = false;
  bool in_columns_ = false;  // make_column_terms makes the terms, or they are copied
  bool in_line_ = false;     // rows of Q, K and V lie one behind the other
  bool careful_ = false;     // infinities and NaN of V are taken out of every tile
  int origin_ = 0;           // the key that tiles count from: the first that any row sees
  int first_tile_ = 0, past_tile_ = 0, common_begin_ = 0, common_end_ = 0;
  int past_key_ = 0;
  RawTerms raw_ = {};
  RowPair rows_[S::kPerWarp];
  float sums_[S::kPerWarp][S::kDim / 8][4] = {};
};

/// What a Block does with a problem's numbers.
inline void declare_arithmetic(const attest_problem& problem, attest_support& support) {
  const int32_t dtype = problem.tensor[ATTEST_Q].dtype;
  for (const int stage : {ATTEST_SOFTMAX_QK, ATTEST_SOFTMAX_PV})
    support.stage[stage].dtype = dtype == ATTEST_F32 ? ATTEST_3XTF32 : dtype;
  if (dtype == ATTEST_F32) support.stage[ATTEST_SOFTMAX_PROBABILITY].rel_error = kExp2Error;
}

/// Why no Block takes a problem; null: one does.
inline const char* why_not(const attest_problem& problem) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  if (p.head_dim > 256 || p.head_dim_v > 256) return "head sizes beyond 256";
  const int32_t dtype = problem.tensor[ATTEST_Q].dtype;
  const int64_t chunk = dtype == ATTEST_F32 ? 4 : 8;  // elements of 16 bytes
  if (p.head_dim % chunk != 0 || p.head_dim_v % chunk != 0)
    return chunk == 4 ? "head sizes that are no multiple of 4"
                      : "head sizes that are no multiple of 8";
  if (p.seq_len_kv > INT32_MAX - 64) return "2^31 keys";
  const int capability = cuda::capability();
  if (capability < 75) return "a device before sm_75";
  if (capability < 80 && dtype == ATTEST_BF16) return "bfloat16 on tensor cores before sm_80";
  if (capability < 80 && dtype == ATTEST_F32)
    return "float32, by tf32, on tensor cores before sm_80";
  for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
    const attest_tensor& tensor = problem.tensor[role];
    if (tensor.dim[3] > 1 && tensor.stride[3] != 1) return "channels that do not lie side by side";
    for (int axis = 0; axis < 3; ++axis)
      if (tensor.stride[axis] % chunk != 0) return "rows that do not start on 16 bytes";
  }
  return nullptr;
}

}  // namespace flash
