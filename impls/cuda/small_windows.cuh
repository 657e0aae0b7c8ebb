// Windows of a grid that are one tile of rows and one of keys, such as Swin's 7 x 7, in 16-bit
// elements from sm_80 on.
//
// Such windows move 16 bytes for some 50 multiplications, so memory is to be busy all the time. A
// block stays on the device and takes windows of one head one after the other; while it computes
// one, the rows of the next are on their way. Each warp has 16 rows, and each thread copies chunks
// of the same rows of Q, K, V and O, so that it finds their tokens once a window, without a
// division. The head's bias stays in registers, where the accumulators of the scores have it. All
// keys of a row are there at once: no maximum is found online.
#pragma once
#include "cuda/flash.cuh"

namespace flash {

constexpr int kMostPlaces = 64;  // of a small window

/// What a block keeps in shared memory beside tiles.
struct SmallTables {
  float bias[4 * kMostPlaces];         // of the head, [2 height - 1][2 width - 1], in base 2
  int code[kMostPlaces];               // of a place: differences of them are places in `bias`
  int y[kMostPlaces], x[kMostPlaces];  // of a place, as if the grid's corner were shifted alone
  float lse[kMostPlaces];
  char *q, *k, *v, *o;  // the head's first rows
};

/// Of a block: head sizes up to kDim, windows of up to kKeys tokens.
template <int kHeadDim, int kMostKeys>
struct SmallShape {
  static constexpr int kDim = kHeadDim, kKeys = kMostKeys, kRows = kMostPlaces, kThreads = 128;
  static constexpr int kPerChunk = 8, kChunks = kDim / kPerChunk;                    // of a row
  static constexpr int kTileBytes = kRows * kDim * 2, kStageBytes = 3 * kTileBytes;  // Q, K and V
  static constexpr int kSharedBytes = 2 * kStageBytes + int{sizeof(SmallTables)};
  static constexpr int kResident = kDim <= 32 ? 4 : 3;  // blocks that have registers together
  static_assert(kKeys % 8 == 0 && kKeys <= kRows);
};

/// Eight channels of a row, which are copied at once.
struct alignas(16) Chunk {
  uint32_t words[4];
};
/// Where the rows of a tensor lie: that of sequence b, head h and token t is b * sequence + h *
/// head + t * token bytes from `at`.
struct RowsOf {
  char* at;
  int64_t sequence, head;
  int32_t token;
  __device__ char* of(int b, int h) const { return at + b * sequence + h * head; }
};
/// REL_BIAS; strides in elements. Null: there is none.
struct RelBias {
  const void* at;
  int64_t head, y, x;
};

/// A window of a sequence's grid; y and x count windows from the grid's corner.
struct GridWindow {
  int sequence, y, x;
};

/// What the kernel takes: block n has head n % heads; of that head's windows, counted over all
/// sequences, it has number n / heads and those that are a multiple of `step` further.
struct SmallWork {
  RowsOf q, k, v, o, lse;  // lse.at: null where nobody wants it
  RelBias rel_bias;
  int batch, heads, heads_of_key;  // heads_of_key: query heads that share a key head
  int down, across;                // windows of a grid
  GridWindow step;
  int window_height, window_width, grid_height, grid_width, shift_y, shift_x;
  int chunks;        // of 8 channels, of a row
  float scale;       // makes a logit in base 2 of a dot product
  float shift_bias;  // in base 2
  // Places of a window that have gone round an edge of the grid, in windows at its lower and at
  // its right edge; one bit a place.
  uint64_t round_lower, round_right;
};

template <class T, class S>
class SmallWindows {
 public:
  using Type = typename Element<T>::Type;

  __device__ SmallWindows(const SmallWork& work, char* shared)
      : work_(work),
        shared_(shared),
        tables_(*reinterpret_cast<SmallTables*>(shared + 2 * S::kStageBytes)),
        begin_(cuda::shared_address(shared)),
        places_(work.window_height * work.window_width),
        head_(static_cast<int>(blockIdx.x) % work.heads),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {}

