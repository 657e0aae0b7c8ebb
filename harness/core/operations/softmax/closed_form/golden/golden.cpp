// The golden of the codebook fill: every row, from the sums of the keys of each code.
//
// A sweep of places keeps the sums of the keys that the place sees, adding what enters its interval
// and taking away what leaves; for each pattern of MASK and BIAS it has sums of their own, which
// move when a place of the pattern comes. The values are such that these sums are exact
// (random_value in codebook.cpp), so rows may be swept in any segments.
#include <omp.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "core/operations/softmax/closed_form/golden/alibi.hpp"
#include "core/operations/softmax/closed_form/golden/rows.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

using codebook::AlibiRows;
using codebook::GroupSums;
using codebook::HeadScores;
using codebook::RowExpectation;

constexpr size_t kChunkRows = 64;

// Expectations on their way to the sink.
struct Batch {
  std::vector<int64_t> rows;
  std::vector<double> o, o_sigma, lse, lse_sigma;

  void resize(size_t count, int64_t width) {
    rows.resize(count);
    lse.resize(count);
    lse_sigma.resize(count);
    o.resize(count * size_t(width));
    o_sigma.resize(o.size());
  }
};

// Places [begin, end) of one sequence and query head.
struct Segment {
  int64_t b, head, begin, end;
};

// The sums of one segment: of each pattern, once a place of it comes.
class PatternSums {
 public:
  PatternSums(const Codebook& book, const Tensor& v, const Segment& segment, int64_t kv_head)
      : book_(book),
        v_(v),
        segment_(segment),
        kv_head_(kv_head),
        sums_(size_t(book.levels().patterns(segment.b, segment.head))) {}

  GroupSums& of_pattern(int64_t pattern) {
    std::unique_ptr<GroupSums>& sums = sums_[size_t(pattern)];
    const int64_t place = book_.levels().place_of(segment_.b, segment_.head, pattern);
    if (!sums)
      sums = std::make_unique<GroupSums>(book_, v_, segment_.b, segment_.head, kv_head_, place);
    return *sums;
  }
  int64_t pattern(int64_t place) const {
    return book_.levels().pattern(segment_.b, segment_.head, place);
  }
  const GroupSums& move_to(int64_t place, Interval keys) {
    GroupSums& sums = of_pattern(pattern(place));
    sums.move_to(keys);
    return sums;
  }
  size_t patterns() const { return sums_.size(); }

 private:
  const Codebook& book_;
  const Tensor& v_;
  const Segment& segment_;
  int64_t kv_head_;
  std::vector<std::unique_ptr<GroupSums>> sums_;
};

class CodebookGolden final : public Golden {
 public:
  CodebookGolden(const Problem& problem, const Fill& fill, const Tensors& tensors)
      : problem_(problem),
        p_(problem_.as<attest_softmax_params>()),
        book_(problem, fill, tensors),
        v_(tensors[ATTEST_V]),
        slopes_(tensors[ATTEST_ALIBI_SLOPES]),
        q_dtype_(tensors[ATTEST_Q].spec.dtype),
        k_dtype_(tensors[ATTEST_K].spec.dtype),
        // `tensors` has the inputs only.
        with_lse_(present(problem.tensor[ATTEST_LSE])) {}

