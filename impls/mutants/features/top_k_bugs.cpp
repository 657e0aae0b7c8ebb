// Softmax over the top_k keys of a row that is wrong: one bug for each table. A bug says which keys
// count; the attention around it is plain. An implementation refuses problems where its bug does
// nothing.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "mutants/features/planted.hpp"
#include "mutants/plain_attention.hpp"

namespace {

enum class Bug {
  kNone,
  kOneMore,
  kOneLess,
  kLastTies,
  kAllTies,
  kFirstTies,
  kBeforeTerms,
  kBeforeSoftcap,
  kBeforeScale,
  kMaskedCount,
  kOthersCount,
  kOverHeads,
  kFirstHeadOfGroup,
  kFirstQueryOfTile,
  kOfEveryTile,
  kShareOfTile,
  kByMagnitude,
  kSmallest,
  kHalfScores,
  kFewSeeNone,
  kOthersAreZero,
  kNormaliserOfAll,
  kLseOfAll,
  kTimesZero,
  kNegativeReversed,
  kNegativeAlike,
  kCutAt32,
  kWraps,
  kHalfOfTies,
  kJustEnough,
  kNanDropped,
};

constexpr mutants::PlantedBug kBugs[] = {
    {"top_k_none", "plain attention, healthy"},
    {"top_k_one_more", "top_k + 1 keys count"},
    {"top_k_one_less", "top_k - 1 keys count"},
    {"top_k_last_ties", "of equal keys at the edge the last ones count"},
    {"top_k_all_ties", "all equal keys at the edge count where only the first ones should"},
    {"top_k_first_ties", "only the first of equal keys at the edge count"},
    {"top_k_before_terms", "keys are chosen before bias and ALiBi are added"},
    {"top_k_before_softcap", "keys are chosen before the softcap"},
    {"top_k_before_scale", "keys are chosen before the product is scaled"},
    {"top_k_masked_count", "keys that the mask hides are among the top_k"},
    {"top_k_others_count", "keys outside of the band are among the top_k"},
    {"top_k_over_heads", "top_k times num_heads keys are chosen of all heads together"},
    {"top_k_first_head", "all heads of a group take the keys of the first"},
    {"top_k_first_query", "16 queries take the keys of the first"},
    {"top_k_of_every_tile", "top_k keys of every tile of 16 count"},
    {"top_k_share_of_tile", "every tile of 16 keys has its share of top_k"},
    {"top_k_by_magnitude", "the largest magnitudes count"},
    {"top_k_smallest", "the smallest logits count"},
    {"top_k_half_scores", "keys are chosen by logits in bf16, undeclared"},
    {"top_k_few_see_nothing", "a row that sees fewer than top_k keys sees no key"},
    {"top_k_others_are_zero", "the logits of other keys are 0, not -inf"},
    {"top_k_normaliser_of_all", "the normaliser sums all keys"},
    {"top_k_lse_of_all", "the lse is that of all keys"},
    {"top_k_times_zero", "other keys are multiplied by 0: NaN leaks"},
    {"top_k_negative_reversed", "bits of floats are compared: of negative logits the least count"},
    {"top_k_negative_alike", "negative logits are all alike"},
    {"top_k_cut_at_32", "logits are cut to -32 .. 32 before keys are chosen"},
    {"top_k_wraps", "the distance from the largest logit overflows at 1,000 and becomes 0"},
    {"top_k_half_of_ties", "the list of equal keys at the edge holds half of a row's keys"},
    {"top_k_just_enough", "of a row that sees just top_k keys the last one is lost"},
    {"top_k_nan_dropped", "keys with a NaN logit are dropped where others are chosen"},
};
static_assert(std::size(kBugs) == size_t(Bug::kNanDropped) + 1);

bool does_something(Bug bug, const attest_problem& problem) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const auto has = [&](int role) { return problem.tensor[role].dtype != ATTEST_NONE; };
  const bool first = p.top_k_ties == ATTEST_TOP_K_FIRST,
             terms = has(ATTEST_BIAS) || has(ATTEST_ALIBI_SLOPES),
             band = p.window_left >= 0 || p.window_right >= 0;
  if (p.top_k == 0 || p.top_k >= p.seq_len_kv) return false;
  switch (bug) {
    case Bug::kOneLess: return p.top_k > 1;
    case Bug::kLastTies:
    case Bug::kAllTies: return first;
    case Bug::kFirstTies:
    case Bug::kHalfOfTies: return !first;
    case Bug::kJustEnough: return p.top_k > 1 && (band || has(ATTEST_MASK));
    case Bug::kNanDropped: return p.num_kv_heads > 1;
    case Bug::kBeforeTerms:
    case Bug::kBeforeScale: return terms;
    case Bug::kBeforeSoftcap: return terms && p.softcap > 0;
    case Bug::kMaskedCount: return has(ATTEST_MASK);
    case Bug::kOthersCount:
    case Bug::kFewSeeNone: return band;
    case Bug::kOverHeads: return p.num_heads > 1;
    case Bug::kFirstHeadOfGroup: return p.num_heads > p.num_kv_heads;
    case Bug::kLseOfAll: return has(ATTEST_LSE);
    default: return true;
  }
}

