// relations: attention in float32, one query at a time, with bugs that no single run on ordinary
// inputs shows: right against a golden, until another run on changed inputs stands beside it.
#include <algorithm>
#include <cmath>
#include <vector>

#include "attest.hpp"

namespace {

enum class Bug {
  kNone,
  kDrift,
  kLeftover,
  kManyRises,
  kFarRises,
  kSharedMaximum,
  kThirdSequence,
  kFourthHead,
  kClampedValues,
  kNormaliser,
  kMaximumOfAll,
  kTimesZero,
  kLseInBits
};

constexpr int kRises = 24;  // of a row's maximum that kManyRises can rescale for
// Of a row whose scores are beyond kFar that kFarRises can rescale for
constexpr int kFarRises = 6;
constexpr float kFar = 1000;
constexpr float kMostValue = 40;             // of kClampedValues
constexpr float kNormaliserOff = 1.000001f;  // of kNormaliser
constexpr float kMostHidden = 20;            // scores that kMaximumOfAll takes in

struct Description {
  const char *name, *summary;
};
constexpr Description describe(Bug bug) {
  switch (bug) {
    case Bug::kNone: return {"relation_none", "one query at a time, healthy"};
    case Bug::kDrift:
      return {"relation_drift", "one element is a last bit off, another one in each run"};
    case Bug::kLeftover:
      return {"relation_leftover",
              "the maximum starts at what the workspace holds, if that is a number"};
    case Bug::kManyRises:
      return {"relation_many_rises",
              "forgets to rescale where a row's maximum rises for the 25th time"};
    case Bug::kFarRises:
      return {"relation_far_rises", "the same at the 7th time, where scores are beyond 1,000"};
    case Bug::kSharedMaximum:
      return {"relation_shared_maximum", "two rows share the larger of their maxima"};
    case Bug::kThirdSequence:
      return {"relation_third_sequence",
              "the last key is lost from the third sequence of a batch on"};
    case Bug::kFourthHead:
      return {"relation_fourth_head", "the last key is lost from the fourth head on"};
    case Bug::kClampedValues: return {"relation_clamped_values", "values beyond 40 are cut to it"};
    case Bug::kNormaliser:
      return {"relation_normaliser", "the normaliser is a millionth too large"};
    case Bug::kMaximumOfAll:
      return {"relation_maximum_of_all", "the maximum takes in scores that the row does not see"};
    case Bug::kTimesZero:
      return {"relation_times_zero", "values that a row does not see are added times 0"};
    case Bug::kLseInBits: return {"relation_lse_in_bits", "log-sum-exp to the base of 2"};
  }
  return {"", ""};
}

template <Bug kBug>
struct Related {
  static constexpr attest::Info kInfo{.name = describe(kBug).name,
                                      .version = "1",
                                      .summary = describe(kBug).summary,
                                      .dtypes = ATTEST_BIT(ATTEST_F32),
                                      .features = ATTEST_WITH_CAUSAL | ATTEST_WITH_LSE |
                                                  ATTEST_WITH_DIAGONAL | ATTEST_WITH_BLOCK_MASK};
  const attest_problem& problem;

  static const char* query(const attest_problem&, attest_support& support) {
    if (kBug == Bug::kLeftover) support.workspace_bytes = 64;
    return nullptr;
  }

  /// One row: its scores, -inf where hidden, and what became of them.
  struct Row {
    std::vector<float> score, hidden, sum;  // hidden: scores of keys that the row does not see
    float top = -INFINITY, total = 0;
  };

  template <class T>
  static void score(const attest::Softmax<T>& a, int64_t b, int64_t h, int64_t i, Row& row) {
    const attest::Keys keys = a.keys(b, i);
    row.score.assign(size_t(a.p.seq_len_kv), -INFINITY);
    row.hidden.clear();
    for (int64_t j = 0; j < a.p.seq_len_kv; ++j) {
      const bool seen = j >= keys.begin && j < keys.end && a.pair_term(b, h, i, j) != -INFINITY;
      if (!seen && kBug != Bug::kMaximumOfAll) continue;
      float dot = 0;
      for (int64_t d = 0; d < a.p.head_dim; ++d)
        dot += a.q(b, h, i, d) * a.k(b, a.kv_head(h), j, d);
      if (seen)
        row.score[size_t(j)] = a.p.softmax_scale * dot;
      else
        row.hidden.push_back(a.p.softmax_scale * dot);
    }
    if ((kBug == Bug::kThirdSequence && b >= 2) || (kBug == Bug::kFourthHead && h >= 3))
      if (keys.end - keys.begin > 1) row.score[size_t(keys.end - 1)] = -INFINITY;
  }