  __device__ void run() {
    find_places();
    __syncthreads();
    // An infinity or NaN of V that is hidden, or whose weight is rounded to 0, has made NaN, as
    // would a true one. So has a hidden score that is no number. Only then, all again.
    if (__syncthreads_or(walk<false>()) && !cuda::planted(cuda::Bug::kInfinitiesForgotten))
      again(work_, shared_);
  }
  __device__ __noinline__ static void again(const SmallWork& work, char* shared) {
    SmallWindows all(work, shared);
    all.find_terms();
    all.template walk<true>();
  }

 private:
  static constexpr int kTiles = S::kKeys / 8;          // of scores, 16 rows by 8 keys
  static constexpr int kTurns = 16 * S::kChunks / 32;  // chunks of a tile that a lane copies
  static constexpr int kRowsInTurn = 32 / S::kChunks;

  /// The two rows of a lane, of which it has a quarter each.
  struct Rows {
    float top[2], total[2];  // largest logit in base 2, sum of 2^(logit - top)
    float sums[S::kDim / 8][4];
    float scale[2];  // makes outputs of sums
  };
  /// Of the keys of a lane's two rows, a bit each; bit `key` - lane_ % 4 * 2 of what it has itself.
  using Marks = uint64_t[2];

  __device__ int row_of(int half) const { return warp_ * 16 + lane_ / 4 + 8 * half; }
  __device__ int copied_row(int turn) const {
    return warp_ * 16 + turn * kRowsInTurn + lane_ / S::kChunks;
  }
  __device__ int copied_chunk() const { return lane_ % S::kChunks; }
  __device__ bool copies(int turn) const {
    return copied_row(turn) < places_ && copied_chunk() < work_.chunks;
  }
  // Places of a tile are linear in the bits of row and chunk, exclusive or taken for addition, and
  // tiles lie on 128 bytes: a place that is one chunk or some rows further differs by a constant.
  static constexpr uint32_t kRowBytes = S::kDim * 2;
  __device__ uint32_t copied_place(int turn) const {
    const uint32_t rows = place<S>(turn * kRowsInTurn, 0);
    return (place<S>(copied_row(0), copied_chunk()) ^ rows % 128) + rows / 128 * 128;
  }
  __device__ uint32_t tile(int stage, int which) const {
    return begin_ + static_cast<uint32_t>(stage * S::kStageBytes + which * S::kTileBytes);
  }
  __device__ uint32_t q(int stage) const { return tile(stage, 0); }
  __device__ uint32_t k(int stage) const { return tile(stage, 1); }
  __device__ uint32_t v(int stage) const { return tile(stage, 2); }

  __device__ void go_on(GridWindow& window) const {
    window.x += work_.step.x;
    window.y += work_.step.y;
    window.sequence += work_.step.sequence;
    if (window.x >= work_.across) {
      window.x -= work_.across;
      ++window.y;
    }
    if (window.y >= work_.down) {
      window.y -= work_.down;
      ++window.sequence;
    }
  }
  /// Which token of the sequence lies at (y, x) of the rolled grid, both less than twice its size.
  __device__ int token(int y, int x) const {
    if (y >= work_.grid_height) y -= work_.grid_height;
    if (x >= work_.grid_width) x -= work_.grid_width;
    return y * work_.grid_width + x;
  }
  __device__ void find_tokens(const GridWindow& window, int (&tokens)[kTurns]) const {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn)
      tokens[turn] = token(window.y * work_.window_height + tables_.y[copied_row(turn)],
                           window.x * work_.window_width + tables_.x[copied_row(turn)]);
  }

