// Tiled softmax attention for sm_90a (wgmma, TMA), f16 and bf16: what flash_cuda runs there for
// problems whose rows and keys lie one behind the other and whose pairs have no terms of their own.
//
// A block stays on its multiprocessor and takes one tile of 128 or 192 rows after another,
// whichever is next (tile_order.hpp); runs of a plan come one after another on a stream, and count
// tiles anew. One warp of the first warpgroup finds out which keys a tile's rows see and has tiles
// of Q, K and V copied; the other warpgroups have 64 rows each. While the tensor cores multiply the
// next keys and these values, a warpgroup makes weights of its scores, and they take turns in it
// (Shah et al., FlashAttention-3, 2024). So do the last values of a tile and the first keys of the
// next.
//
// A hidden key has a weight of 0, and 0 times NaN is NaN: values of keys that no row of a tile sees
// are made 0. Where some rows see what others do not, nothing is repaired here: a warp whose sums
// are not all finite says so in `odd`, and its tile is done again by the kernel that takes
// infinities and NaN out (flash.cuh).
#pragma once
#include <algorithm>

#include "cuda/flash.cuh"
#include "cuda/sm90.cuh"
#include "cuda/tile_order.hpp"

namespace flash_sm90 {

using cuda::Bug;
using sm90::kColumn;
using sm90::kRowBytes;
using sm90::kWarpgroup;

/// Head sizes up to kDim, kKeys keys a tile, kStages tiles of K and as many of V in shared memory,
/// kSlots of Q; kConsumers warpgroups with 64 rows each. For problems that have no more keys, one
/// tile is enough, and registers are left for more of them.
template <int kHeadDim, int kTileKeys, int kTileStages, int kQuerySlots, bool kOne = false,
          int kRowGroups = 2>
struct Shape {
  static constexpr int kConsumers = kRowGroups, kRows = 64 * kConsumers,
                       kThreads = kWarpgroup * (1 + kConsumers);
  /// Registers a thread: at the launch, all that a multiprocessor has; then those of the warpgroup
  /// that copies, and of the others.
  static constexpr int kRegisters = 65536 / kThreads / 8 * 8,
                       kProducerRegisters = kConsumers == 2 ? 40 : 32,
                       kConsumerRegisters = kConsumers == 2 ? 232 : 160;
  static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <=
                    (1 + kConsumers) * kRegisters,
                "or the last to ask for registers waits for ever");
  static constexpr bool kOneTile = kOne;
  static constexpr int kDim = kHeadDim, kKeys = kTileKeys, kStages = kTileStages,
                       kSlots = kQuerySlots;
  static constexpr int kColumns = (kDim + kColumn - 1) / kColumn;
  static constexpr int kQueryBytes = kRows * kColumns * kRowBytes,
                       kTileBytes = kKeys * kColumns * kRowBytes;
  static constexpr int kTilesBytes = kSlots * kQueryBytes + 2 * kStages * kTileBytes,
                       kBarriers = 2 * kSlots + 4 * kStages + 1;
  static constexpr int kSharedBytes =
      1024 + kTilesBytes + 8 * kBarriers;  // of the 1024 as many as tiles need to start there
  static_assert(kSharedBytes <= 227 << 10, "what a block may have on sm_90");
};

/// A tensor whose channels, if it has any, lie side by side.
template <class Element>
struct Rows {
  Element* data;      // [batch, heads, rows, channels]
  int64_t stride[3];  // elements

  __device__ Element* at(int batch, int head, int row) const {
    return data + batch * stride[0] + head * stride[1] + row * stride[2];
  }
};

/// Where the tokens of a sequence begin and how many there are.
struct Lengths {
  const int32_t *cu_seqlens, *seq_lens;  // [batch + 1] and [batch], or null
  int64_t cu_seqlens_stride, seq_lens_stride;
  int longest;

  /// The first token's place among those of all sequences, where these are packed.
  __device__ int begin(int b) const { return cu_seqlens ? cu_seqlens[b * cu_seqlens_stride] : 0; }
  __device__ int count(int b) const {
    if (cu_seqlens) return begin(b + 1) - begin(b);
    return seq_lens ? seq_lens[b * seq_lens_stride] : longest;
  }
  __device__ int batch(int b) const { return cu_seqlens ? 0 : b; }
};

/// What attest::Sequences::keys says of problems that come here, in 32 bits: row i of `rows` sees
/// keys from i + from on and before i + past, of those in its patch and among `keys`.
struct Band {
  int rows, keys, from, past, patch;  // patch: 0 if there are none

