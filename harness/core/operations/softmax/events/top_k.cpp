// Events at the edge of top_k: the key with the top_k-th largest logit of a row, and the next one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core::events {
namespace {

constexpr float kClear = 0.1f;
constexpr float kFar = 50;         // a kernel may assume that logits are nearer to 0
constexpr float kSpread = 1000;    // a few halvings of such a range, or a histogram, miss the edge
constexpr int64_t kManyTies = 64;  // more than a short list holds
// The edge is at most so far below the largest logit: its key shows.
constexpr float kEdgeShows = 8;

// A masked key of the row would be among the top_k keys.
bool hides_a_large_one(const Unit& unit, const RowPlace& place, const Row& row, float edge) {
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j)
    if (std::isinf(row.logits[size_t(j - row.keys.begin)]) && unit.plain_score(place, j) > edge)
      return true;
  return false;
}

// Why a problem cannot have an event; "": it can.
struct Why {
  const Problem& problem;
  const attest_softmax_params& p = problem.as<attest_softmax_params>();

  bool has_terms() const {
    return problem.has(ATTEST_BIAS) || problem.has(ATTEST_REL_BIAS) ||
           problem.has(ATTEST_ALIBI_SLOPES) || p.shift_bias != 0;
  }
  // Why no row sees fewer keys than there are.
  std::string none_hidden() const {
    const bool may_hide = problem.has(ATTEST_MASK) || problem.has(ATTEST_BIAS) ||
                          problem.has(ATTEST_BLOCK_MASK) || problem.has(ATTEST_REL_BIAS) ||
                          problem.has(ATTEST_SEQ_LENS_KV) || problem.has(ATTEST_CU_SEQLENS_KV) ||
                          has_band(p) || p.patch_size > 0 || p.grid_height > 0;
    return may_hide ? "" : "every row sees each key";
  }
  std::string too_few_ties() const {
    return p.seq_len_kv > kManyTies ? "" : fmt::format("no row sees more than {} keys", kManyTies);
  }
  // Why no logits are so far apart, or from 0.
  std::string beyond_softcap(double distance) const {
    return p.softcap > 0 && p.softcap <= distance && !has_terms()
               ? fmt::format("softcap {} leaves no logit {} from 0", p.softcap, distance)
               : "";
  }
};

}  // namespace

std::vector<NumericEvent> top_k_events(const Problem& problem) {
  const auto& p = problem.as<attest_softmax_params>();
  const std::string all = p.top_k == p.seq_len_kv ? "top_k is seq_len_kv: no key is left out" : "";
  const auto unless = [&](const std::string& why) { return all.empty() ? why : all; };
  const Why why{problem};
  std::vector<NumericEvent> events;
  for (const char* name : {"top_k/cuts", "top_k/tie", "top_k/clear", "top_k/below_zero"})
    events.push_back({name, all});
  for (const char* name : {"top_k/far_above", "top_k/far_below"})
    events.push_back({name, unless(why.beyond_softcap(kFar))});
  events.push_back({"top_k/spread", unless(why.beyond_softcap(kSpread / 2))});
  events.push_back({"top_k/ties_64", unless(why.too_few_ties())});
  for (const char* name : {"top_k/sees_just_these", "top_k/sees_one_more"})
    events.push_back({name, unless(why.none_hidden())});
  if (problem.has(ATTEST_MASK)) events.push_back({"top_k/hidden_above", all});
  return events;
}

void find_top_k(const Unit& unit, const RowSet& rows, Found& found) {
  const auto top_k = size_t(unit.params().top_k);
  Unit::Buffer buffer;
  std::vector<float> logits;
  for (const RowPlace& place : rows.places) {
    const Row row = unit.row(place, buffer);
    logits.clear();
    std::ranges::copy_if(row.logits, std::back_inserter(logits),
                         [](float logit) { return std::isfinite(logit); });
    if (top_k < size_t(unit.params().seq_len_kv) && logits.size() == top_k)
      found.insert("top_k/sees_just_these");
    if (logits.size() <= top_k) continue;
    std::ranges::partial_sort(logits, logits.begin() + std::ptrdiff_t(top_k) + 1, std::greater());
    const float edge = logits[top_k - 1], gap = edge - logits[top_k],
                least = *std::ranges::min_element(logits);
    found.insert("top_k/cuts");
    if (logits.size() == top_k + 1) found.insert("top_k/sees_one_more");
    if (gap == 0) found.insert("top_k/tie");
    if (gap == 0 && std::ranges::count(logits, edge) > kManyTies) found.insert("top_k/ties_64");
    if (hides_a_large_one(unit, place, row, edge)) found.insert("top_k/hidden_above");
    if (gap >= kClear) found.insert("top_k/clear");
    // Where no key is below the edge, or the edge does not show, no wrong choice does.
    if (least == edge || logits[0] - edge > kEdgeShows) continue;
    if (logits[0] < 0) found.insert("top_k/below_zero");
    if (least > kFar) found.insert("top_k/far_above");
    if (logits[0] < -kFar) found.insert("top_k/far_below");
    if (edge - least >= kSpread) found.insert("top_k/spread");
  }
}

}  // namespace attest::core::events
