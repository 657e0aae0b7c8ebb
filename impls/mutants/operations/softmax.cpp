// Softmax attention, tiled and with an online softmax, right or with one mutation. A mutation acts
// in one of four places: on a copy of the problem (mutate), on where things are read and written
// (Kernel), on terms (PairTerms), on the arithmetic (tiles.cpp).
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mutants/operations/load.hpp"
#include "mutants/operations/plan.hpp"
#include "mutants/operations/tiles.hpp"

namespace mutants {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kHidden = -kInfinity;
constexpr int64_t kBlock = 1024;  // rows that a thread attends to at once
constexpr int64_t kTail = 16;     // what the tail mutations count in
constexpr int64_t kRareRow = 301;
constexpr float kMaskAdds = -1e4f;

int64_t cut(int64_t n) { return n >= kTail ? n / kTail * kTail : n; }

/// A copy of the problem that a mutation may change.
struct Copy {
  attest_softmax_params p;
  attest_tensor tensor[ATTEST_ROLES];
  attest_problem problem;

  explicit Copy(const attest_problem& from)
      : p(attest::params<attest_softmax_params>(from)), problem(from) {
    std::copy_n(from.tensor, ATTEST_ROLES, tensor);
    problem.params = &p;
    problem.tensor = tensor;
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
};

void swap_axes(attest_tensor& tensor, int a, int b) {
  std::swap(tensor.stride[a], tensor.stride[b]);
  std::swap(tensor.dim[a], tensor.dim[b]);
}

void mutate(Mutation mutation, Copy& copy) {
  attest_softmax_params& p = copy.p;
  attest_tensor* t = copy.tensor;
  switch (mutation) {
    case Mutation::kWrongScale: p.softmax_scale *= 1.02f; break;
    case Mutation::kScaleTwice: p.softmax_scale *= p.softmax_scale; break;
    case Mutation::kScaleForgotten: p.softmax_scale = 1; break;
    case Mutation::kWindowLeftExclusive: p.window_left -= p.window_left > 0; break;
    case Mutation::kWindowRightExclusive: p.window_right -= p.window_right > 0; break;
    case Mutation::kCausalOffByOne:
      if (p.window_right == 0) p.diagonal_offset -= 1, p.window_left -= p.window_left > 0;
      break;
    case Mutation::kCausalTopLeft: p.diagonal = ATTEST_TOP_LEFT; break;
    case Mutation::kDiagonalOffsetIgnored: p.diagonal_offset = 0; break;
    case Mutation::kChannelTail: p.head_dim = cut(p.head_dim); break;
    case Mutation::kMaskHeadAsBatch: swap_axes(t[ATTEST_MASK], 0, 1); break;
    case Mutation::kBiasTransposed:
      if (t[ATTEST_BIAS].dim[2] == t[ATTEST_BIAS].dim[3]) swap_axes(t[ATTEST_BIAS], 2, 3);
      break;
    case Mutation::kHeadDimVStride:
      if (t[ATTEST_V].stride[2] == p.head_dim_v) t[ATTEST_V].stride[2] = p.head_dim;
      break;
    case Mutation::kSeqLensIgnored: t[ATTEST_SEQ_LENS_KV].dtype = ATTEST_NONE; break;
    case Mutation::kShiftSign:
      p.shift_y = (p.grid_height - p.shift_y) % std::max<int64_t>(p.grid_height, 1);
      p.shift_x = (p.grid_width - p.shift_x) % std::max<int64_t>(p.grid_width, 1);
      break;
    case Mutation::kShiftBiasMissing: p.shift_bias = 0; break;
    default: break;
  }
}

/// What one thread works on.
struct Scratch {
  int64_t rows, channels;
  float *q, *kt, *v, *row, *top, *total, *sum;
  int64_t *begin, *end;
  uint8_t* flag;