  struct Interval {
    int begin, end;
  };
  __device__ Interval of(int row) const {
    if (row >= rows) return {0, 0};
    int begin = max(0, row + from), end = min(keys, row + past);
    if (patch > 0) {
      const int patch_end = row - row % patch + patch;
      begin = max(begin, min(patch_end, keys) - patch);
      end = min(end, patch_end);
    }
    return begin < end ? Interval{begin, end} : Interval{0, 0};
  }
};
/// No position is that large, nor twice that too large for 32 bits.
constexpr int kFar = 1 << 30;

/// What a launch is about.
template <class T>
struct Work {
  tiles::Order order;
  tiles::Progress* progress;
  uint8_t* odd;    // [pairs, row_blocks]: whether a sum of these 16 rows is not finite
  int row_blocks;  // of 16
  Rows<T> o;
  Rows<float> lse;  // null, or without channels
  const float* sinks;
  int64_t sinks_stride;
  Lengths queries, keys;
  int64_t from, past;  // of a Band, but for what lengths add
  bool bottom_right;
  int num_heads, heads_of_a_key, head_dim_v, patch_size;
  int value_rows;  // of V
  float factor;    // of dot products, for logits in base 2

  __device__ Band band(int b) const {
    const int rows = queries.count(b), there = keys.count(b);
    const int64_t shift = bottom_right ? there - rows : 0;
    const auto near = [&](int64_t x) {
      return static_cast<int>(max(min(x + shift, int64_t{kFar}), -int64_t{kFar}));
    };
    return {rows, there, near(from), near(past), patch_size};
  }
};
struct Maps {
  sm90::TensorMap q, k, v;
};

/// One tile of rows: which keys its rows see between them (tiles of keys count from `origin`), and
/// which all of them see.
struct alignas(16) Task {
  Band band;
  int batch, head, row;  // where its first row lies in O and LSE
  int pair;
  int first, past;  // rows from first on, none from past
  int origin, tiles, past_key, common_begin, common_end;
  bool last;  // there is none: nothing comes any more
};

/// A ring of places in shared memory: which is next, and the parity of the barriers' phase there.
template <int kPlaces>
struct Ring {
  int place = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++place == kPlaces) {
      place = 0;
      parity ^= 1;
    }
  }
};

/// Where things lie in a block's shared memory.
template <class S>
struct Shared {
  uint32_t tiles;  // address
  Task* tasks;     // [kSlots]
  __device__ uint32_t barrier(int number) const { return tiles + S::kTilesBytes + 8 * number; }
  __device__ uint32_t query(int slot) const { return tiles + slot * S::kQueryBytes; }
  __device__ uint32_t keys(int stage) const {
    return tiles + S::kSlots * S::kQueryBytes + stage * S::kTileBytes;
  }
  __device__ uint32_t values(int stage) const { return keys(S::kStages + stage); }
  __device__ uint32_t query_full(int slot) const { return barrier(slot); }
  __device__ uint32_t query_empty(int slot) const { return barrier(S::kSlots + slot); }
  __device__ uint32_t keys_full(int stage) const { return barrier(2 * S::kSlots + stage); }
  __device__ uint32_t keys_empty(int stage) const {
    return barrier(2 * S::kSlots + S::kStages + stage);
  }
  __device__ uint32_t values_full(int stage) const {
    return barrier(2 * S::kSlots + 2 * S::kStages + stage);
  }
  __device__ uint32_t landed() const {
    return barrier(S::kBarriers - 1);
  }  // values of which not all count
  __device__ uint32_t values_empty(int stage) const {
    return barrier(2 * S::kSlots + 3 * S::kStages + stage);
  }

  __device__ void make_barriers() const {
    for (int slot = 0; slot < S::kSlots; ++slot) {
      sm90::init_barrier(query_full(slot), 1);
      sm90::init_barrier(query_empty(slot), 4 * S::kConsumers);
    }
    for (int stage = 0; stage < S::kStages; ++stage) {
      sm90::init_barrier(keys_full(stage), 1);
      sm90::init_barrier(keys_empty(stage), 4 * S::kConsumers);
      sm90::init_barrier(values_full(stage), 1);
      sm90::init_barrier(values_empty(stage), 4 * S::kConsumers);
    }
    sm90::init_barrier(landed(), 1);
    sm90::publish_barriers();
  }
};

/// 16 bytes that are stored at once.
struct alignas(16) Words {
  uint32_t at[4];
};
/// Of four lanes that share a row: lane l's word i becomes lane i's word l.
__device__ inline void transpose_quad(Words& words) {
  const int lane = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int step = 1; step <= 2; step *= 2)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (!(i & step)) {
        uint32_t &low = words.at[i], &high = words.at[i | step], &given = lane & step ? low : high;
        const uint32_t taken = __shfl_xor_sync(0xffffffff, given, step);
        (lane & step ? low : high) = taken;
      }
}

