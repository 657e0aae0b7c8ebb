// mutants: one healthy implementation, mutant_none, and copies of it with one planted bug each, for attest to find. A mutant
// refuses the problems on which its bug would change nothing, and says so.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attest.hpp"
#include "online_softmax.hpp"

namespace {

using mutants::Mutation, mutants::kChannels, mutants::kTile;
constexpr float kHidden = -std::numeric_limits<float>::infinity();

constexpr uint64_t kDtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16);
constexpr uint64_t kFeatures = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW |
                               ATTEST_WITH_DIAGONAL | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS |
                               ATTEST_WITH_PAGES | ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES | ATTEST_WITH_STRIDES |
                               ATTEST_WITH_UNALIGNED;

struct Description {
  const char *name, *summary;
};
constexpr Description describe(Mutation mutation) {
  switch (mutation) {
    case Mutation::kNone: return {"mutant_none", "tiled online softmax in float32, healthy"};
    case Mutation::kDroppedTile: return {"mutant_dropped_tile", "skips the last full tile of 64 keys"};
    case Mutation::kSkippedRescale: return {"mutant_skipped_rescale", "forgets to rescale where a row's maximum rises first"};
    case Mutation::kWrongScale: return {"mutant_wrong_scale", "softmax_scale times 1.02"};
    case Mutation::kSwappedHead: return {"mutant_swapped_head", "heads 0 and 1 of the output exchanged"};
    case Mutation::kCausalOffByOne: return {"mutant_causal_off_by_one", "j < i instead of j <= i"};
    case Mutation::kStaleOutput: return {"mutant_stale_output", "the last 16 rows or fewer are not written"};
    case Mutation::kTruncatedTail: return {"mutant_truncated_tail", "keys beyond a multiple of 16 ignored"};
    case Mutation::kZeros: return {"mutant_zeros", "writes zeros"};
  }
  return {"", ""};
}

/// Why the mutation changes nothing here, or null. Lengths that are data are not known: there it may change nothing after all.
const char* equivalent(Mutation mutation, const attest_softmax_params& p, uint64_t features) {
  const bool all_long = !(features & (ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS));
  if (mutation == Mutation::kDroppedTile && p.seq_len_kv < kTile) return "no full tile of 64 keys, so nothing is wrong here";
  if (mutation == Mutation::kSkippedRescale && p.seq_len_kv <= kTile) return "one tile of 64 keys, so nothing is wrong here";
  if (mutation == Mutation::kWrongScale && p.seq_len_kv == 1) return "one key, so nothing is wrong here";
  if (mutation == Mutation::kSwappedHead && p.num_heads < 2) return "one head, so nothing is wrong here";
  if (mutation == Mutation::kCausalOffByOne && p.window_right != 0) return "not causal, so nothing is wrong here";
  if (mutation == Mutation::kTruncatedTail && all_long && p.seq_len_kv % mutants::kTailKeys == 0)
    return "a multiple of 16 keys, so nothing is wrong here";
  return nullptr;
}

/// Hands out the workspace piece by piece; with no memory it counts the bytes.
class Arena {
 public:
  explicit Arena(void* memory) : memory_(static_cast<char*>(memory)) {}
  template <class T>
  T* take(int64_t count) {
    T* piece = memory_ ? reinterpret_cast<T*>(memory_ + bytes_) : nullptr;
    bytes_ += static_cast<size_t>(mutants::round_up(count * static_cast<int64_t>(sizeof(T)), 64));
    return piece;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_ = 0;
};

struct Buffers {
  int64_t rows, channels;
  float *q, *kt, *v, *top, *total, *sum;
  int64_t *begin, *end;
  uint8_t* keep_once;

  Buffers(const attest_softmax_params& p, Arena& arena)
      : rows(mutants::round_up(p.seq_len_q, 2)),
        channels(mutants::round_up(p.head_dim_v, kChannels)),
        q(arena.take<float>(rows * p.head_dim)),
        kt(arena.take<float>(kTile * p.head_dim)),
        v(arena.take<float>(kTile * channels)),
        top(arena.take<float>(rows)),
        total(arena.take<float>(rows)),
        sum(arena.take<float>(rows * channels)),
        begin(arena.take<int64_t>(rows)),
        end(arena.take<int64_t>(rows)),
        keep_once(arena.take<uint8_t>(rows)) {}
};

template <Mutation kMutation>
struct Mutant {
  static constexpr attest::Info kInfo{.name = describe(kMutation).name,
                                      .version = "1",
                                      .summary = describe(kMutation).summary,
                                      .dtypes = kDtypes,
                                      .features = kFeatures};
  const attest_problem& problem;

  static const char* query(const attest_problem& problem, attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    if (const char* why_not = equivalent(kMutation, p, problem.features)) return why_not;
    Arena arena(nullptr);
    const Buffers buffers(p, arena);
    support.qk_operand_dtype = support.pv_operand_dtype = support.score_dtype = ATTEST_F32;
    support.probability_dtype = support.accumulator_dtype = ATTEST_F32;
    support.workspace_bytes = arena.bytes();
    return nullptr;
  }

  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) const {
    const attest::Softmax<T> a(problem, data);
    Arena arena(workspace);
    const Buffers buffers(a.p, arena);
    for (int64_t b = 0; b < a.p.batch; ++b)
      for (int64_t h = 0; h < a.p.num_heads; ++h) {
        if (kMutation != Mutation::kZeros) attend(a, b, h, buffers);
        write(a, b, h, buffers);
      }
  }