  Scratch(const attest_softmax_params& p, Arena& arena)
      : rows(std::min(kBlock, round_up(p.seq_len_q, 2))),
        channels(round_up(p.head_dim_v, kChannels)),
        q(arena.take<float>(rows * p.head_dim)),
        kt(arena.take<float>(kTile * p.head_dim)),
        v(arena.take<float>(kTile * channels)),
        row(arena.take<float>(std::max(p.head_dim, channels))),
        top(arena.take<float>(rows)),
        total(arena.take<float>(rows)),
        sum(arena.take<float>(rows * channels)),
        begin(arena.take<int64_t>(rows)),
        end(arena.take<int64_t>(rows)),
        flag(arena.take<uint8_t>(rows)) {}
};

/// Everything that turns a score into a logit but the band.
template <class T>
class PairTerms final : public Terms {
 public:
  PairTerms(const attest::Softmax<T>& a, Mutation mutation, int64_t b, int64_t h, int64_t first)
      : a_(a), mutation_(mutation), b_(b), h_(h), first_(first) {}

  static bool needed(const attest::Softmax<T>& a) {
    return a.p.softcap > 0 || a.bias || a.mask || a.rel_bias || a.alibi_slopes ||
           (a.grid && a.p.shift_bias != 0);
  }

  void apply(int64_t row, int64_t first_key, int64_t keys, float* scores) const override {
    for (int64_t j = 0; j < keys; ++j) {
      if (scores[j] == kHidden) continue;
      const float term = this->term(first_ + row, first_key + j);
      scores[j] = term == kHidden ? kHidden : logit(scores[j], term);
    }
  }

 private:
  float logit(float score, float term) const {
    const float cap = a_.p.softcap, scale = a_.p.softmax_scale;
    if (!(cap > 0)) return score + term;
    if (mutation_ == Mutation::kSoftcapAfterBias) return cap * std::tanh((score + term) / cap);
    if (mutation_ == Mutation::kSoftcapBeforeScale)
      return cap * std::tanh(score / scale / cap) * scale + term;
    return cap * std::tanh(score / cap) + term;
  }

  float term(int64_t i, int64_t j) const {
    float term = 0;
    if (a_.mask && (a_.mask(b_, h_, a_.token(i), a_.token(j)) != 0) ==
                       (mutation_ == Mutation::kMaskInverted)) {
      if (mutation_ != Mutation::kMaskFinite) return kHidden;
      term = kMaskAdds;
    }
    if (a_.bias) {
      const float bias = a_.bias(b_, h_, a_.token(i), a_.token(j));
      term += mutation_ == Mutation::kBiasInfAsZero && bias == kHidden ? 0 : bias;
    }
    if (a_.rel_bias) {
      const auto at =
          mutation_ == Mutation::kRelBiasMirrored ? a_.grid.relative(j, i) : a_.grid.relative(i, j);
      term += static_cast<float>(a_.rel_bias(h_, at.first, at.second));
    }
    if (a_.alibi_slopes) term -= slope() * distance(i, j);
    if (a_.grid && a_.p.shift_bias != 0 && a_.grid.rolled_together(i, j)) term += a_.p.shift_bias;
    return term;
  }
  float slope() const {
    const float slope = a_.alibi_slopes(b_, mutation_ == Mutation::kAlibiHead0 ? 0 : h_);
    return mutation_ == Mutation::kAlibiSign ? -slope : slope;
  }
  float distance(int64_t i, int64_t j) const {
    return static_cast<float>(
        std::abs((mutation_ == Mutation::kAlibiTopLeft ? i : a_.diagonal(b_, i)) - j));
  }

  const attest::Softmax<T>& a_;
  const Mutation mutation_;
  const int64_t b_, h_, first_;
};

template <class T>
class Kernel {
 public:
  Kernel(Mutation mutation, const attest_problem& problem, const attest_problem& unordered,
         void* const* data)
      : a_(problem, data),
        unordered_(unordered, data),
        page_table_(problem, data, ATTEST_PAGE_TABLE),
        cu_seqlens_q_(problem, data, ATTEST_CU_SEQLENS_Q),
        cu_seqlens_kv_(problem, data, ATTEST_CU_SEQLENS_KV),
        mutation_(mutation),
        threads_(problem.threads) {}