  /// Starts to copy the rows of a window.
  __device__ void load(const GridWindow& window, const int (&tokens)[kTurns], int stage) const {
    const int64_t channel = copied_chunk() * 16;
    const char *q_rows = tables_.q + window.sequence * work_.q.sequence + channel,
               *k_rows = tables_.k + window.sequence * work_.k.sequence + channel,
               *v_rows = tables_.v + window.sequence * work_.v.sequence + channel;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      if (!copies(turn)) continue;
      const uint32_t to = copied_place(turn);
      const int64_t at = tokens[turn];
      cuda::copy_async(q(stage) + to, q_rows + at * work_.q.token, true);
      cuda::copy_async(k(stage) + to, k_rows + at * work_.k.token, true);
      cuda::copy_async(v(stage) + to, v_rows + at * work_.v.token, true);
    }
    cuda::commit_copies();
  }
  /// Zeros where no row or channel is ever copied to: what is multiplied there is to be finite.
  __device__ void clear_padding() const {
#pragma unroll 1
    for (int index = static_cast<int>(threadIdx.x); index < 6 * S::kRows * S::kChunks;
         index += S::kThreads) {
      const int row = index / S::kChunks % S::kRows, chunk = index % S::kChunks;
      if (row < places_ && chunk < work_.chunks) continue;
      *reinterpret_cast<Chunk*>(shared_ + index / (S::kRows * S::kChunks) * S::kTileBytes +
                                place<S>(row, chunk)) = {};
    }
  }

  /// Where the places of a window and the rows of the head are.
  __device__ void find_places() const {
    const int place = static_cast<int>(threadIdx.x);
    if (place < kMostPlaces) {
      const int y = place / work_.window_width, x = place % work_.window_width;
      tables_.y[place] = y + work_.shift_y;
      tables_.x[place] = x + work_.shift_x;
      tables_.code[place] = y * (2 * work_.window_width - 1) + x;
    }
    if (place == 0) {
      const int kv_head = head_ / work_.heads_of_key;
      tables_.q = work_.q.of(0, head_);
      tables_.k = work_.k.of(0, kv_head);
      tables_.v = work_.v.of(0, kv_head);
      tables_.o = work_.o.of(0, head_);
    }
  }
  __device__ void load_bias() const {
    const RelBias& bias = work_.rel_bias;
    const int across = 2 * work_.window_width - 1;
#pragma unroll 1
    for (int n = static_cast<int>(threadIdx.x); n < (2 * work_.window_height - 1) * across;
         n += S::kThreads)
      tables_.bias[n] =
          bias.at ? in_base_2(static_cast<const T*>(
                        bias.at)[head_ * bias.head + n / across * bias.y + n % across * bias.x])
                  : 0;
  }
  /// What is added to the logits of pairs, but for the seams; -inf where there is no such key.
  __device__ void find_terms() {
    const int centre = tables_.code[places_ - 1];  // of a place and itself
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = row_of(e / 2), key = n * 8 + lane_ % 4 * 2 + e % 2;
        terms_[n][e] = key >= places_ ? -INFINITY
                       : row >= places_
                           ? 0
                           : tables_.bias[tables_.code[row] - tables_.code[key] + centre];
      }
  }

  /// Marks pairs of which one alone has gone round an edge. False: no window of its place has any.
  __device__ bool mark_rolled(const GridWindow& window, Marks& rolled) const {
    const uint64_t lower = window.y == work_.down - 1 ? work_.round_lower : 0,
                   right = window.x == work_.across - 1 && !cuda::planted(cuda::Bug::kSeamForgotten)
                               ? work_.round_right
                               : 0;
    if ((lower | right) == 0) return false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      rolled[half] = ((lower >> row & 1 ? ~lower : lower) | (right >> row & 1 ? ~right : right)) >>
                     lane_ % 4 * 2;
    }
    return true;
  }
  /// A mark of the pair that element e of tile n of the scores is of.
  __device__ static bool marked(const Marks& marks, int n, int e) {
    return marks[e / 2] >> (n * 8 + e % 2) & 1;
  }

  /// Computes all windows of the block. Returns whether some sum of the warp was no number.
  /// kCareful: what is hidden does not count, and infinities and NaN of V count with whatever
  /// weight.
  template <bool kCareful>
  __device__ bool walk() {
    const int first = static_cast<int>(blockIdx.x) / work_.heads,
              windows = work_.down * work_.across;
    GridWindow next{first / windows, first % windows / work_.across, first % work_.across};
    int tokens[kTurns];
    find_tokens(next, tokens);
    load(next, tokens, 0);
    if (!kCareful) {
      clear_padding();
      load_bias();
      __syncthreads();
      find_terms();
    }
    bool odd = false;
    for (int stage = 0; next.sequence < work_.batch; stage = 1 - stage) {
      const GridWindow window = next;
      cuda::wait_copies<0>();
      if (!cuda::planted(cuda::Bug::kNoBarrier))
        __syncthreads();  // this window is there, and everybody is done with the one before
      int written[kTurns];
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) written[turn] = tokens[turn];
      go_on(next);
      if (next.sequence < work_.batch) {
        find_tokens(next, tokens);
        load(next, tokens, 1 - stage);
      }
      if (warp_ * 16 >= places_) continue;
      Rows rows;
      odd |= attend<kCareful>(window, stage, rows);
      write(window, stage, cuda::planted(cuda::Bug::kRowsOfNextWindow) ? tokens : written, rows);
    }
    return odd;
  }
  template <bool kCareful>
  __device__ bool attend(const GridWindow& window, int stage, Rows& rows) const {
    float scores[kTiles][4] = {};
    multiply_keys(k(stage), q(stage), scores);
    Marks rolled = {};
    const bool at_edge = mark_rolled(window, rolled);
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[n][e] = fmaf(scores[n][e], work_.scale, terms_[n][e]);
    if (at_edge)
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (marked(rolled, n, e)) scores[n][e] += work_.shift_bias;
    Marks hidden = {};
    if (kCareful)
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (terms_[n][e] == -INFINITY ||
              (marked(rolled, n, e) && work_.shift_bias == -INFINITY)) {
            scores[n][e] = -INFINITY;
            hidden[e / 2] |= uint64_t{1} << (n * 8 + e % 2);
          }
    weigh(scores, rows);
    add_values<kCareful>(v(stage), scores, rows.sums);
    if (kCareful) {
      add_odd_values(v(stage), hidden, rows.sums);
#pragma unroll
      for (int d = 0; d < S::kDim / 8; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          rows.sums[d][e] = cuda::scaled(rows.sums[d][e], rows.scale[e / 2]);
      rows.scale[0] = rows.scale[1] = 1;
      return false;
    }
    float odd = 0;  // NaN, if one of them is infinite or NaN
#pragma unroll
    for (int d = 0; d < S::kDim / 8; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) odd = fmaf(rows.sums[d][e], 0, odd);
    return odd != 0;
  }

  __device__ void multiply_keys(uint32_t keys, uint32_t queries, float (&scores)[kTiles][4]) const {
    const uint32_t rows_at = queries + place<S>(warp_ * 16 + lane_ % 16, lane_ / 16),
                   keys_at = keys + place<S>(lane_ / 16 * 8 + lane_ % 8, lane_ / 8 % 2);
#pragma unroll
    for (int c = 0; c < S::kChunks / 2; ++c) {
      uint32_t rows[4];
      cuda::load_blocks(rows, rows_at ^ c * 32);
      cuda::Left<Type> left;
      left.set(rows);
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        uint32_t k[4];
        cuda::load_blocks(k, (keys_at ^ c * 32) + n * 8 * kRowBytes);
        cuda::multiply_add(scores[n], left, cuda::Right<Type>{k[0], k[1]});
        if (n + 1 < kTiles) cuda::multiply_add(scores[n + 1], left, cuda::Right<Type>{k[2], k[3]});
      }
    }
  }
  /// Logits become weights.
  __device__ static void weigh(float (&scores)[kTiles][4], Rows& rows) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = -INFINITY, total = 0;
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
        top = fmaxf(top, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      top = largest_of_row(top);
      const float from = top == -INFINITY ? 0 : top;
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores[n][e] = cuda::exp2_fast(scores[n][e] - from);
          total += scores[n][e];
        }
      rows.top[half] = top;
      rows.total[half] = sum_of_row(total);
      rows.scale[half] = rows.total[half] == 0 ? 0 : __fdividef(1, rows.total[half]);
    }
  }
  template <bool kCareful>
  __device__ void add_values(uint32_t values, const float (&weights)[kTiles][4],
                             float (&sums)[S::kDim / 8][4]) const {
#pragma unroll
    for (int d = 0; d < S::kDim / 8; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[d][e] = 0;
    const uint32_t values_at = values + place<S>(lane_ % 16, lane_ / 16);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      uint32_t packed[4] = {};
#pragma unroll
      for (int part = 0; part < 4; ++part)
        if (const int of = n + part / 2; of < kTiles)
          packed[part] =
              cuda::pack(weights[of][part % 2 * 2], weights[of][part % 2 * 2 + 1], Type());
      cuda::Left<Type> left;
      left.set(packed);
#pragma unroll
      for (int d = 0; d < S::kDim / 16; ++d) {
        uint32_t right[4];
        cuda::load_blocks_transposed(right, (values_at ^ d * 32) + n * 8 * kRowBytes);
        if (kCareful)
#pragma unroll
          for (uint32_t& word : right) word = finite_part<T>(word);
        cuda::multiply_add(sums[2 * d], left, cuda::Right<Type>{right[0], right[1]});
        cuda::multiply_add(sums[2 * d + 1], left, cuda::Right<Type>{right[2], right[3]});
      }
    }
  }
  /// Adds infinities and NaN of V to the rows that see them.
  __device__ void add_odd_values(uint32_t values, Marks& hidden,
                                 float (&sums)[S::kDim / 8][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      hidden[half] <<= lane_ % 4 * 2;
      for (int step = 1; step < 4; step *= 2)
        hidden[half] |= __shfl_xor_sync(0xffffffff, hidden[half], step);
    }
#pragma unroll 1
    for (int key = 0; key < places_; ++key)
#pragma unroll
      for (int d = 0; d < S::kDim / 8; ++d) {
        const uint32_t word =
            cuda::load_shared(values + place<S>(key, d) + static_cast<uint32_t>(lane_ % 4 * 4));
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (!(hidden[e / 2] >> key & 1)) sums[d][e] += odd_part<T>(word, e % 2);
      }
  }

  /// The warp's rows of O by way of its rows of Q, which are done with, so that a row is written in
  /// one piece.
  __device__ void write(const GridWindow& window, int stage, const int (&tokens)[kTurns],
                        const Rows& rows) const {
    __syncwarp();
    const uint32_t to = q(stage) + place<S>(row_of(0), 0) + static_cast<uint32_t>(lane_ % 4 * 4);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int d = 0; d < S::kDim / 8; ++d)
        if (d < work_.chunks)  // padding stays 0
          cuda::store_shared((to ^ d * 16) + half * 8 * kRowBytes,
                             cuda::pack(rows.sums[d][2 * half] * rows.scale[half],
                                        rows.sums[d][2 * half + 1] * rows.scale[half], Type()));
    if (work_.lse.at && lane_ % 4 == 0)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        tables_.lse[row_of(half)] =
            rows.total[half] == 0 ? -INFINITY : rows.top[half] * kLn2 + logf(rows.total[half]);
    __syncwarp();
    char* const o = tables_.o + window.sequence * work_.o.sequence + copied_chunk() * 16;
    const char* const from = shared_ + (q(stage) - begin_);
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn)
      if (copies(turn))
        *reinterpret_cast<Chunk*>(o + int64_t{tokens[turn]} * work_.o.token) =
            *reinterpret_cast<const Chunk*>(from + copied_place(turn));
    if (!work_.lse.at || copied_chunk() != 0) return;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn)
      if (copies(turn))
        *reinterpret_cast<float*>(work_.lse.of(window.sequence, head_) +
                                  int64_t{tokens[turn]} * work_.lse.token) =
            tables_.lse[copied_row(turn)];
  }

  const SmallWork& work_;
  char* const shared_;  // two stages of Q, K and V, then the tables
  SmallTables& tables_;
  const uint32_t begin_;
  const int places_, head_, lane_, warp_;
  float terms_[kTiles][4];
};

}  // namespace flash