/// The warp that has tiles copied.
template <class T, class S>
class Producer {
 public:
  __device__ Producer(const Maps& maps, const Work<T>& work, const Shared<S>& shared)
      : maps_(maps), work_(work), shared_(shared), lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void run() {
    int index = static_cast<int>(blockIdx.x);
    for (bool last = false; !last; index = __shfl_sync(0xffffffff, next_, 0)) {
      last = index >= work_.order.count();
      Task task{};
      task.last = last;
      if (!last && !find(work_.order.at(index), task)) {
        take();
        continue;
      }
      sm90::wait(shared_.query_empty(slot_.place), slot_.parity ^ 1);
      if (lane_ == 0) give(task);
      slot_.advance();
      if (!last) copy(task);
    }
    cuda::let_next_launch_begin();
  }

 private:
  /// Takes the tile that comes next, in lane 0. Nobody waits for its number before it is needed.
  __device__ void take() {
    if (lane_ == 0) next_ = static_cast<int>(gridDim.x) + atomicAdd(&work_.progress->taken, 1);
  }

  /// False: no rows there.
  __device__ bool find(const tiles::Tile& tile, Task& task) {
    const int b = tile.pair / work_.num_heads;
    task.head = tile.pair % work_.num_heads;
    task.pair = tile.pair;
    task.first = tile.tile * S::kRows;
    task.band = work_.band(b);
    task.past = work_.queries.cu_seqlens ? task.band.rows : work_.queries.longest;
    if (task.first >= task.past) return false;
    task.batch = work_.queries.batch(b);
    task.row = work_.queries.begin(b) + task.first;
    int lowest = INT32_MAX, highest = 0, common_begin = 0, common_end = INT32_MAX;
#pragma unroll 1  // registers are few here
    for (int row = task.first + lane_; row < min(task.past, task.first + S::kRows); row += 32) {
      const Band::Interval keys = task.band.of(row);
      common_begin = max(common_begin, keys.begin);
      common_end = min(common_end, keys.end);
      if (keys.begin < keys.end) {
        lowest = min(lowest, keys.begin);
        highest = max(highest, keys.end);
      }
    }
    lowest = __reduce_min_sync(0xffffffff, lowest);
    task.past_key = __reduce_max_sync(0xffffffff, highest);
    task.origin = task.past_key > 0 ? lowest : 0;
    task.tiles = (task.past_key - task.origin + S::kKeys - 1) / S::kKeys;
    task.common_begin = __reduce_max_sync(0xffffffff, common_begin);
    task.common_end = __reduce_min_sync(0xffffffff, common_end);
    key_batch_ = work_.keys.batch(b);
    key_row_ = work_.keys.begin(b) + task.origin;
    return true;
  }

  __device__ void give(const Task& task) const {
    shared_.tasks[slot_.place] = task;
    const uint32_t full = shared_.query_full(slot_.place);
    if (task.last) return sm90::arrive(full);
    load<S::kRows>(shared_.query(slot_.place), maps_.q, full, task.row, task.head, task.batch);
  }
  /// A tile of kCount rows, column by column; they arrive at `full`.
  template <int kCount>
  __device__ static void load(uint32_t to, const sm90::TensorMap& map, uint32_t full, int row,
                              int head, int batch) {
    sm90::arrive_and_expect(full, kCount * S::kColumns * kRowBytes);
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column)
      sm90::load_box(to + column * kCount * kRowBytes, map, full,
                     cuda::planted(Bug::kSecondColumn) ? 0 : column * kColumn, row, head, batch);
  }

  /// Has the keys and values of a task copied, and takes the next tile shortly before its end:
  /// late, so that no block is bound to a tile that another could begin earlier.
  __device__ void copy(const Task& task) {
    const int head = task.head / work_.heads_of_a_key, last = max(task.tiles - 1, 0);
    int row = key_row_;  // of the next tile of keys
    // Keys are one tile ahead, as they are where they are multiplied.
    for (int tile = 0; tile <= task.tiles; ++tile, row += S::kKeys) {
      if (tile == last) take();
      if (tile < task.tiles) {
        sm90::wait(shared_.keys_empty(keys_.place), keys_.parity ^ 1);
        if (lane_ == 0)
          load<S::kKeys>(shared_.keys(keys_.place), maps_.k, shared_.keys_full(keys_.place), row,
                         head, key_batch_);
        keys_.advance();
      }
      if (tile > 0) {
        sm90::wait(shared_.values_empty(values_.place), values_.parity ^ 1);
        load_values(task.past_key - task.origin - (tile - 1) * S::kKeys, row - S::kKeys, head);
        values_.advance();
      }
    }
  }
  /// A tile of which the first `seen` rows count. What lies behind them, padding or another
  /// sequence, may be anything, and 0 times NaN is NaN: it is made 0, unless there is no more of
  /// the tensor, where a copy puts zeros.
  __device__ void load_values(int seen, int row, int head) {
    const uint32_t values = shared_.values(values_.place),
                   full = shared_.values_full(values_.place);
    if (seen >= S::kKeys || row + seen >= work_.value_rows ||
        cuda::planted(Bug::kPaddingMultiplied)) {
      if (lane_ == 0) load<S::kKeys>(values, maps_.v, full, row, head, key_batch_);
      return;
    }
    if (lane_ == 0) load<S::kKeys>(values, maps_.v, shared_.landed(), row, head, key_batch_);
    sm90::wait(shared_.landed(), landed_.parity);
    landed_.advance();
    for (int column = 0; column < S::kColumns; ++column)
      for (int byte = seen * kRowBytes + lane_ * 16; byte < S::kKeys * kRowBytes; byte += 32 * 16)
        sm90::store_zeros(values + column * S::kKeys * kRowBytes + byte);
    if (!cuda::planted(Bug::kNoFence)) sm90::publish_stores();
    __syncwarp();
    if (lane_ == 0) sm90::arrive(full);
  }

  const Maps& maps_;
  const Work<T>& work_;
  const Shared<S>& shared_;
  const int lane_;
  int next_ = 0;                     // in lane 0
  int key_batch_ = 0, key_row_ = 0;  // where the first key that a task sees lies
  Ring<S::kSlots> slot_;
  Ring<S::kStages> keys_, values_;
  Ring<1> landed_;
};