  void run(void* workspace) const {
    const attest_softmax_params& p = a_.p;
    const int64_t blocks = (p.seq_len_q + kBlock - 1) / kBlock;
    int64_t pairs = p.batch * p.num_heads;
    if (is(Mutation::kGridOf65535)) pairs = std::min<int64_t>(pairs, 65535);
    if (is(Mutation::kRace) && threads_ > 1) {
      for (int64_t task = 0; task < pairs * blocks; ++task)
        race(task / blocks, task % blocks * kBlock, workspace);
    } else {
#pragma omp parallel num_threads(threads_)
      {
        const Scratch x = scratch(workspace, omp_get_thread_num());
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < pairs * blocks; ++task)
          attend(task / blocks, task % blocks * kBlock, x);
      }
    }
    if (is(Mutation::kEmptySequenceRow) && cu_seqlens_q_) write_empty_sequences();
  }

  static Scratch scratch(const attest_softmax_params& p, void* workspace, int thread) {
    Arena count(nullptr);
    Scratch(p, count);
    Arena arena(static_cast<char*>(workspace) + static_cast<size_t>(thread) * count.bytes());
    return Scratch(p, arena);
  }

 private:
  bool is(Mutation mutation) const { return mutation_ == mutation; }
  Scratch scratch(void* workspace, int thread) const { return scratch(a_.p, workspace, thread); }

  /// Rows `first` and on of one (sequence, head); `b`, `h` are where its Q, K and V are read.
  struct Block {
    int64_t b, h, read_b, read_h, first, rows, lowest_key, last_key;
  };
  Block block(int64_t pair, int64_t first) const {
    const int64_t heads = a_.p.num_heads, read = is(Mutation::kHead16Bit) ? pair & 0xffff : pair,
                  b = pair / heads;
    return {
        b, pair % heads, read / heads, read % heads, first, std::min(kBlock, a_.rows(b) - first), 0,
        0};
  }

  void attend(int64_t pair, int64_t first, const Scratch& x) const {
    Block at = block(pair, first);
    if (at.rows <= 0) return;
    if (is(Mutation::kLastSequence) && cu_seqlens_q_ && at.b == a_.p.batch - 1) return;
    start_rows(at, x);
    const PairTerms<T> terms(a_, mutation_, at.b, at.h, first);
    const Rows rows = rows_of(at, x, terms);
    if (!is(Mutation::kZeros))
      for (int64_t tile = at.lowest_key / kTile; tile * kTile < at.last_key; ++tile)
        add(at, tile, rows, x);
    write(at, x);
  }

  // Tiles dealt out to threads, each of which adds its own to sums that it read before the others
  // had written theirs.
  void race(int64_t pair, int64_t first, void* workspace) const {
    Block at = block(pair, first);
    if (at.rows <= 0) return;
    const Scratch shared = scratch(workspace, threads_);
    start_rows(at, shared);
    const PairTerms<T> terms(a_, mutation_, at.b, at.h, first);
#pragma omp parallel num_threads(threads_)
    {
      const Scratch own = scratch(workspace, omp_get_thread_num());
      Block same = at;
      start_rows(same, own);
      const Rows rows = rows_of(same, own, terms);
      const int64_t past = (at.last_key + kTile - 1) / kTile, together = omp_get_num_threads();
      for (int64_t next = at.lowest_key / kTile; next < past; next += together) {
        copy_sums(shared, own);
#pragma omp barrier
        if (const int64_t tile = next + omp_get_thread_num(); tile < past) {
          add(same, tile, rows, own);
#pragma omp critical
          copy_sums(own, shared);
        }
#pragma omp barrier
      }
    }
    write(at, shared);
  }
  static void copy_sums(const Scratch& from, const Scratch& to) {
    std::copy_n(from.sum, from.rows * from.channels, to.sum);
    std::copy_n(from.top, from.rows, to.top);
    std::copy_n(from.total, from.rows, to.total);
  }

  Rows rows_of(const Block& at, const Scratch& x, const PairTerms<T>& terms) const {
    const bool odd = is(Mutation::kDroppedKey) || is(Mutation::kDoubledKey);
    return {mutation_,
            round_up(at.rows, 2),
            a_.p.head_dim,
            x.channels,
            odd ? a_.length_kv(at.b) / 2 : -1,
            is(Mutation::kScoreOverflow) ? 65504 * std::fabs(a_.p.softmax_scale) : kInfinity,
            PairTerms<T>::needed(a_) ? &terms : nullptr,
            x.q,
            x.begin,
            x.end,
            x.top,
            x.total,
            x.sum,
            x.flag};
  }

