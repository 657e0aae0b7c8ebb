// Softmax attention, tiled and with an online softmax: what is read for each tile, which rows skip
// it, what is written. The arithmetic between is steps_tile.cpp.
#include "mutants/steps/steps_softmax.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mutants/operations/load.hpp"
#include "mutants/operations/plan.hpp"
#include "mutants/steps/steps_tile.hpp"

namespace steps {
namespace {

using mutants::Arena, mutants::load_row, mutants::round_up;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kHidden = -kInfinity;
constexpr int64_t kBlock = 1024;  // rows that a thread attends to at once

/// What one thread works on.
struct Scratch {
  int64_t rows, channels;
  float *q, *kt, *v, *line, *sum;
  Row* row;
  uint8_t* skips;

  Scratch(const attest_softmax_params& p, int64_t tile, Arena& arena)
      : rows(std::min(kBlock, round_up(p.seq_len_q, kRowsAtOnce))),
        channels(round_up(p.head_dim_v, kColumns)),
        q(arena.take<float>(rows * p.head_dim)),
        kt(arena.take<float>(tile * p.head_dim)),
        v(arena.take<float>(tile * channels)),
        line(arena.take<float>(p.head_dim)),
        sum(arena.take<float>(rows * channels)),
        row(arena.take<Row>(rows)),
        skips(arena.take<uint8_t>(rows)) {}

  static Scratch of_thread(const attest_softmax_params& p, int64_t tile, void* workspace,
                           int thread) {
    Arena count(nullptr);
    Scratch(p, tile, count);
    Arena arena(static_cast<char*>(workspace) + static_cast<size_t>(thread) * count.bytes());
    return {p, tile, arena};
  }
};

/// Everything that turns a score into a logit but the band.
template <class T>
class PairTerms final : public Terms {
 public:
  PairTerms(const attest::Softmax<T>& a, const Step& step, int64_t b, int64_t h, int64_t first)
      : a_(a), step_(step), b_(b), h_(h), first_(first) {}

  static bool needed(const attest::Softmax<T>& a) { return a.p.softcap > 0 || a.has_pair_terms(); }

  void apply(int64_t row, int64_t first_key, int64_t keys, float* scores) const override {
    for (int64_t j = 0; j < keys; ++j) {
      if (scores[j] == kHidden) continue;
      const float term = of_pair(first_ + row, first_key + j), cap = a_.p.softcap;
      const float score = cap > 0 ? cap * tanh(scores[j] / cap) : scores[j];
      scores[j] = term == kHidden ? kHidden : score + term;
    }
  }
  float of_pair(int64_t i, int64_t j) const {
    const Bug bug = step_.planted->bug;
    if (bug == Bug::kTermsOfFirstRow) i = i / step_.variant.lanes * step_.variant.lanes;
    const float term = a_.pair_term(b_, h_, i, j);
    if (bug == Bug::kBiasHides && term < step_.planted->limit) return kHidden;
    if (bug == Bug::kBiasTo && term != kHidden) return std::max(term, step_.planted->limit);
    if (bug == Bug::kBiasInF16) return attest::float_from_half(attest::half_from_float(term));
    return bug == Bug::kNanBiasZero && std::isnan(term) ? 0 : term;
  }

 private:
  float tanh(float x) const {
    const Planted& planted = *step_.planted;
    if (planted.bug == Bug::kTanhFlat && std::fabs(x) > planted.limit)
      return std::copysign(1.0f, x);
    if (planted.bug != Bug::kSoftcapOverflows) return std::tanh(x);
    const float e = std::exp(2 * x);
    return (e - 1) / (e + 1);
  }

  const attest::Softmax<T>& a_;
  const Step& step_;
  const int64_t b_, h_, first_;
};

template <class T>
class Kernel {
 public:
  Kernel(const Step& step, const attest_problem& problem, void* const* data)
      : a_(problem, data), step_(step), tile_(step.variant.tile), threads_(problem.threads) {}

  void run(void* workspace) const {
    const int64_t blocks = (a_.p.seq_len_q + kBlock - 1) / kBlock;
#pragma omp parallel num_threads(threads_)
    {
      const Scratch x = Scratch::of_thread(a_.p, tile_, workspace, omp_get_thread_num());
#pragma omp for schedule(dynamic, 1)
      for (int64_t task = 0; task < a_.p.batch * a_.p.num_heads * blocks; ++task)
        attend(task / blocks, task % blocks * kBlock, x);
    }
  }

 private:
  bool is(Bug bug) const { return step_.planted->bug == bug; }

  /// Rows `first` and on of one (sequence, head), and the keys that any of them sees.
  struct Block {
    int64_t b, h, first, rows, lowest_key, past_key;
  };