/// A warpgroup with 64 rows of each tile; a thread has parts of two, row(0) and row(1).
template <class T, class S>
class Consumer {
 public:
  using Type = typename flash::Element<T>::Type;
  using Scores = sm90::Products<Type, S::kKeys>;
  using Values = sm90::Products<Type, S::kDim>;

  __device__ Consumer(const Work<T>& work, const Shared<S>& shared)
      : work_(work),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x) % 32),
        // By way of a lane, so that the compiler sees that a warp has the same
        warp_(__shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0) - 4),
        group_(warp_ / 4),
        factor_(work.factor) {}

  __device__ void run() {
    if (group_ == S::kConsumers - 1)
      sm90::come_by_named(kTurn,
                          2 * kWarpgroup);  // the first turn is group 0's; its last is never taken
    take();
    if (task_.last) return;
    float scores[S::kKeys / 2], sums[S::kDim / 2];
    uint32_t weights[S::kKeys / 16][4];
    float keep[2];
    start(scores, weights, sums);
#pragma unroll 1
    for (int tile = 1;; ++tile) {  // of keys
      const Task before = task_;
      const bool first = S::kOneTile || tile == task_.tiles;
      if (first) {
        slot_.advance();
        if (!kAhead) finish(before, weights, sums);
        take();
        if (task_.last) return kAhead ? finish(before, weights, sums) : void();
        tile = 0;
        if (!kAhead) {
          start(scores, weights, sums);
          continue;
        }
      }
      sm90::wait_named(kTurn + group_, 2 * kWarpgroup);
      sm90::pin(scores);
      multiply_keys(scores);
      add_values(weights, sums);
      sm90::come_by_named(kTurn + next_group(), 2 * kWarpgroup);
      if (cuda::planted(Bug::kKeysGivenBackEarly)) release_keys(tile);
      if (!cuda::planted(Bug::kScoresNotWaited)) sm90::wait_products<1>();
      sm90::pin(scores);
      if (!cuda::planted(Bug::kKeysGivenBackEarly)) release_keys(tile);
      if (kAhead && first) {
        sm90::wait_products<0>();
        sm90::pin(sums);
        release_values();
        write(before, sums);
        begin(sums);
        weigh(0, scores, keep);
      } else {
        if (cuda::planted(Bug::kValuesGivenBackEarly)) release_values();
        weigh(tile, scores, keep);
        // Late in a row its largest logit is seldom a new one, and sums stay as they are.
        const bool changes = __any_sync(0xffffffff, keep[0] != 1 || keep[1] != 1);
        sm90::settle(total_[0], shared_.tiles);
        sm90::settle(total_[1], shared_.tiles);
        sm90::wait_products<0>();
        sm90::pin(sums);
        if (!cuda::planted(Bug::kValuesGivenBackEarly)) release_values();
        if (changes) {
#pragma unroll
          for (int i = 0; i < S::kDim / 2; ++i) sums[i] *= keep[i / 2 % 2];
        }
      }
      pack(scores, weights);
    }
  }

 private:
  static constexpr int kTurn = 1;  // named barriers kTurn + group
  /// Whether a task's last values and the next one's first keys are multiplied together. An H100
  /// gained 8 % by it at head_dim 64, and lost 4 % at 128.
  static constexpr bool kAhead = S::kDim <= 64;

  /// The next task that has keys, or the last. Tiles whose rows see no key are written at once.
  __device__ void take() {
    while (true) {
      sm90::wait(shared_.query_full(slot_.place), slot_.parity);
      task_ = shared_.tasks[slot_.place];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = this->row(task_, half);
        const Band::Interval keys = row < task_.past ? task_.band.of(row) : Band::Interval{0, 0};
        begin_[half] = keys.begin;
        end_[half] = keys.end;
      }
      __syncwarp();  // all lanes have it before one of them gives the place back
      if (task_.last || task_.tiles > 0) return;
      release(shared_.query_empty(slot_.place));
      write_zeros();
      slot_.advance();
    }
  }
  /// The first keys of a task, by themselves.
  __device__ void start(float (&scores)[S::kKeys / 2], uint32_t (&weights)[S::kKeys / 16][4],
                        float (&sums)[S::kDim / 2]) {
    float keep[2];  // of nothing
    begin(sums);
    sm90::pin(scores);
    multiply_keys(scores);
    sm90::wait_products<0>();
    sm90::pin(scores);
    release_keys(0);
    weigh(0, scores, keep);
    pack(scores, weights);
  }
  __device__ void begin(float (&sums)[S::kDim / 2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      top_[half] = -INFINITY;
      total_[half] = 0;
    }
#pragma unroll
    for (int i = 0; i < S::kDim / 2; ++i) sums[i] = 0;
  }
  __device__ int next_group() const { return group_ + 1 < S::kConsumers ? group_ + 1 : 0; }
  __device__ int row(const Task& task, int half) const {
    return task.first + warp_ * 16 + lane_ / 4 + half * 8;
  }
  __device__ void release(uint32_t barrier) const {
    if (lane_ == 0) sm90::arrive(barrier);
  }

  /// scores = Q K^T of the next tile of keys, under way.
  __device__ void multiply_keys(float (&scores)[S::kKeys / 2]) {
    uint32_t query = shared_.query(slot_.place) + group_ * 64 * kRowBytes;
    sm90::wait(shared_.keys_full(keys_.place), keys_.parity);
    const uint32_t keys = shared_.keys(keys_.place);
    sm90::renew(query);
    const uint64_t left = sm90::own_rows(query), right = sm90::own_rows(keys);
    sm90::begin_products();
#pragma unroll
    for (int c = 0; c < S::kDim / 16; ++c)
      Scores::of_shared(scores, sm90::further(left, c / 4 * S::kRows * kRowBytes + c % 4 * 32),
                        sm90::further(right, c / 4 * S::kKeys * kRowBytes + c % 4 * 32), c > 0);
    sm90::commit_products();
  }
  /// And the tile of queries, with the last keys of a task.
  __device__ void release_keys(int tile) {
    release(shared_.keys_empty(keys_.place));
    keys_.advance();
    if (tile == (cuda::planted(Bug::kQueryGivenBackEarly) ? 0 : task_.tiles - 1))
      release(shared_.query_empty(slot_.place));
  }

  /// sums += weights V of the next tile of values, under way.
  __device__ void add_values(uint32_t (&weights)[S::kKeys / 16][4], float (&sums)[S::kDim / 2]) {
    sm90::wait(shared_.values_full(values_.place), values_.parity);
    const uint32_t values = shared_.values(values_.place);
    sm90::pin(sums);
#pragma unroll
    for (int keys = 0; keys < S::kKeys / 16; ++keys) sm90::pin(weights[keys]);
    const uint64_t right = sm90::summed_rows(values, S::kKeys * kRowBytes);
    sm90::begin_products();
#pragma unroll
    for (int keys = 0; keys < S::kKeys / 16; ++keys)
      Values::of_registers(sums, weights[keys], sm90::further(right, keys * 16 * kRowBytes), true);
    sm90::commit_products();
  }
  __device__ void release_values() {
    release(shared_.values_empty(values_.place));
    values_.advance();
  }

  /// Dot products become weights 2^(logit - top); keep: what is left of weights before. Largest
  /// scores and sums are found in four chains, of which each step waits for the one before.
  __device__ void weigh(int tile, float (&scores)[S::kKeys / 2], float (&keep)[2]) {
    const int first = task_.origin + tile * S::kKeys;
    if (first < task_.common_begin || first + S::kKeys > task_.common_end) hide(first, scores);
    float tops[4] = {scores[0], scores[1], scores[2], scores[3]}, parts[4] = {}, from[2];
#pragma unroll
    for (int i = 4; i < S::kKeys / 2; ++i) tops[i % 4] = fmaxf(tops[i % 4], scores[i]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float largest = flash::largest_of_row(fmaxf(tops[2 * half], tops[2 * half + 1]));
      const float top = fmaxf(top_[half], largest * factor_);
      from[half] = top == -INFINITY ? 0 : top;
      keep[half] = cuda::exp2_fast(top_[half] - from[half]);
      top_[half] = top;
    }
#pragma unroll
    for (int i = 0; i < S::kKeys / 2; ++i) {
      scores[i] = cuda::exp2_fast(fmaf(scores[i], factor_, -from[i / 2 % 2]));
      parts[i % 4] += scores[i];
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
      total_[half] = fmaf(total_[half], keep[half], parts[2 * half] + parts[2 * half + 1]);
  }
  /// Scores of keys that a row does not see become -inf. Score i is of key i / 4 * 8 + lane % 4 * 2
  /// + i % 2, row i / 2 % 2. Most keys are seen by all rows: some at a time, that is asked first.
  __device__ void hide(int first, float (&scores)[S::kKeys / 2]) const {
    constexpr int kTogether = 16;  // keys; as many scores are half of a thread's
#pragma unroll
    for (int some = 0; some < S::kKeys; some += kTogether) {
      if (first + some >= task_.common_begin && first + some + kTogether <= task_.common_end)
        continue;
#pragma unroll
      for (int i = some / 2; i < (some + kTogether) / 2; ++i) {
        const int key = first + i / 4 * 8 + lane_ % 4 * 2 + i % 2;
        if (key < begin_[i / 2 % 2] || key >= end_[i / 2 % 2]) scores[i] = -INFINITY;
      }
    }
  }
  __device__ static void pack(const float (&scores)[S::kKeys / 2],
                              uint32_t (&weights)[S::kKeys / 16][4]) {
#pragma unroll
    for (int i = 0; i < S::kKeys / 4; ++i)
      weights[i / 4][i % 4] = cuda::pack(scores[2 * i], scores[2 * i + 1], Type());
  }

  __device__ void finish(const Task& task, uint32_t (&weights)[S::kKeys / 16][4],
                         float (&sums)[S::kDim / 2]) {
    add_values(weights, sums);
    sm90::wait_products<0>();
    sm90::pin(sums);
    release_values();
    write(task, sums);
  }
  __device__ void write_zeros() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = this->row(task_, half), at = task_.row + row - task_.first;
      if (row >= task_.past) continue;
      auto* o = reinterpret_cast<Words*>(work_.o.at(task_.batch, task_.head, at));
      for (int block = lane_ % 4; block * 8 < work_.head_dim_v; block += 4) o[block] = Words{};
      if (work_.lse.data && lane_ % 4 == 0) *work_.lse.at(task_.batch, task_.head, at) = -INFINITY;
    }
    tell_whether_odd(task_, false);
  }
  __device__ void write(const Task& task, const float (&sums)[S::kDim / 2]) {
    const float sink =
        work_.sinks ? work_.sinks[task.head * work_.sinks_stride] * flash::kLog2E : -INFINITY;
    bool odd = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      flash::Part part{top_[half], flash::sum_of_row(total_[half])};
      const bool sees = part.total != 0, there = row(task, half) < task.past;
      const float keep = work_.sinks ? flash::join_sink(sink, part) : 1, scale = keep / part.total;
      const int at = task.row + row(task, half) - task.first;
      float probe = 0;  // NaN once a sum is not finite
      auto* o = reinterpret_cast<Words*>(work_.o.at(task.batch, task.head, at));  // of 8 channels
#pragma unroll
      for (int d = 0; d < S::kDim / 8; d += 4) {
        Words words;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float first = sums[4 * (d + i) + 2 * half],
                      second = sums[4 * (d + i) + 2 * half + 1];
          probe = fmaf(second, 0, fmaf(first, 0, probe));
          words.at[i] = sees ? cuda::pack(first * scale, second * scale, Type()) : 0;
        }
        transpose_quad(words);
        const int block = d + lane_ % 4;
        if (there && block * 8 < work_.head_dim_v) o[block] = words;
      }
      odd |= there && sees && probe != 0;
      if (work_.lse.data && there && lane_ % 4 == 0)
        *work_.lse.at(task.batch, task.head, at) =
            sees ? part.top * flash::kLn2 + logf(part.total) : -INFINITY;
    }
    tell_whether_odd(task, __any_sync(0xffffffff, odd) && !forgets());
  }
  /// About a warp's rows.
  __device__ void tell_whether_odd(const Task& task, bool odd) const {
    const int block = task.first / 16 + warp_;
    if (lane_ != 0 || block >= work_.row_blocks) return;
    work_.odd[int64_t{task.pair} * work_.row_blocks + block] = odd;
    if (odd) atomicMax(&work_.progress->odd, 1);
  }

  /// Bugs that would be repaired.
  __device__ static bool forgets() {
    return cuda::planted(Bug::kNotDoneAgain) || cuda::planted(Bug::kPaddingMultiplied) ||
           cuda::planted(Bug::kNoFence);
  }

  const Work<T>& work_;
  const Shared<S>& shared_;
  const int lane_, warp_, group_;
  const float factor_;
  Task task_;
  int begin_[2], end_[2];
  float top_[2], total_[2];  // largest logit in base 2, sum of weights over this thread's keys
  Ring<S::kSlots> slot_;
  Ring<S::kStages> keys_, values_;
};

