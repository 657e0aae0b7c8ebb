#include "core/operations/softmax/events/events.hpp"

#include <omp.h>

#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/softmax.hpp"

namespace attest::core {
namespace {

using namespace events;

// Multiply-adds, or what takes as long, of all rows that are looked at
constexpr double kBudget = 2e9;

float sink_of(const Unit& unit, const RowPlace& row) {
  return unit.geometry().has_sinks() ? float(unit.geometry().sink(row.h))
                                     : -std::numeric_limits<float>::infinity();
}

// The logits of every row that is looked at: summaries, rises, lanes, spreads.
void summarise(const Unit& unit, RowSet& rows, Found& found) {
  rows.summaries.resize(rows.places.size());
#pragma omp parallel if (rows.places.size() > 16)
  {
    Unit::Buffer buffer;
    Found mine;
#pragma omp for schedule(dynamic, 8) nowait
    for (size_t r = 0; r < rows.places.size(); ++r) {
      const Row row = unit.row(rows.places[r], buffer);
      RowSummary& summary = rows.summaries[r];
      summary = unit.summary(rows.places[r], row);
      if (summary.wild || summary.visible == 0) continue;
      find_rises(row, mine);
      find_lanes(rows.places[r], summary, mine);
      find_spreads(row, sink_of(unit, rows.places[r]), mine);
    }
#pragma omp critical(attest_events)
    found.merge(mine);
  }
}

class Counter {
 public:
  Counter(const Problem& problem, const Tensors& inputs, const std::vector<bool>& judged)
      : problem_(problem),
        inputs_(inputs),
        judged_(judged),
        p_(problem_.as<attest_softmax_params>()),
        geometry_(problem_, inputs) {}

  Found count() {
    for (int64_t b = 0; b < geometry_.batch(); ++b)
      for (int64_t kv_head = 0; kv_head < p_.num_kv_heads; ++kv_head)
        if (geometry_.length_q(b) > 0 && geometry_.length_kv(b) > 0) look_at(b, kv_head);
    if (p_.top_k > 0) return std::move(found_);
    if (all_judged() && graded_.most()) found_.insert("weights/graded");
    if (keys_.most()) found_.insert("weights/key");
    note_wild();
    find_hidden(problem_, inputs_, geometry_, judged_, found_);
    find_blocks(problem_, inputs_, geometry_, judged_, found_);
    find_finite_biases(problem_, inputs_, geometry_, judged_, found_);
    find_hidden_wild(problem_, inputs_, geometry_, found_);
    find_lengths(problem_, geometry_, judged_, found_);
    find_structure(problem_, inputs_, geometry_, judged_, found_);
    return std::move(found_);
  }

 private:
  void look_at(int64_t b, int64_t kv_head) {
    Unit unit(problem_, inputs_, geometry_, b, kv_head);
    KeyTrial trial(unit);
    const int64_t group = p_.num_heads / p_.num_kv_heads;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      unit.load_head(h);
      RowSet rows = choose_rows(unit, judged_, kBudget / double(p_.batch * p_.num_heads));
      if (p_.top_k > 0) {
        find_top_k(unit, rows, found_);
        continue;
      }
      summarise(unit, rows, found_);
      find_weights(unit, rows, found_, graded_);
      find_gaps(unit, rows, found_);
      trial.add(unit, rows);
      find_wild(unit, inputs_[ATTEST_BIAS], rows, wild_);
    }
    trial.count(keys_);
  }

  // Where all that is judged is NaN, a kernel that writes nothing else is right.
  void note_wild() {
    const bool calm = wild_.calm_row || wild_.calm_channel;
    if (!calm) return;
    found_.insert(wild_.seen.begin(), wild_.seen.end());
    const EventShape shape(problem_);
    TileSizes possible = 0;
    for (size_t t = 0; t < kEventTiles.size(); ++t)
      if (shape.tile[t].most_tiles >= 2) possible |= TileSizes{1} << t;
    for (const auto& [name, sizes] : wild_.ends)
      if (possible != 0 && (sizes & possible) == possible) found_.insert(name);
  }

  bool all_judged() const {
    for (int64_t b = 0; b < geometry_.batch(); ++b)
      for (int64_t h = 0; h < p_.num_heads; ++h)
        for (int64_t i = 0; i < geometry_.length_q(b); ++i)
          if (geometry_.keys(b, i).size() > 0 && !judged_[size_t(geometry_.output_row(b, h, i))])
            return false;
    return true;
  }

  const Problem problem_;
  const Tensors& inputs_;
  const std::vector<bool>& judged_;
  const attest_softmax_params& p_;
  const Geometry geometry_;
  Found found_;
  Share graded_, keys_;
  Wild wild_;
};

}  // namespace

std::set<std::string> SoftmaxOperation::count_events(const Problem& problem, const Tensors& inputs,
                                                     const std::vector<bool>& judged) const {
  if (has_f8(problem)) return find_f8(problem, inputs, judged);
  return Counter(problem, inputs, judged).count();
}

}  // namespace attest::core