  void attend(int64_t pair, int64_t first, const Scratch& x) const {
    const int64_t b = pair / a_.p.num_heads;
    Block at{b, pair % a_.p.num_heads, first, std::min(kBlock, a_.rows(b) - first), 0, 0};
    if (at.rows <= 0) return;
    start_rows(at, x);
    const PairTerms<T> terms(a_, step_, b, at.h, first);
    for (int64_t n = at.lowest_key / tile_; n * tile_ < at.past_key; ++n) {
      const Tile tile = read_tile(at, n, x);
      const bool skips = note_skips(at, tile, terms, x);
      add_tile(rows_of(at, terms, skips, x), tile);
    }
    for (int64_t r = 0; r < at.rows; ++r) write(at, r, x);
  }

  Rows rows_of(const Block& at, const PairTerms<T>& terms, bool skips, const Scratch& x) const {
    float largest_score = kInfinity;
    if (is(Bug::kScoresTo)) largest_score = step_.planted->limit;
    if (is(Bug::kDotsTo)) largest_score = step_.planted->limit * std::fabs(a_.p.softmax_scale);
    const float least_score = is(Bug::kScoresRaised) ? step_.planted->limit : -largest_score;
    return {&step_,
            round_up(at.rows, kRowsAtOnce),
            a_.p.head_dim,
            x.channels,
            largest_score,
            least_score,
            PairTerms<T>::needed(a_) ? &terms : nullptr,
            skips ? x.skips : nullptr,
            x.q,
            x.row,
            x.sum};
  }

  void start_rows(Block& at, const Scratch& x) const {
    at.lowest_key = a_.length_kv(at.b);
    at.past_key = 0;
    for (int64_t r = 0; r < round_up(at.rows, kRowsAtOnce); ++r) {
      const int64_t i = at.first + std::min(r, at.rows - 1), stride = a_.q.stride(3);
      const attest::Cell cell = a_.query(at.b, i);
      float* q = x.q + r * a_.p.head_dim;
      load_row(&a_.q(cell.batch, at.h, cell.row, 0), stride, a_.p.head_dim, q);
      if (is(Bug::kQueriesFlushed)) flush(q, a_.p.head_dim);
      for (int64_t d = 0; d < a_.p.head_dim; ++d) q[d] *= a_.p.softmax_scale;
      const attest::Keys keys = r < at.rows ? a_.keys(at.b, i) : attest::Keys{0, 0};
      const float top = is(Bug::kMaxFrom) ? step_.planted->limit : kHidden;
      x.row[r] = {keys.begin, keys.end, top, 0, 0, 0, false, false};
      if (keys.begin == keys.end) continue;
      at.lowest_key = std::min(at.lowest_key, keys.begin);
      at.past_key = std::max(at.past_key, keys.end);
    }
    std::fill_n(x.sum, round_up(at.rows, kRowsAtOnce) * x.channels, 0.0f);
  }

  /// Tile `n` of the keys: K transposed, zeros behind the last key.
  Tile read_tile(const Block& at, int64_t n, const Scratch& x) const {
    const int64_t all = a_.length_kv(at.b), begin = n * tile_, keys = std::min(tile_, all - begin);
    const int64_t head = a_.kv_head(at.h), head_dim = a_.p.head_dim;
    float worst = 0;
    for (int64_t j = 0; j < tile_; ++j) {
      float* v = x.v + j * x.channels;
      std::fill_n(x.line, head_dim, 0.0f);
      std::fill_n(v, x.channels, 0.0f);
      if (j < keys) {
        const attest::Cell key = a_.key(at.b, begin + j);
        load_row(&a_.k(key.batch, head, key.row, 0), a_.k.stride(3), head_dim, x.line);
        if (is(Bug::kKeysFlushed)) flush(x.line, head_dim);
        load_row(&a_.v(key.batch, head, key.row, 0), a_.v.stride(3), a_.p.head_dim_v, v);
        plant_in_values(v, x.channels, begin == 0, begin + tile_ >= all);
      }
      for (int64_t d = 0; d < head_dim; ++d) x.kt[d * tile_ + j] = x.line[d];
      for (int64_t d = 0; d < x.channels; ++d) worst += v[d] * 0;  // NaN from Inf and NaN
    }
    return {n, begin, tile_, keys, all / tile_, x.kt, x.v, worst != 0};
  }

  static void flush(float* row, int64_t channels) {
    constexpr float kSmallestNormal = 0x1p-14f;  // of f16
    for (int64_t d = 0; d < channels; ++d)
      if (std::fabs(row[d]) < kSmallestNormal) row[d] = 0;
  }