template <class T, class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    attend(const __grid_constant__ Maps maps, const __grid_constant__ Work<T> work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDACC__)
  __shared__ Task tasks[S::kSlots];
  // By way of a lane, as in Consumer
  const uint32_t base = __shfl_sync(0xffffffff, cuda::shared_address(cuda::dynamic_shared()), 0);
  const Shared<S> shared{(base + 1023) & ~1023u, tasks};
  if (threadIdx.x == 0) shared.make_barriers();
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    sm90::give_registers<S::kProducerRegisters>();
    if (threadIdx.x < 32) Producer<T, S>(maps, work, shared).run();
  } else {
    sm90::take_registers<S::kConsumerRegisters>();
    Consumer<T, S>(work, shared).run();
  }
#endif
}

// --- On the host ---

/// Whether blocks are through with tiles of 192 rows as early as with those of 128, of which the
/// last turn is shared out more evenly. An H100 took 2.04 ms and 2.34 ms for the same rows (16
/// heads of 16,384 tokens).
inline bool suits_192_rows(const attest_problem& problem) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const auto lasts = [&](int64_t rows) {
    const int64_t tiles = p.batch * p.num_heads * ((p.seq_len_q + rows - 1) / rows),
                  blocks = cuda::multiprocessors();
    return static_cast<double>((tiles + blocks - 1) / blocks * rows);
  };
  return lasts(192) <= 1.13 * lasts(128);
}

