// Counts events over all sequences and heads.
#include <fmt/format.h>

#include <algorithm>

#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax_backward/backward.hpp"
#include "core/operations/softmax_backward/events/events.hpp"

namespace attest::core::backward {
namespace {

constexpr double kRowBudget = 1e9;  // multiply-adds of the rows that are looked at

class Counter {
 public:
  Counter(const EventInputs& inputs, const std::vector<bool>& judged)
      : in_(inputs), judged_(judged), rows_(inputs) {}

  Found count() {
    const Geometry& geometry = in_.geometry;
    for (int64_t b = 0; b < geometry.batch(); ++b)
      for (int64_t kv_head = 0; kv_head < in_.p.num_kv_heads; ++kv_head) look_at(b, kv_head);
    rows_.finish(found_);
    events::find_lengths(in_.forward, geometry, judged_, found_);
    events::find_structure(in_.forward, in_.numbers, geometry, judged_, found_);
    return std::move(found_);
  }

 private:
  void look_at(int64_t b, int64_t kv_head) {
    const Geometry& geometry = in_.geometry;
    const int64_t group = in_.p.num_heads / in_.p.num_kv_heads, first = kv_head * group,
                  length_q = geometry.length_q(b);
    for (int64_t h = first; h < first + group; ++h)
      for (int64_t i = 0; i < length_q; ++i)
        if (geometry.keys(b, i).size() == 0 && judged_[size_t(geometry.output_row(b, h, i))])
          rows_.note_blind(b, h, i, found_);
    if (length_q == 0 || geometry.length_kv(b) == 0) return;
    Unit unit(in_.forward, in_.numbers, geometry, b, kv_head);
    KeyEvents keys(in_, b, kv_head);
    for (int64_t h = first; h < first + group; ++h) {
      unit.load_head(h);
      const events::RowSet rows =
          events::choose_rows(unit, judged_, kRowBudget / double(in_.p.batch * in_.p.num_heads));
      if (in_.p.top_k > 0) events::find_top_k(unit, rows, found_);
      Unit::Buffer buffer;
      for (const RowPlace& place : rows.places)
        rows_.note_row(unit, place, unit.row(place, buffer), found_);
      keys.add_head(unit, h);
    }
    keys.finish(found_);
  }

  const EventInputs& in_;
  const std::vector<bool>& judged_;
  RowEvents rows_;
  Found found_;
};

}  // namespace

bool has_lengths(const Problem& problem) {
  return std::ranges::any_of(
      std::initializer_list<int32_t>{ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_CU_SEQLENS_Q,
                                     ATTEST_CU_SEQLENS_KV},
      [&](int32_t role) { return problem.has(role); });
}

bool notes_hidden(const Problem& problem) {
  return !has_lengths(problem) && !problem.has(ATTEST_BLOCK_MASK);
}

void note(bool happens, const std::string& name, Found& found) {
  if (happens) found.insert(name);
}

void note_tail(const char* side, int64_t length, int64_t position, Found& found) {
  for (const int64_t tile : kTails)
    note(length > tile && length % tile != 0 && position >= length / tile * tile,
         fmt::format("tail/{}/{}", side, tile), found);
}

std::set<std::string> count_events(const Problem& problem, const Tensors& inputs,
                                   const std::vector<bool>& judged) {
  const WithoutFactors numbers(problem, inputs);
  const Problem forward = forward_problem(numbers.problem());
  const Geometry geometry(forward, numbers.tensors());
  return Counter({forward, problem, forward.as<EventParams>(), numbers.tensors(), inputs, geometry},
                 judged)
      .count();
}

}  // namespace attest::core::backward