  void start_rows(Block& at, const Scratch& x) const {
    at.lowest_key = a_.length_kv(at.b);
    at.last_key = 0;
    for (int64_t r = 0; r < round_up(at.rows, 2); ++r) {
      const int64_t i = at.first + std::min(r, at.rows - 1);
      read_query(at, i, x.q + r * a_.p.head_dim);
      const attest::Keys keys = r < at.rows ? visible(at.b, i) : attest::Keys{0, 0};
      x.begin[r] = keys.begin;
      x.end[r] = keys.end;
      if (keys.begin < keys.end) {
        at.lowest_key = std::min(at.lowest_key, keys.begin);
        at.last_key = std::max(at.last_key, keys.end);
      }
      x.top[r] = is(Mutation::kMaxFromMinus1e4) ? -1e4f : kHidden;
      x.total[r] = 0;
      x.flag[r] = 1;
    }
    std::fill_n(x.sum, round_up(at.rows, 2) * x.channels, 0.0f);
  }

  /// The keys of a band whose diagonal is at `place`.
  attest::Keys band_at(int64_t b, int64_t place) const {
    const attest_softmax_params& p = a_.p;
    attest::Keys keys{0, a_.length_kv(b)};
    if (p.window_left >= 0) keys.begin = std::max<int64_t>(0, place - p.window_left);
    if (p.window_right >= 0) keys.end = std::min(keys.end, place + p.window_right + 1);
    return keys;
  }

  attest::Keys visible(int64_t b, int64_t i) const {
    const attest_softmax_params& p = a_.p;
    attest::Keys keys = a_.keys(b, i);
    if (i >= a_.length_q(b)) return keys;
    if (is(Mutation::kCausalLocalRow)) keys = a_.keys(b, i % kTile);
    if (is(Mutation::kDiagonalClamped) && a_.diagonal(b, 0) < 0) keys = band_at(b, i);
    if (is(Mutation::kDiagonalOfLongest) && p.diagonal == ATTEST_BOTTOM_RIGHT && p.patch_size == 0)
      keys = band_at(b, i + p.diagonal_offset + p.seq_len_kv - p.seq_len_q);
    if (is(Mutation::kKeysOfQueries) && cu_seqlens_q_ && cu_seqlens_kv_)
      keys.end = std::min(keys.end, a_.length_q(b));
    if (is(Mutation::kRareRow) && i == kRareRow) keys.end -= (keys.end - keys.begin) / 2;
    if (is(Mutation::kKeyTail)) keys.end = std::min(keys.end, cut(a_.length_kv(b)));
    if (is(Mutation::kPatchNotFilled) && p.patch_size > 0)
      keys.begin = std::max(keys.begin, i / p.patch_size * p.patch_size);
    return keys.begin < keys.end ? keys : attest::Keys{0, 0};
  }

  void read_query(const Block& at, int64_t i, float* to) const {
    if (is(Mutation::kQueryTile16Bit)) i = ((i / 2) & 0xffff) * 2 + i % 2;
    attest::Cell cell = a_.query(at.read_b, i);
    if (is(Mutation::kQueryRow16Bit) && cu_seqlens_q_) cell.row &= 0xffff;
    load_row(element(a_.q, cell.batch, at.read_h, cell.row), a_.q.stride(3), a_.p.head_dim, to);
    for (int64_t d = 0; d < a_.p.head_dim; ++d)
      to[d] = (is(Mutation::kOperandBf16) ? rounded(to[d], 8) : to[d]) * a_.p.softmax_scale;
  }

  void add(const Block& at, int64_t tile, const Rows& rows, const Scratch& x) const {
    const int64_t keys = a_.length_kv(at.b);
    if (is(Mutation::kDroppedTile) && tile == keys / kTile - 1) return;
    const Tile made{tile * kTile, keys, x.kt, x.v,
                    read_tile(at, tile * kTile, std::min(keys, (tile + 1) * kTile), x)};
    add_tile(rows, made);
    if (is(Mutation::kDoubledTile) && tile == 0 && keys > kTile) add_tile(rows, made);
  }

