// flash_cpu's top-k with planted bugs, one for each table. Its kernel is compiled again for this
// plugin, so the rest of the code is flash_cpu's own. An implementation refuses problems where its
// bug does nothing.
#include "mutants/features/planted.hpp"
#include "simd/softmax/flash_top_k.hpp"
#include "simd/softmax/top_k_bugs.hpp"

namespace {

using Bug = impls::TopKBug;

constexpr mutants::PlantedBug kBugs[] = {
    {"flash_top_k_none", "flash_cpu's top-k, healthy"},
    {"flash_top_k_full_list_drops", "a full list is not cut: later keys are dropped"},
    {"flash_top_k_least_of_part", "the k-th logit is that of half of the list"},
    {"flash_top_k_largest_for_least", "after a cut only keys above the largest logit are kept"},
    {"flash_top_k_cut_to_less", "lists are cut to top_k - 1 keys"},
    {"flash_top_k_places_stay", "a cut moves logits and leaves places as they were"},
    {"flash_top_k_ties_after_cut", "after a cut, ties at the edge are dropped that should count"},
    {"flash_top_k_no_last_cut", "lists are not cut at the end: all of their keys count"},
    {"flash_top_k_all_ties_stay", "the last cut keeps all ties where only the first should count"},
    {"flash_top_k_place_in_tile", "places count from the tile's first key"},
    {"flash_top_k_one_threshold", "all rows of a vector have the threshold of the first"},
    {"flash_top_k_stale_thresholds", "thresholds of the block of queries before are kept"},
    {"flash_top_k_tail_dropped", "keys behind the last four of a tile are dropped"},
    {"flash_top_k_stale_tail", "what lies behind a list is weighed, too"},
    {"flash_top_k_nan_dropped", "keys with a NaN logit are dropped"},
};
static_assert(std::size(kBugs) == size_t(Bug::kNanDropped) + 1);

bool does_something(Bug bug, const attest_problem& problem) {
  const attest_softmax_params& p = impls::softmax_params(problem);
  const bool first = p.top_k_ties == ATTEST_TOP_K_FIRST;
  if (p.top_k == 0 || p.top_k >= p.seq_len_kv) return false;
  switch (bug) {
    case Bug::kCutToLess: return p.top_k > 1;
    case Bug::kTiesAfterCut: return !first;
    case Bug::kAllTiesStay: return first;
    default: return true;
  }
}

constexpr uint64_t kFeatures = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                               ATTEST_WITH_WINDOW | ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS |
                               ATTEST_WITH_MASK | ATTEST_WITH_LSE | ATTEST_WITH_ALIBI |
                               ATTEST_WITH_TOP_K;

template <size_t kIndex>
struct Implementation : mutants::Planted<Bug{kIndex}, kBugs, does_something, kFeatures> {
  static const char* query(const attest_problem& asked, attest_support& support) {
    if (const char* reason = impls::why_not(asked)) return reason;
    if (const char* reason = Implementation::Planted::query(asked, support)) return reason;
    impls::FlashTopK{asked}.declare(support);
    return nullptr;
  }
  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) const {
    impls::planted_bug = this->kBug;
    impls::FlashTopK{this->problem}.run(data, workspace);
  }
};

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  return mutants::table_at<Implementation, std::size(kBugs)>(index);
}