template <class T>
class TopK {
 public:
  TopK(Bug bug, const attest_problem& problem, void* const* data)
      : bug_(bug), a_(problem, data), k_(a_.p.top_k) {}

  void attend() {
    for (int64_t b = 0; b < a_.p.batch; ++b)
      for (int64_t i = 0; i < a_.rows(b); ++i)
        for (int64_t h = 0; h < a_.p.num_heads; ++h) attend_row(b, h, i);
  }

 private:
  bool is(Bug bug) const { return bug_ == bug; }

  // The logits of all keys of the sequence, -inf where hidden; and what keys are chosen by.
  struct Row {
    std::vector<float> logits, ranks;
  };
  Row row_of(int64_t b, int64_t h, int64_t i) const {
    const attest::Keys keys = a_.keys(b, i);
    const attest::Cell at = a_.query(b, i);
    Row row;
    for (int64_t j = 0; j < a_.length_kv(b); ++j) {
      const attest::Cell key = a_.key(b, j);
      const float product =
          mutants::dot(&a_.q(at.batch, h, at.row, 0), a_.q.stride(3),
                       &a_.k(key.batch, a_.kv_head(h), key.row, 0), a_.k.stride(3), a_.p.head_dim);
      const bool in_band = j >= keys.begin && j < keys.end;
      const float logit = in_band ? a_.logit(product, b, h, i, j) : -INFINITY;
      row.logits.push_back(logit);
      row.ranks.push_back(rank(product, logit, in_band, a_.pair_term(b, h, i, j)));
    }
    if (is(Bug::kWraps)) wrap(row.ranks);
    return row;
  }
  static void wrap(std::vector<float>& ranks) {
    const float largest = *std::max_element(ranks.begin(), ranks.end());
    for (float& rank : ranks)
      if (std::isfinite(rank) && std::isfinite(largest) && largest - rank > 1000) rank = largest;
  }
  float rank(float product, float logit, bool in_band, float term) const {
    const float score = a_.p.softmax_scale * product;
    if (is(Bug::kOthersCount) && !in_band) return score;
    if (is(Bug::kMaskedCount) && in_band && logit == -INFINITY) return score;
    if (logit == -INFINITY) return logit;
    if (std::isnan(logit)) return is(Bug::kNanDropped) ? -INFINITY : INFINITY;
    if (is(Bug::kNegativeReversed) && logit < 0) return -1 / (1 - logit);
    if (is(Bug::kNegativeAlike)) return std::max(logit, -1e-30f);
    if (is(Bug::kCutAt32)) return std::clamp(logit, -32.0f, 32.0f);
    if (is(Bug::kBeforeTerms)) return score;
    if (is(Bug::kBeforeSoftcap)) return score + term;
    if (is(Bug::kBeforeScale)) return product + term;
    if (is(Bug::kByMagnitude)) return std::fabs(logit);
    if (is(Bug::kSmallest)) return -logit;
    if (!is(Bug::kHalfScores)) return logit;
    attest::BFloat16 half;
    half = logit;
    return half;
  }