  void plant_in_values(float* v, int64_t channels, bool in_first, bool in_last) const {
    if (is(Bug::kValuesFlushed)) flush(v, channels);
    const float most = step_.planted->limit;
    if (is(Bug::kValuesTo))
      for (int64_t d = 0; d < channels; ++d) v[d] = std::min(std::max(v[d], -most), most);
    const bool at_end = is_at(step_.planted->end, in_first, in_last);
    if (is(Bug::kInfValueCutAtEnd) && at_end)
      for (int64_t d = 0; d < channels; ++d)
        v[d] = std::isinf(v[d]) ? std::copysign(most, v[d]) : v[d];
    if (is(Bug::kNanValueZero) || (is(Bug::kNanValueZeroAtEnd) && at_end))
      for (int64_t d = 0; d < channels; ++d) v[d] = std::isnan(v[d]) ? 0 : v[d];
  }

  /// Marks the rows that skip a tile since another row of their block does not see it. False: none.
  bool note_skips(const Block& at, const Tile& tile, const PairTerms<T>& terms,
                  const Scratch& x) const {
    if (!is(Bug::kSkipByFirstRow) && !is(Bug::kSkipByLastRow)) return false;
    const int64_t together = step_.variant.lanes;
    std::fill_n(x.skips, x.rows, uint8_t{0});
    for (int64_t r = 0; r < at.rows; r += together) {
      const int64_t past = std::min(r + together, at.rows);
      const int64_t asked = is(Bug::kSkipByFirstRow) ? r : past - 1;
      const uint8_t skip = sees(at, asked, tile, terms, x) ? 0 : 1;
      std::fill(x.skips + r, x.skips + past, skip);
    }
    return true;
  }
  bool sees(const Block& at, int64_t r, const Tile& tile, const PairTerms<T>& terms,
            const Scratch& x) const {
    int64_t j = std::max(tile.begin, x.row[r].begin);
    const int64_t past = std::min(tile.begin + tile.keys, x.row[r].end);
    while (j < past && terms.of_pair(at.first + r, j) == kHidden) ++j;
    return j < past;
  }

  /// The sink joins when all tiles have been added: no step of a tile knows of it.
  void add_sink(const Block& at, int64_t r, const Scratch& x) const {
    const float sink = a_.sink(at.h), top = x.row[r].top;
    if (sink == kHidden || top == kHidden) return;
    const float with_sink = std::max(top, sink), rescale = std::exp(top - with_sink);
    x.row[r].top = with_sink;
    x.row[r].total = x.row[r].total * rescale + std::exp(sink - with_sink);
    for (int64_t d = 0; d < x.channels; ++d) x.sum[r * x.channels + d] *= rescale;
  }

  void write(const Block& at, int64_t r, const Scratch& x) const {
    add_sink(at, r, x);
    const attest::Cell cell = a_.query(at.b, at.first + r);
    const float total = normaliser(x.row[r].total);
    const bool empty = is(Bug::kNanRowZero) ? !(total > 0) : total == 0;
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d)
      a_.o(cell.batch, at.h, cell.row, d) = empty ? 0 : x.sum[r * x.channels + d] / total;
    if (a_.lse) a_.lse(cell.batch, at.h, cell.row) = x.row[r].top + std::log(total);
  }
  float normaliser(float total) const {
    const float in_half = attest::float_from_half(attest::half_from_float(total));
    switch (step_.planted->bug) {
      case Bug::kNormaliserStops: return std::min(total, step_.planted->limit);
      case Bug::kNormaliserF16: return in_half;
      case Bug::kNormaliserF16Saturated: return std::min(in_half, kLargestHalf);
      default: return total;
    }
  }

  const attest::Softmax<T> a_;
  const Step& step_;
  const int64_t tile_;
  const int threads_;
};

class SoftmaxPlan final : public Plan {
 public:
  SoftmaxPlan(const Step& step, const attest_problem& problem) : step_(step), problem_(problem) {}

  void run(void* const* data, void* workspace) const override {
    switch (problem_.tensor[ATTEST_Q].dtype) {
      case ATTEST_F32: return Kernel<float>(step_, problem_, data).run(workspace);
      case ATTEST_F16: return Kernel<attest::Half>(step_, problem_, data).run(workspace);
      default: return Kernel<attest::BFloat16>(step_, problem_, data).run(workspace);
    }
  }

 private:
  const Step& step_;
  const attest_problem& problem_;
};

}  // namespace

void declare(const Step& step, const attest_problem& problem, attest_support& support) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const int64_t tile = step.variant.tile;
  Arena arena(nullptr);
  Scratch(p, tile, arena);
  support.sum_chain = tile + (p.seq_len_kv + tile - 1) / tile;
  support.workspace_bytes = arena.bytes() * static_cast<size_t>(problem.threads);
}

std::unique_ptr<Plan> make_plan(const Step& step, const attest_problem& problem) {
  return std::make_unique<SoftmaxPlan>(step, problem);
}

}  // namespace steps