/// Calls body(T(), S()) with the element, of 16 bits, and the shape for a problem.
template <class Body>
void with_shape(const attest_problem& problem, const Body& body) {
  flash::with_head_dim(problem, [&](auto element, auto dim) {
    if constexpr (sizeof(element) != 2) {
      return;
    } else if constexpr (decltype(dim)::value <= 32) {
      if (suits_192_rows(problem)) return body(element, Shape<32, 128, 3, 2, false, 3>());
      body(element, Shape<32, 128, 3, 2>());
    } else if constexpr (decltype(dim)::value == 64) {
      // 14 x 14 patches of an image and some tokens more.
      const int64_t keys = attest::params<attest_softmax_params>(problem).seq_len_kv;
      if (keys > 128 && keys <= 208) return body(element, Shape<64, 208, 2, 2, true>());
      if (suits_192_rows(problem)) return body(element, Shape<64, 128, 3, 2, false, 3>());
      body(element, Shape<64, 128, 3, 2>());
    } else if constexpr (decltype(dim)::value == 128)
      body(element, Shape<128, 128, 2, 2>());
    else
      body(element, Shape<256, 64, 2, 1>());
  });
}

/// How a problem's tiles are ordered on the device at hand.
inline tiles::Order order(const attest_problem& problem, int rows) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  // Most of the cache, for a head's Q and O pass through too.
  return tiles::order(p.batch * p.num_heads, (p.seq_len_q + rows - 1) / rows,
                      p.seq_len_kv * (p.head_dim + p.head_dim_v) * 2,
                      int64_t{cuda::attribute(cudaDevAttrL2CacheSize)} * 3 / 4);
}