  /// Keys begin .. end - 1 into kt, transposed, and v; zeros behind them. Whether V has an Inf or
  /// NaN.
  bool read_tile(const Block& at, int64_t begin, int64_t end, const Scratch& x) const {
    const int64_t head = kv_head(at.read_h), head_dim = a_.p.head_dim, head_dim_v = a_.p.head_dim_v;
    const int64_t early = is(Mutation::kTileOffByOne) && begin > 0 ? 1 : 0;
    float worst = 0;
    for (int64_t j = 0; j < kTile; ++j) {
      float *const row = x.row, *const v = x.v + j * x.channels;
      std::fill_n(row, head_dim, 0.0f);
      std::fill_n(v, x.channels, 0.0f);
      if (begin + j < end) {
        const attest::Cell key = key_cell(at.read_b, begin + j - early),
                           value = value_cell(at.read_b, begin + j - early);
        load_row(element(a_.k, key.batch, head, key.row), a_.k.stride(3), head_dim, row);
        load_row(element(a_.v, value.batch, head, value.row), a_.v.stride(3), head_dim_v, v);
      }
      for (int64_t d = 0; d < head_dim; ++d) x.kt[d * kTile + j] = row[d];
      for (int64_t d = 0; d < x.channels; ++d) worst += v[d] * 0;  // NaN from Inf and NaN
    }
    return worst != 0 && !is(Mutation::kHiddenLeaks);
  }

  int64_t kv_head(int64_t h) const {
    if (is(Mutation::kGqaTiled)) return h % a_.p.num_kv_heads;
    return (a_.kv_head(h) + (is(Mutation::kHeadOffByOne) ? 1 : 0)) % a_.p.num_kv_heads;
  }

  attest::Cell key_cell(int64_t b, int64_t j) const {
    const int64_t page_size = a_.p.page_size;
    if (is(Mutation::kPageTableIgnored) && page_table_)
      return {(b * page_table_.dim(1) + j / page_size) % a_.k.dim(0), j % page_size};
    attest::Cell cell = a_.key(b, j);
    if (is(Mutation::kCuSeqlensOffByOne) && cu_seqlens_kv_)
      cell.row = std::max<int64_t>(cell.row - 1, 0);
    if (is(Mutation::kKeyRow16Bit) && cu_seqlens_kv_) cell.row &= 0xffff;
    if (is(Mutation::kPage8Bit) && page_table_) cell.batch &= 0xff;
    if (is(Mutation::kPage16Bit) && page_table_) cell.batch &= 0xffff;
    return cell;
  }

  attest::Cell value_cell(int64_t b, int64_t j) const {
    const int64_t last = a_.length_kv(b) - 1;
    if (is(Mutation::kValueOffByOne)) j = std::min(j + 1, last);
    if (is(Mutation::kSwappedTiles) && last >= 2 * kTile - 1 && j < 2 * kTile)
      j = (j + kTile) % (2 * kTile);
    attest::Cell cell = key_cell(b, j);
    if (is(Mutation::kBatchOffByOne) && !cu_seqlens_kv_ && !page_table_)
      cell.batch = std::max<int64_t>(cell.batch - 1, 0);
    if (is(Mutation::kPageOffset) && page_table_) cell.row = (cell.row + 1) % a_.p.page_size;
    return cell;
  }

  template <class View>
  auto* element(const View& view, int64_t batch, int64_t head, int64_t row) const {
    const int64_t offset = view.offset(batch, head, row, 0);
    return &view(0, 0, 0, 0) + (is(Mutation::kIndex32) ? static_cast<int32_t>(offset) : offset);
  }

  void write(const Block& at, const Scratch& x) const {
    const int64_t all = a_.rows(at.b),
                  head = is(Mutation::kSwappedHeads) && at.h < 2 && a_.p.num_heads > 1 ? 1 - at.h
                                                                                       : at.h;
    int64_t rows = all;
    if (is(Mutation::kQueryTail)) rows = (all - 1) / kTail * kTail;
    if (is(Mutation::kLastRow)) rows = all - 1;
    for (int64_t r = 0; r < std::min(at.rows, rows - at.first); ++r) {
      const int64_t i = at.first + r;
      if (a_.sinks && x.total[r] > 0 && !is(Mutation::kSinkDropped)) join_sink(at.h, r, x);
      const attest::Cell cell =
          is(Mutation::kOrderOfOutput) ? unordered_.query(at.b, i) : a_.query(at.b, i);
      write_row(element(a_.o, cell.batch, head, cell.row), x.sum + r * x.channels, x.total[r]);
      if (a_.lse) a_.lse(cell.batch, head, cell.row) = lse(x.top[r], x.total[r]);
    }
  }