  std::string method() const override { return "closed form, all rows"; }
  std::vector<int64_t> exact_rows(const Arithmetic&, int32_t role) const override {
    if (role != ATTEST_O && (role != ATTEST_LSE || !with_lse_)) return {};
    std::vector<int64_t> all(size_t(row_count(problem_.tensor[ATTEST_O], 3)));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  int64_t distinct_rows() const override {
    int64_t queries = 0;
    for (int64_t head = 0; head < p_.num_heads; head += p_.num_heads / p_.num_kv_heads)
      queries += scores()[size_t(head)].distinct_queries();
    return std::min(book_.distinct_rows(), queries);
  }
  int64_t independent_rows(const Arithmetic& arithmetic, int32_t role) const override {
    // The vectors of a key head are the same in all sequences, and so are their roundings.
    return std::min(distinct_rows(), most_independent(arithmetic, problem_, role, 1));
  }

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    const SigmaModel model = SigmaModel::of(SoftmaxArithmetic::of(arithmetic), problem_);
    std::vector<HeadScores> declared = scores();
    for (HeadScores& head : declared) head.declare(model);
    const std::vector<Segment> work = segments();
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < work.size(); ++i)
      sweep(work[i], model, declared[size_t(work[i].head)], sink);
    expect_idle(model, sink);
  }

 private:
  // Computes the scores of all heads at the first call. A survey of events asks only which rows are
  // exact, which needs no scores.
  const std::vector<HeadScores>& scores() const {
    std::call_once(scored_, [this] {
      scores_.resize(size_t(p_.num_heads));
#pragma omp parallel for schedule(static)
      for (int64_t head = 0; head < p_.num_heads; ++head)
        scores_[size_t(head)] = HeadScores(book_, p_, head, q_dtype_, k_dtype_);
    });
    return scores_;
  }

  // Enough segments for all threads, but none so short that gathering its first sums would outweigh
  // its rows.
  std::vector<Segment> segments() const {
    const Geometry& geometry = book_.geometry();
    const int64_t wanted =
        std::max<int64_t>(1, 4 * omp_get_max_threads() / (p_.batch * p_.num_heads));
    std::vector<Segment> work;
    for (int64_t b = 0; b < p_.batch; ++b) {
      const int64_t rows = geometry.length_q(b),
                    parts = slopes_ ? 1 : std::clamp<int64_t>(rows / 1024, 1, wanted);
      for (int64_t head = 0; head < p_.num_heads; ++head)
        for (int64_t part = 0; part < parts; ++part)
          work.push_back({b, head, rows * part / parts, rows * (part + 1) / parts});
    }
    return work;
  }

  // All rows of a sequence and head, with ALiBi.
  void fade(const Segment& segment, const SigmaModel& model, const HeadScores& scores,
            const Sink& sink) const {
    Batch batch;
    AlibiRows rows(book_, p_, v_, scores, model, slopes_.at({segment.b, segment.head}), segment.b,
                   segment.head);
    rows.run(
        [&](int64_t place, const double* o, const double* o_sigma, double lse, double lse_sigma) {
          const size_t at = batch.rows.size(), width = size_t(p_.head_dim_v);
          batch.resize(at + 1, p_.head_dim_v);
          batch.rows[at] = book_.geometry().output_row(segment.b, segment.head, place);
          std::copy_n(o, width, &batch.o[at * width]);
          std::copy_n(o_sigma, width, &batch.o_sigma[at * width]);
          batch.lse[at] = lse;
          batch.lse_sigma[at] = lse_sigma;
          if (batch.rows.size() == kChunkRows) flush(batch, sink);
        });
    flush(batch, sink);
  }

  void sweep(const Segment& segment, const SigmaModel& model, const HeadScores& scores,
             const Sink& sink) const {
    if (slopes_) return fade(segment, model, scores, sink);
    const Geometry& geometry = book_.geometry();
    PatternSums sums(book_, v_, segment, segment.head / (p_.num_heads / p_.num_kv_heads));
    RowExpectation expectation(model, scores, book_.key_groups(), book_.levels().key_levels(),
                               p_.head_dim_v, GroupSums::width_of(p_.head_dim_v),
                               geometry.sink(segment.head));
    Batch batch;
    for (int64_t i = segment.begin; i < segment.end;) {
      const Interval keys = geometry.keys(segment.b, i);
      if (book_.levels().by_pair()) {
        GroupSums& of_place = sums.of_pattern(sums.pattern(i));
        of_place.gather(i, keys);
        append(batch, segment, i++, of_place, expectation);
        if (batch.rows.size() == kChunkRows) flush(batch, sink);
        continue;
      }
      int64_t run = i + 1;  // places that see the same keys
      for (; run < segment.end; ++run)
        if (const Interval next = geometry.keys(segment.b, run);
            next.begin != keys.begin || next.end != keys.end)
          break;
      if (run - i >= 2 * book_.query_groups()) {
        flush(batch, sink);
        expect_run(segment, i, run, keys, sums, expectation, sink);
      } else {
        for (int64_t place = i; place < run; ++place) {
          append(batch, segment, place, sums.move_to(place, keys), expectation);
          if (batch.rows.size() == kChunkRows) flush(batch, sink);
        }
      }
      i = run;
    }
    flush(batch, sink);
  }

  // Many places with the same keys: one expectation for each pattern and query code among them.
  void expect_run(const Segment& segment, int64_t begin, int64_t end, Interval keys,
                  PatternSums& sums, RowExpectation& expectation, const Sink& sink) const {
    const auto groups = size_t(book_.query_groups());
    std::vector<std::vector<int64_t>> rows(sums.patterns() * groups);
    for (int64_t i = begin; i < end; ++i)
      rows[size_t(sums.pattern(i)) * groups + size_t(book_.query_group(segment.head, segment.b, i))]
          .push_back(book_.geometry().output_row(segment.b, segment.head, i));
    Batch batch;
    batch.resize(1, p_.head_dim_v);
    for (size_t n = 0; n < rows.size(); ++n) {
      if (rows[n].empty()) continue;
      GroupSums& of_pattern = sums.of_pattern(int64_t(n / groups));
      of_pattern.move_to(keys);
      expectation.compute(of_pattern, n % groups, batch.o.data(), batch.o_sigma.data(),
                          batch.lse.data(), batch.lse_sigma.data());
      emit(rows[n], true, batch, sink);
    }
  }

  void append(Batch& batch, const Segment& segment, int64_t place, const GroupSums& sums,
              RowExpectation& expectation) const {
    const size_t at = batch.rows.size(), offset = at * size_t(p_.head_dim_v);
    batch.resize(at + 1, p_.head_dim_v);
    batch.rows[at] = book_.geometry().output_row(segment.b, segment.head, place);
    const auto group = size_t(book_.query_group(segment.head, segment.b, place));
    expectation.compute(sums, group, &batch.o[offset], &batch.o_sigma[offset], &batch.lse[at],
                        &batch.lse_sigma[at]);
  }

  void flush(Batch& batch, const Sink& sink) const {
    if (!batch.rows.empty()) emit(batch.rows, false, batch, sink);
    batch.resize(0, 0);
  }

  // Rows that no place stands on, and rows that see nothing: o = 0, lse = -inf.
  void expect_idle(const SigmaModel& model, const Sink& sink) const {
    const std::vector<int64_t> rows = book_.geometry().idle_rows();
    if (rows.empty()) return;
    Batch batch;
    batch.resize(1, p_.head_dim_v);
    std::fill(batch.o_sigma.begin(), batch.o_sigma.end(), model.element_sigma({}, 0));
    batch.lse[0] = -kInfinity;
    emit(rows, true, batch, sink);
  }

  void emit(const std::vector<int64_t>& rows, bool shared, const Batch& batch,
            const Sink& sink) const {
    sink({.role = ATTEST_O,
          .leading = 3,
          .width = p_.head_dim_v,
          .rows = rows,
          .shared = shared,
          .value = batch.o.data(),
          .sigma = batch.o_sigma.data()});
    if (with_lse_)
      sink({.role = ATTEST_LSE,
            .leading = 3,
            .width = 1,
            .rows = rows,
            .shared = shared,
            .value = batch.lse.data(),
            .sigma = batch.lse_sigma.data()});
  }

  const Problem problem_;
  const attest_softmax_params& p_;
  Codebook book_;
  Tensor v_, slopes_;
  DType q_dtype_, k_dtype_;
  bool with_lse_;
  mutable std::once_flag scored_;
  mutable std::vector<HeadScores> scores_;
};

}  // namespace

std::unique_ptr<Golden> codebook_golden(const Problem& problem, const Fill& fill,
                                        const Tensors& tensors) {
  return std::make_unique<CodebookGolden>(problem, fill, tensors);
}

}  // namespace attest::core