template <class T>
Work<T> work(const attest_problem& problem, void* const* data) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const auto rows = [&](int32_t role, auto* of) {
    const attest_tensor& tensor = problem.tensor[role];
    if (tensor.dtype == ATTEST_NONE) return Rows<std::decay_t<decltype(*of)>>{};
    return Rows<std::decay_t<decltype(*of)>>{
        static_cast<decltype(of)>(data[role]),
        {tensor.stride[0], tensor.stride[1], tensor.stride[2]}};
  };
  const auto integers = [&](int32_t role) {
    return problem.tensor[role].dtype == ATTEST_NONE ? nullptr
                                                     : static_cast<const int32_t*>(data[role]);
  };
  const auto stride = [&](int32_t role) { return problem.tensor[role].stride[0]; };
  Work<T> work{};
  work.o = rows(ATTEST_O, static_cast<T*>(nullptr));
  work.lse = rows(ATTEST_LSE, static_cast<float*>(nullptr));
  if (problem.tensor[ATTEST_SINKS].dtype != ATTEST_NONE)
    work.sinks = static_cast<const float*>(data[ATTEST_SINKS]);
  work.sinks_stride = stride(ATTEST_SINKS);
  work.queries = {integers(ATTEST_CU_SEQLENS_Q), integers(ATTEST_SEQ_LENS_Q),
                  stride(ATTEST_CU_SEQLENS_Q), stride(ATTEST_SEQ_LENS_Q),
                  static_cast<int>(p.seq_len_q)};
  work.keys = {integers(ATTEST_CU_SEQLENS_KV), integers(ATTEST_SEQ_LENS_KV),
               stride(ATTEST_CU_SEQLENS_KV), stride(ATTEST_SEQ_LENS_KV),
               static_cast<int>(p.seq_len_kv)};
  const auto keys = [](int64_t window) { return std::min(window, 4 * int64_t{kFar}); };
  work.from = p.window_left < 0 ? -4 * int64_t{kFar} : p.diagonal_offset - keys(p.window_left);
  work.past = p.window_right < 0 ? 4 * int64_t{kFar} : p.diagonal_offset + keys(p.window_right) + 1;
  work.bottom_right = p.diagonal == ATTEST_BOTTOM_RIGHT;
  work.num_heads = static_cast<int>(p.num_heads);
  work.heads_of_a_key = static_cast<int>(p.num_heads / p.num_kv_heads);
  work.head_dim_v = static_cast<int>(p.head_dim_v);
  work.patch_size = static_cast<int>(std::min(p.patch_size, int64_t{kFar}));
  work.value_rows = static_cast<int>(problem.tensor[ATTEST_V].dim[2]);
  work.factor = p.softmax_scale * flash::kLog2E;
  return work;
}