  // Which of the keys first .. end - 1 are the `most` of the largest ranks.
  void choose(const std::vector<float>& ranks, int64_t first, int64_t end, int64_t most,
              std::vector<bool>& chosen) const {
    std::vector<int64_t> order;
    for (int64_t j = first; j < end; ++j)
      if (ranks[size_t(j)] != -INFINITY) order.push_back(j);
    const bool last_first = is(Bug::kLastTies);
    std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
      const float of_x = ranks[size_t(x)], of_y = ranks[size_t(y)];
      return of_x != of_y ? of_x > of_y : last_first ? x > y : x < y;
    });
    const bool all_ties =
        (a_.p.top_k_ties == ATTEST_TOP_K_ALL_TIES && !is(Bug::kFirstTies)) || is(Bug::kAllTies);
    auto count = std::min(static_cast<int64_t>(order.size()), most);
    const auto ranked = static_cast<int64_t>(order.size());
    const int64_t limit = is(Bug::kHalfOfTies) ? most + ranked / 2 : ranked;
    const auto rank_at = [&](int64_t n) { return ranks[size_t(order[size_t(n)])]; };
    while (all_ties && count > 0 && count < std::min(ranked, limit) &&
           rank_at(count) == rank_at(count - 1))
      ++count;
    if (is(Bug::kJustEnough) && ranked == most) --count;
    for (int64_t n = 0; n < count; ++n) chosen[size_t(order[size_t(n)])] = true;
  }

  std::vector<bool> chosen_keys(int64_t b, int64_t h, int64_t i, const Row& row) const {
    constexpr int64_t kTile = 16;
    const auto keys = static_cast<int64_t>(row.ranks.size());
    const bool only_nan = std::all_of(row.logits.begin(), row.logits.end(), [](float logit) {
      return std::isnan(logit) || logit == -INFINITY;
    });
    std::vector<bool> chosen(row.ranks.size(), is(Bug::kNanDropped) && only_nan);
    int64_t most = k_;
    if (is(Bug::kOneMore)) ++most;
    if (is(Bug::kOneLess)) --most;
    if (is(Bug::kOverHeads)) {
      std::vector<float> of_heads;
      for (int64_t head = 0; head < a_.p.num_heads; ++head)
        for (const float rank : head == h ? row.ranks : row_of(b, head, i).ranks)
          of_heads.push_back(rank);
      std::vector<bool> all(of_heads.size(), false);
      choose(of_heads, 0, static_cast<int64_t>(all.size()), k_ * a_.p.num_heads, all);
      for (int64_t j = 0; j < keys; ++j) chosen[size_t(j)] = all[size_t(h * keys + j)];
      return chosen;
    }
    if (is(Bug::kFirstHeadOfGroup) || is(Bug::kFirstQueryOfTile)) {
      const int64_t group = a_.p.num_heads / a_.p.num_kv_heads;
      const bool of_head = is(Bug::kFirstHeadOfGroup);
      choose(row_of(b, of_head ? h / group * group : h, of_head ? i : i / kTile * kTile).ranks, 0,
             keys, most, chosen);
      return chosen;
    }
    if (is(Bug::kOfEveryTile) || is(Bug::kShareOfTile)) {
      if (is(Bug::kShareOfTile)) most = std::max<int64_t>(1, k_ * kTile / keys);
      for (int64_t j = 0; j < keys; j += kTile)
        choose(row.ranks, j, std::min(j + kTile, keys), most, chosen);
      return chosen;
    }
    choose(row.ranks, 0, keys, most, chosen);
    return chosen;
  }

  void attend_row(int64_t b, int64_t h, int64_t i) {
    const Row row = row_of(b, h, i);
    const std::vector<bool> chosen = chosen_keys(b, h, i, row);
    const auto seen = static_cast<int64_t>(row.logits.size()) -
                      std::count(row.logits.begin(), row.logits.end(), -INFINITY);
    const bool none = is(Bug::kFewSeeNone) && seen < k_;
    float top = -INFINITY;
    for (const float logit : row.logits) top = std::max(top, logit);
    if (is(Bug::kOthersAreZero)) top = std::max(top, 0.0f);
    std::vector<float> sum(static_cast<size_t>(a_.p.head_dim_v), 0.0f);
    float total = 0, of_all = 0;
    for (size_t j = 0; j < row.logits.size(); ++j) {
      if (row.logits[j] == -INFINITY) continue;
      const float weight = std::exp(row.logits[j] - top);
      of_all += weight;
      const bool counts = chosen[j] && !none;
      if (!counts && !is(Bug::kTimesZero) && !is(Bug::kOthersAreZero)) continue;
      const float used = counts ? weight : is(Bug::kOthersAreZero) ? std::exp(-top) : 0;
      const attest::Cell key = a_.key(b, static_cast<int64_t>(j));
      mutants::add_weighted(1.0f, used, &a_.v(key.batch, a_.kv_head(h), key.row, 0), a_.v.stride(3),
                            a_.p.head_dim_v, sum.data());
      total += used;
    }
    if (is(Bug::kNormaliserOfAll)) total = of_all;
    const attest::Cell at = a_.query(b, i);
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d)
      a_.o(at.batch, h, at.row, d) = total == 0 ? 0 : sum[static_cast<size_t>(d)] / total;
    if (a_.lse) a_.lse(at.batch, h, at.row) = top + std::log(is(Bug::kLseOfAll) ? of_all : total);
  }

  Bug bug_;
  const attest::Softmax<T> a_;
  const int64_t k_;
};

constexpr uint64_t kFeatures = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                               ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP |
                               ATTEST_WITH_BIAS | ATTEST_WITH_MASK | ATTEST_WITH_LSE |
                               ATTEST_WITH_SEQ_LENS | ATTEST_WITH_STRIDES | ATTEST_WITH_ALIBI |
                               ATTEST_WITH_TOP_K;

template <size_t kIndex>
struct Implementation : mutants::Planted<Bug{kIndex}, kBugs, does_something, kFeatures> {
  template <class T>
  void run(void* const* data, void* /*workspace*/, void* /*stream*/) const {
    TopK<T>(this->kBug, this->problem, data).attend();
  }
};

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  return mutants::table_at<Implementation, std::size(kBugs)>(index);
}