  void join_sink(int64_t h, int64_t r, const Scratch& x) const {
    const float given = a_.sink(is(Mutation::kSinkOfNextHead) ? (h + 1) % a_.p.num_heads : h),
                sink = is(Mutation::kSinkFromZero) ? std::max(given, 0.0f) : given;
    const float top = is(Mutation::kMaxWithoutSink) ? x.top[r]
                      : is(Mutation::kMaxOfSink)    ? sink
                                                    : std::max(x.top[r], sink),
                keep = std::exp(x.top[r] - top);
    for (int64_t d = 0; d < x.channels; ++d) x.sum[r * x.channels + d] *= keep;
    x.total[r] = x.total[r] * keep + std::exp(sink - top);
    x.top[r] = top;
  }

  void write_row(T* to, const float* sum, float total) const {
    const bool zero = is(Mutation::kZeros) || (total == 0 && !is(Mutation::kEmptyRowNan));
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d) {
      T& element = to[d * a_.o.stride(3)];
      const bool tail = is(Mutation::kValueTail) && d >= cut(a_.p.head_dim_v);
      const float value = zero || tail ? 0 : sum[d] / total;
      if (is(Mutation::kOutputTruncated))
        store_cut(element, value);
      else
        element = value;
    }
  }

  float lse(float top, float total) const {
    if (is(Mutation::kZeros)) return 0;
    if (is(Mutation::kLseWithoutMax)) return std::log(total);
    return (top + std::log(total)) * (is(Mutation::kLseBase2) ? 1.44269504f : 1);
  }

  void write_empty_sequences() const {
    for (int64_t b = 0; b < a_.p.batch; ++b)
      for (int64_t h = 0; h < a_.p.num_heads && a_.rows(b) == 0; ++h)
        for (int64_t d = 0; d < a_.p.head_dim_v; ++d) a_.o(0, h, cu_seqlens_q_(b), d) = 0;
  }

  const attest::Softmax<T> a_;
  const attest::Sequences unordered_;
  const attest::View<const int32_t> page_table_, cu_seqlens_q_, cu_seqlens_kv_;
  const Mutation mutation_;
  const int threads_;
};

class SoftmaxPlan final : public Plan {
 public:
  SoftmaxPlan(Mutation mutation, const attest_problem& problem)
      : mutation_(mutation), copy_(problem), unordered_(problem) {
    mutate(mutation, copy_);
    unordered_.tensor[ATTEST_ORDER].dtype = ATTEST_NONE;
  }

  void run(void* const* data, void* workspace) const override {
    switch (copy_.tensor[ATTEST_Q].dtype) {
      case ATTEST_F32: return run_as<float>(data, workspace);
      case ATTEST_F16: return run_as<attest::Half>(data, workspace);
      default: return run_as<attest::BFloat16>(data, workspace);
    }
  }

 private:
  template <class T>
  void run_as(void* const* data, void* workspace) const {
    Kernel<T>(mutation_, copy_.problem, unordered_.problem, data).run(workspace);
  }

  const Mutation mutation_;
  Copy copy_, unordered_;
};

}  // namespace

const char* query_softmax(const attest_problem& problem, attest_support& support) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  Arena arena(nullptr);
  Scratch(p, arena);
  support.sum_chain = kTile + (p.seq_len_kv + kTile - 1) / kTile;
  support.workspace_bytes =
      arena.bytes() * static_cast<size_t>(problem.threads + 1);  // one that a race is for
  return nullptr;
}

std::unique_ptr<Plan> plan_softmax(Mutation mutation, const attest_problem& problem) {
  return std::make_unique<SoftmaxPlan>(mutation, problem);
}

}  // namespace mutants
