// Softmax over packed, padded or paged sequences that is wrong at rare lengths: one bug for each
// table. The attention around it is plain. An implementation refuses problems where its bug does
// nothing.
#include <algorithm>
#include <cmath>
#include <vector>

#include "mutants/features/planted.hpp"
#include "mutants/plain_attention.hpp"

namespace {

enum class Bug { kNone, kOneKey, kOneQuery, kWholePages, kKeyAlone, kWholeTiles };

constexpr mutants::PlantedBug kBugs[] = {
    {"length_none", "plain attention, healthy"},
    {"length_one_key", "a sequence of one key counts as empty"},
    {"length_one_query", "a sequence of one query sees all keys, as if there were no band"},
    {"length_whole_pages", "a last page that is full counts as empty"},
    {"length_key_alone", "a last page with a single key is left out"},
    {"length_whole_tiles", "without pages, a last tile of 16 keys that is full counts as empty"},
};
static_assert(std::size(kBugs) == size_t(Bug::kWholeTiles) + 1);

constexpr int64_t kTile = 16;

bool does_something(Bug bug, const attest_problem& problem) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const auto has = [&](int role) { return problem.tensor[role].dtype != ATTEST_NONE; };
  switch (bug) {
    case Bug::kOneKey: return has(ATTEST_CU_SEQLENS_KV) || has(ATTEST_SEQ_LENS_KV);
    case Bug::kOneQuery:
      return (has(ATTEST_CU_SEQLENS_Q) || has(ATTEST_SEQ_LENS_Q)) && p.window_left >= 0;
    case Bug::kWholePages:
    case Bug::kKeyAlone: return p.page_size > 1;
    case Bug::kWholeTiles: return p.page_size == 0;
    default: return true;
  }
}

template <class T>
class Sequences {
 public:
  Sequences(Bug bug, const attest_problem& problem, void* const* data)
      : bug_(bug), a_(problem, data) {}

  void attend() {
    for (int64_t b = 0; b < a_.p.batch; ++b)
      for (int64_t h = 0; h < a_.p.num_heads; ++h)
        for (int64_t i = 0; i < a_.rows(b); ++i) attend_row(b, h, i);
  }

 private:
  bool is(Bug bug) const { return bug_ == bug; }

  attest::Keys keys(int64_t b, int64_t i) const {
    attest::Keys keys = a_.keys(b, i);
    const int64_t length = a_.length_kv(b), page = a_.p.page_size;
    if (is(Bug::kOneKey) && length == 1) return {0, 0};
    if (is(Bug::kOneQuery) && a_.length_q(b) == 1) return {0, length};
    int64_t lost = 0;
    if (is(Bug::kWholePages) && length % page == 0) lost = page;
    if (is(Bug::kKeyAlone) && length % page == 1) lost = 1;
    if (is(Bug::kWholeTiles) && length % kTile == 0) lost = kTile;
    keys.end = std::max(keys.begin, std::min(keys.end, length - lost));
    return keys;
  }

  void attend_row(int64_t b, int64_t h, int64_t i) {
    const attest::Cell at = a_.query(b, i);
    const attest::Keys keys = this->keys(b, i);
    std::vector<float> logits, sum(static_cast<size_t>(a_.p.head_dim_v), 0.0f);
    float top = -INFINITY, total = 0;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      logits.push_back(mutants::logit(a_, b, h, i, j));
      top = std::max(top, logits.back());
    }
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const float logit = logits[static_cast<size_t>(j - keys.begin)];
      if (logit == -INFINITY) continue;
      const attest::Cell key = a_.key(b, j);
      const float weight = std::exp(logit - top);
      mutants::add_weighted(1.0f, weight, &a_.v(key.batch, a_.kv_head(h), key.row, 0),
                            a_.v.stride(3), a_.p.head_dim_v, sum.data());
      total += weight;
    }
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d)
      a_.o(at.batch, h, at.row, d) = total == 0 ? 0 : sum[static_cast<size_t>(d)] / total;
    if (a_.lse) a_.lse(at.batch, h, at.row) = top + std::log(total);
  }

  Bug bug_;
  const attest::Softmax<T> a_;
};

constexpr uint64_t kFeatures = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                               ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_BIAS |
                               ATTEST_WITH_MASK | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN |
                               ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES | ATTEST_WITH_STRIDES |
                               ATTEST_WITH_ALIBI;

template <size_t kIndex>
struct Implementation : mutants::Planted<Bug{kIndex}, kBugs, does_something, kFeatures> {
  template <class T>
  void run(void* const* data, void* /*workspace*/, void* /*stream*/) const {
    Sequences<T>(this->kBug, this->problem, data).attend();
  }
};

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  return mutants::table_at<Implementation, std::size(kBugs)>(index);
}
