// Events at the edge of top_k: the key with the top_k-th largest logit of a row, and the next one.
#include <algorithm>
#include <cmath>
#include <functional>

#include "core/operations/softmax/events/events.hpp"

namespace attest::core::events {
namespace {

constexpr float kClear = 0.1f;

// A masked key of the row would be among the top_k keys.
bool hides_a_large_one(const Unit& unit, const RowPlace& place, const Row& row, float edge) {
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j)
    if (std::isinf(row.logits[size_t(j - row.keys.begin)]) && unit.plain_score(place, j) > edge)
      return true;
  return false;
}

}  // namespace

std::vector<NumericEvent> top_k_events(const Problem& problem) {
  const auto& p = problem.as<attest_softmax_params>();
  const std::string all = p.top_k == p.seq_len_kv ? "top_k is seq_len_kv: no key is left out" : "";
  std::vector<NumericEvent> events;
  for (const char* name : {"top_k/cuts", "top_k/tie", "top_k/clear"}) events.push_back({name, all});
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
    if (logits.size() <= top_k) continue;
    std::ranges::partial_sort(logits, logits.begin() + std::ptrdiff_t(top_k) + 1, std::greater());
    const float edge = logits[top_k - 1], gap = edge - logits[top_k];
    found.insert("top_k/cuts");
    if (gap == 0) found.insert("top_k/tie");
    if (gap >= kClear) found.insert("top_k/clear");
    if (hides_a_large_one(unit, place, row, edge)) found.insert("top_k/hidden_above");
  }
}

}  // namespace attest::core::events