 private:
  template <class T>
  static void attend(const attest::Softmax<T>& a, int64_t b, int64_t h, const Buffers& x) {
    start_rows(a, b, h, x);
    const mutants::Rows rows{mutants::round_up(a.rows(b), 2),
                             a.p.head_dim,
                             x.channels,
                             x.q,
                             x.begin,
                             x.end,
                             x.top,
                             x.total,
                             x.sum,
                             kMutation == Mutation::kSkippedRescale ? x.keep_once : nullptr};
    const int64_t length = a.length_kv(b), last_full = length / kTile - 1;
    for (int64_t tile = 0; tile * kTile < length; ++tile) {
      if (kMutation == Mutation::kDroppedTile && tile == last_full) continue;
      const bool wild = read_tile(a, b, a.kv_head(h), tile * kTile, std::min(length, (tile + 1) * kTile), x);
      mutants::add_tile(rows, {tile * kTile, x.kt, x.v, wild});
    }
  }

  template <class T>
  static void start_rows(const attest::Softmax<T>& a, int64_t b, int64_t h, const Buffers& x) {
    const int64_t rows = a.rows(b);
    const float scale = a.p.softmax_scale * (kMutation == Mutation::kWrongScale ? mutants::kScaleError : 1);
    for (int64_t i = 0; i < mutants::round_up(rows, 2); ++i) {
      const attest::Cell at = a.query(b, std::min(i, rows - 1));
      for (int64_t d = 0; d < a.p.head_dim; ++d) x.q[i * a.p.head_dim + d] = scale * a.q(at.batch, h, at.row, d);
      const attest::Keys keys = i < rows ? visible(a, b, i) : attest::Keys{0, 0};
      x.begin[i] = keys.begin, x.end[i] = keys.end;
      x.top[i] = kHidden, x.total[i] = 0, x.keep_once[i] = 1;
    }
    std::fill_n(x.sum, mutants::round_up(rows, 2) * x.channels, 0.0f);
  }

  static attest::Keys visible(const attest::Sequences& a, int64_t b, int64_t i) {
    attest::Keys keys = a.keys(b, i);
    if (kMutation == Mutation::kTruncatedTail)
      keys.end = std::min(keys.end, a.length_kv(b) / mutants::kTailKeys * mutants::kTailKeys);
    if (kMutation == Mutation::kCausalOffByOne) {
      const int64_t shift = a.p.diagonal == ATTEST_BOTTOM_RIGHT ? a.length_kv(b) - a.length_q(b) : 0;
      keys.end = std::min(keys.end, i + a.p.diagonal_offset + shift);
    }
    return keys;
  }

  /// Keys begin .. end - 1 into kt, transposed, and v; zeros behind them. Whether V has an Inf or NaN.
  template <class T>
  static bool read_tile(const attest::Softmax<T>& a, int64_t b, int64_t kv_head, int64_t begin, int64_t end, const Buffers& x) {
    bool wild = false;
    for (int64_t j = 0; j < kTile; ++j) {
      const bool there = begin + j < end;
      const attest::Cell at = there ? a.key(b, begin + j) : attest::Cell{0, 0};
      for (int64_t d = 0; d < a.p.head_dim; ++d)
        x.kt[d * kTile + j] = there ? static_cast<float>(a.k(at.batch, kv_head, at.row, d)) : 0;
      for (int64_t d = 0; d < x.channels; ++d) {
        const float value = there && d < a.p.head_dim_v ? static_cast<float>(a.v(at.batch, kv_head, at.row, d)) : 0;
        x.v[j * x.channels + d] = value;
        wild |= !std::isfinite(value);
      }
    }
    return wild;
  }

  template <class T>
  static void write(const attest::Softmax<T>& a, int64_t b, int64_t h, const Buffers& x) {
    const int64_t to = kMutation == Mutation::kSwappedHead && h < 2 ? 1 - h : h;
    int64_t rows = a.rows(b);
    if (kMutation == Mutation::kStaleOutput) rows = rows > 0 ? (rows - 1) / mutants::kStaleRows * mutants::kStaleRows : 0;
    for (int64_t i = 0; i < rows; ++i) {
      const attest::Cell at = a.query(b, i);
      const bool zero = kMutation == Mutation::kZeros || x.total[i] == 0;
      for (int64_t d = 0; d < a.p.head_dim_v; ++d)
        a.o(at.batch, to, at.row, d) = zero ? 0 : x.sum[i * x.channels + d] / x.total[i];
      if (a.lse) a.lse(at.batch, to, at.row) = kMutation == Mutation::kZeros ? 0 : x.top[i] + std::log(x.total[i]);
    }
  }
};

}  // namespace

ATTEST_PLUGIN(attest::table<Mutant<Mutation::kNone>>(), attest::table<Mutant<Mutation::kDroppedTile>>(),
              attest::table<Mutant<Mutation::kSkippedRescale>>(), attest::table<Mutant<Mutation::kWrongScale>>(),
              attest::table<Mutant<Mutation::kSwappedHead>>(), attest::table<Mutant<Mutation::kCausalOffByOne>>(),
              attest::table<Mutant<Mutation::kStaleOutput>>(), attest::table<Mutant<Mutation::kTruncatedTail>>(),
              attest::table<Mutant<Mutation::kZeros>>())
