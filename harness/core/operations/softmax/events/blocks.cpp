// Blocks of query rows and keys that MASK or BIAS hides: kernels that skip tiles look at them,
// whole or in part.
#include <fmt/format.h>

#include <algorithm>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/events/pairs.hpp"

namespace attest::core::events {
namespace {

constexpr double kPairs = 5e7;  // that are looked at, over all heads

// Keys that all rows have in their intervals.
Interval common_keys(const std::vector<PairRow>& rows) {
  Interval common = rows.front().keys;
  for (const PairRow& row : rows) {
    common = {std::max(common.begin, row.keys.begin), std::min(common.end, row.keys.end)};
    if (row.origin != rows.front().origin) return {};
  }
  return common;
}

enum class Sight {
  kNothing,
  kOthersOnly,
  kSome
};  // of a row: of any key, of keys elsewhere, of keys of the tile
constexpr size_t kLeastSeeing = kQueryTile / 2;

std::vector<Sight> sights(const PairTensors& pairs, PairTensors::Which which,
                          const std::vector<PairRow>& rows, const std::vector<bool>& sees,
                          int64_t begin, int64_t end) {
  std::vector<Sight> found;
  for (size_t r = 0; r < rows.size(); ++r) {
    int64_t j = begin;
    while (sees[r] && j < end && pairs.hides(which, rows[r].b, rows[r].h, rows[r].i, j)) ++j;
    found.push_back(!sees[r] ? Sight::kNothing : j == end ? Sight::kOthersOnly : Sight::kSome);
  }
  return found;
}

void find_in_tile(const std::vector<Sight>& rows, const std::string& group, Found& found) {
  const auto some = std::count(rows.begin(), rows.end(), Sight::kSome),
             others = std::count(rows.begin(), rows.end(), Sight::kOthersOnly);
  if (others >= std::ptrdiff_t(kLeastSeeing) && some == 0) found.insert(group + "all");
  if (others >= std::ptrdiff_t(kLeastSeeing) && some == 1) found.insert(group + "all_but_one");
  if (rows.front() == Sight::kOthersOnly && rows.back() == Sight::kSome)
    found.insert(group + "first_row");
  if (rows.front() == Sight::kSome && rows.back() == Sight::kOthersOnly)
    found.insert(group + "last_row");
}

void find_in_rows(const PairTensors& pairs, const std::vector<PairRow>& rows, Found& found) {
  const Interval common = common_keys(rows);
  std::vector<bool> sees;
  for (const PairRow& row : rows) sees.push_back(pairs.sees_any(row));
  for (const PairTensors::Which which : pairs.present())
    for (const int64_t tile : kEventTiles) {
      const int64_t origin = rows.front().origin,
                    first = (common.begin - origin + tile - 1) / tile * tile + origin;
      const std::string group = fmt::format("block/{}/{}/", PairTensors::name(which), tile);
      for (int64_t begin = first; begin + tile <= common.end; begin += tile)
        find_in_tile(sights(pairs, which, rows, sees, begin, begin + tile), group, found);
    }
}

}  // namespace

void find_blocks(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                 const std::vector<bool>& judged, Found& found) {
  const PairTensors pairs(problem, tensors, geometry);
  if (pairs.present().empty()) return;
  const auto& p = problem.as<attest_softmax_params>();
  double looked_at = 0;
  for (int64_t b = 0; b < geometry.batch(); ++b)
    for (int64_t h = 0; h < (pairs.depends_on(1) ? p.num_heads : 1); ++h)
      for (int64_t first = 0; first + kQueryTile <= geometry.length_q(b) && looked_at < kPairs;
           first += kQueryTile) {
        std::vector<PairRow> rows;
        for (int64_t i = first; i < first + kQueryTile; ++i) {
          const PairRow row{b, h, i, geometry.keys(b, i),
                            tile_origin(p, i, geometry.length_q(b), geometry.length_kv(b))};
          if (!judged[size_t(geometry.output_row(b, h, i))]) break;
          rows.push_back(row);
        }
        if (int64_t(rows.size()) < kQueryTile) continue;
        find_in_rows(pairs, rows, found);
        looked_at += double(kQueryTile) * double(rows.front().keys.size());
      }
}

}  // namespace attest::core::events
