// Which rows events are looked for in.
#include <algorithm>
#include <unordered_set>

#include "core/operations/softmax/events/unit.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"
#include "core/tensor/random.hpp"

namespace attest::core::events {
namespace {

constexpr int64_t kLeastRows = 32, kMostRows = 4096;
// If a fill gives a head so few rows of different logits, each is there to cause one event, and is
// looked at.
constexpr int64_t kFewRows = 256;
constexpr uint64_t kSampleSeed = 0x6576656e7473;

// Rows of one query and one interval have the same logits, unless the row itself adds to them.
uint64_t sameness(const RowPlace& row) {
  const int64_t words[] = {row.query_class, row.keys.begin, row.keys.end};
  return hash_bytes(words, sizeof(words));
}

// First, last, beside tiles' edges and at random; and half of them in succession, so that some keys
// are seen by all rows that can see them.
std::vector<int64_t> sample(int64_t count, int64_t wanted, uint64_t seed) {
  std::vector<int64_t> places = sample_places(count, wanted / 2, 0, seed);
  const int64_t run = wanted / 2,
                begin = int64_t(random_below(seed, uint64_t(wanted), uint64_t(count - run)));
  for (int64_t n = begin; n < begin + run; ++n) places.push_back(n);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

}  // namespace

RowSet choose_rows(const Unit& unit, const std::vector<bool>& judged, double budget) {
  const attest_softmax_params& p = unit.params();
  const Geometry& geometry = unit.geometry();
  const int64_t length_q = geometry.length_q(unit.b()), length_kv = geometry.length_kv(unit.b());
  std::vector<RowPlace> rows;
  std::unordered_set<uint64_t> known;
  double cost = 0;
  for (int64_t i = 0; i < length_q; ++i) {
    if (!judged[size_t(geometry.output_row(unit.b(), unit.head(), i))]) continue;
    const RowPlace row{unit.head(), i, geometry.keys(unit.b(), i),
                       tile_origin(p, i, length_q, length_kv), unit.query_class(i)};
    if (row.keys.size() == 0 || (!unit.adds_by_row() && !known.insert(sameness(row)).second))
      continue;
    rows.push_back(row);
    cost += unit.cost(row.keys.size());
  }
  const auto count = int64_t(rows.size());
  const auto affordable =
      std::clamp(int64_t(budget / std::max(cost, 1.0) * double(count)), kLeastRows, kMostRows);
  RowSet chosen;
  const int64_t few = unit.adds_by_row() ? 0 : kFewRows;
  if (cost <= budget || count <= std::max(affordable, few)) {
    chosen.places = std::move(rows);
    return chosen;
  }
  chosen.sampled = true;
  for (const int64_t n :
       sample(count, affordable,
              random_bits(kSampleSeed, uint64_t(unit.b() * p.num_heads + unit.head()))))
    chosen.places.push_back(rows[size_t(n)]);
  return chosen;
}

}  // namespace attest::core::events