  /// What the maximum starts at.
  static float start(const Row& row, float leftover, float of_neighbour) {
    if (kBug == Bug::kLeftover) return std::fmax(leftover, -INFINITY);
    if (kBug == Bug::kSharedMaximum) return of_neighbour;
    float top = -INFINITY;
    if (kBug == Bug::kMaximumOfAll)
      for (const float s : row.hidden)
        if (s < kMostHidden) top = std::max(top, s);
    return top;
  }

  template <class T>
  static void attend(const attest::Softmax<T>& a, int64_t b, int64_t h, float top, Row& row) {
    row.sum.assign(size_t(a.p.head_dim_v), 0.0f);
    row.total = 0;
    int rises = 0;
    for (int64_t j = 0; j < a.p.seq_len_kv; ++j) {
      const float s = row.score[size_t(j)];
      const bool seen = s != -INFINITY;
      if (!seen && kBug != Bug::kTimesZero) continue;
      const float peak = std::max(top, s), weight = seen ? std::exp(s - peak) : 0;
      float keep = peak > top ? std::exp(top - peak) : 1;
      if (peak > top && ++rises > kRises && kBug == Bug::kManyRises) keep = 1;
      if (peak > top && rises > kFarRises && std::fabs(peak) > kFar && kBug == Bug::kFarRises)
        keep = 1;
      for (int64_t d = 0; d < a.p.head_dim_v; ++d) {
        float v = a.v(b, a.kv_head(h), j, d);
        if (kBug == Bug::kClampedValues) v = std::clamp(v, -kMostValue, kMostValue);
        row.sum[size_t(d)] = keep * row.sum[size_t(d)] + weight * v;
      }
      row.total = keep * row.total + weight;
      top = peak;
    }
    row.top = top;
  }

  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) const {
    const attest::Softmax<T> a(problem, data);
    const float leftover = workspace ? *static_cast<const float*>(workspace) : 0;
    Row row;
    for (int64_t b = 0; b < a.p.batch; ++b)
      for (int64_t h = 0; h < a.p.num_heads; ++h)
        for (int64_t i = 0; i < a.p.seq_len_q; ++i) {
          float of_neighbour = -INFINITY;
          if (kBug == Bug::kSharedMaximum && (i ^ 1) < a.p.seq_len_q) {
            score(a, b, h, i ^ 1, row);
            of_neighbour = *std::max_element(row.score.begin(), row.score.end());
          }
          score(a, b, h, i, row);
          attend(a, b, h, start(row, leftover, of_neighbour), row);
          const float total = row.total * (kBug == Bug::kNormaliser ? kNormaliserOff : 1);
          for (int64_t d = 0; d < a.p.head_dim_v; ++d)
            a.o(b, h, i, d) = total == 0 ? 0 : row.sum[size_t(d)] / total;
          const float lse = row.top + std::log(row.total);
          if (a.lse) a.lse(b, h, i) = kBug == Bug::kLseInBits ? lse * 1.44269504f : lse;
        }
    if (kBug == Bug::kDrift) drift(a);
  }

  /// Nudges another element in each run.
  template <class T>
  static void drift(const attest::Softmax<T>& a) {
    static int64_t runs = 0;
    T& element = a.o(0, 0, ++runs % a.p.seq_len_q, 0);
    element = std::nextafter(element, INFINITY);
  }
};

}  // namespace

ATTEST_PLUGIN(attest::table<Related<Bug::kNone>>(), attest::table<Related<Bug::kDrift>>(),
              attest::table<Related<Bug::kLeftover>>(), attest::table<Related<Bug::kManyRises>>(),
              attest::table<Related<Bug::kFarRises>>(),
              attest::table<Related<Bug::kSharedMaximum>>(),
              attest::table<Related<Bug::kThirdSequence>>(),
              attest::table<Related<Bug::kFourthHead>>(),
              attest::table<Related<Bug::kClampedValues>>(),
              attest::table<Related<Bug::kNormaliser>>(),
              attest::table<Related<Bug::kMaximumOfAll>>(),
              attest::table<Related<Bug::kTimesZero>>(), attest::table<Related<Bug::kLseInBits>>())