/// Flags of a pair.
inline int64_t row_blocks(const attest_softmax_params& p) { return (p.seq_len_q + 15) / 16; }

/// A problem that attend takes.
class Attend {
 public:
  /// Of problems that flash::why_not lets pass and that need none of the general kernel's features.
  static bool takes(const attest_problem& problem) {
    constexpr int64_t kFewestRows = 64, kMost = kFar,
                      kMostStride = int64_t{1}
                                    << 39;  // elements: of 32 bits, and what a map may have
    const auto& p = attest::params<attest_softmax_params>(problem);
    if (problem.tensor[ATTEST_Q].dtype == ATTEST_F32) return false;
    // ATTEST_CUDA_CAPABILITY does not give a newer device these instructions
    if (cuda::capability() != 90 || cuda::attribute(cudaDevAttrComputeCapabilityMajor) != 9 ||
        p.softmax_scale <= 0 || p.seq_len_q < kFewestRows || std::abs(p.diagonal_offset) >= kFar)
      return false;
    for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V})
      for (int axis = 0; axis < 4; ++axis) {
        const attest_tensor& tensor = problem.tensor[role];
        if (tensor.dim[axis] >= kMost || tensor.stride[axis] >= kMostStride) return false;
      }
    const int64_t count = p.batch * p.num_heads * ((p.seq_len_q + 127) / 128);
    return count < kMost && 2 * count >= cuda::multiprocessors();
  }
  /// For flags of tiles that are to be done again.
  static uint64_t workspace_bytes(const attest_problem& problem) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    return static_cast<uint64_t>(p.batch * p.num_heads * row_blocks(p));
  }

  explicit Attend(const attest_problem& problem) : problem_(problem), progress_(tiles::Progress{}) {
    with_shape(problem, [&](auto element, auto shape) {
      using S = decltype(shape);
      order_ = order(problem, S::kRows);
      cuda::check(
          cudaFuncSetAttribute(attend<decltype(element), S>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes),
          "cudaFuncSetAttribute");
    });
    blocks_ = std::min(order_.count(), cuda::multiprocessors());
  }
  void run(void* const* data, void* workspace, cudaStream_t stream) const {
    with_shape(problem_, [&](auto element, auto shape) {
      using S = decltype(shape);
      auto work = flash_sm90::work<decltype(element)>(problem_, data);
      work.order = order_;
      work.progress = progress_.get();
      work.odd = static_cast<uint8_t*>(workspace);
      work.row_blocks =
          static_cast<int>(row_blocks(attest::params<attest_softmax_params>(problem_)));
      const Maps maps{sm90::tensor_map(problem_.tensor[ATTEST_Q], data[ATTEST_Q], S::kRows),
                      sm90::tensor_map(problem_.tensor[ATTEST_K], data[ATTEST_K], S::kKeys),
                      sm90::tensor_map(problem_.tensor[ATTEST_V], data[ATTEST_V], S::kKeys)};
      cuda::launch(attend<decltype(element), S>, static_cast<unsigned>(blocks_), S::kThreads,
                   S::kSharedBytes, stream, maps, work);
    });
  }
  /// For the launch that does tiles again and sets it back.
  tiles::Progress* progress() const { return progress_.get(); }

 private:
  const attest_problem& problem_;
  tiles::Order order_{};
  int blocks_ = 0;
  const cuda::OnDevice<tiles::Progress> progress_;
};

}  // namespace flash_sm90
