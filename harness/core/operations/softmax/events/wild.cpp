// NaN and infinities: those that a judged row sees, which have to come out, and those that nobody
// sees, which must not.
#include <algorithm>
#include <cmath>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/events/pairs.hpp"

namespace attest::core::events {
namespace {

constexpr float kWeightless = -80;          // of a logit under the largest
constexpr int64_t kBiasPairs = 20'000'000;  // that are looked at in a head
constexpr size_t kHiddenKeys = 64;
constexpr int64_t kRowsOfHiddenKey = 1 << 16;

void note(std::span<const float> numbers, const char* tensor, Wild& wild) {
  for (const float x : numbers) {
    if (std::isnan(x)) wild.seen.insert(std::string("nan/") + tensor);
    if (std::isinf(x)) wild.seen.insert(std::string("inf/") + tensor);
  }
}

// The wild places among those of an interval that the row sees.
std::vector<int64_t> seen_of(const Unit& unit, const RowPlace& row,
                             const std::vector<int64_t>& wild, bool all) {
  std::vector<int64_t> seen;
  for (auto j = std::lower_bound(wild.begin(), wild.end(), row.keys.begin);
       j != wild.end() && *j < row.keys.end; ++j)
    if (unit.geometry().visible(unit.b(), row.h, row.i, *j)) {
      seen.push_back(*j);
      if (!all) break;
    }
  return seen;
}

// The tile sizes for which a row has several tiles, and all positions first .. last lie in its
// first one (in its last one).
TileSizes sizes_at_end(const RowPlace& row, int64_t first, int64_t last, bool of_first_tile) {
  TileSizes sizes = 0;
  for (size_t t = 0; t < kEventTiles.size(); ++t) {
    const TileRange tiles = tiles_of(row.keys, row.origin, kEventTiles[t]);
    const int64_t first_end = row.origin + (tiles.first + 1) * kEventTiles[t],
                  last_begin = row.origin + tiles.last * kEventTiles[t];
    if (tiles.count() >= 2 && (of_first_tile ? last < first_end : first >= last_begin))
      sizes |= TileSizes{1} << t;
  }
  return sizes;
}

void note_ends(const RowPlace& row, int64_t first, int64_t last, const std::string& kind,
               const std::string& what, Wild& wild) {
  wild.ends[kind + "/first_tile/" + what] |= sizes_at_end(row, first, last, true);
  wild.ends[kind + "/last_tile/" + what] |= sizes_at_end(row, first, last, false);
}

// Logits that are NaN or +inf.
void note_spoilt_ends(const RowPlace& row, const RowSummary& summary, Wild& wild) {
  if (summary.nan_logit == summary.infinite_logit) return;
  const bool nan = summary.nan_logit;
  note_ends(row, summary.spoilt.begin, summary.spoilt.end - 1, nan ? "nan" : "inf",
            nan ? "score" : "+score", wild);
}

void note_weightless_ends(const Unit& unit, const RowPlace& row, Wild& wild) {
  for (const int64_t j : seen_of(unit, row, unit.wild_keys(), true))
    if (unit.logit(row, j) == kHidden) note_ends(row, j, j, "inf", "-score", wild);
}

// What a row sees in one channel of V that is not finite.
struct WildChannel {
  int64_t first = -1, last = -1;
  bool nan = false, plus = false, minus = false;
  bool weighs = true;

  void add(int64_t j, float value, bool with_weight) {
    if (std::isfinite(value)) return;
    first = first < 0 ? j : first;
    last = j;
    (std::isnan(value) ? nan : value > 0 ? plus : minus) = true;
    weighs &= with_weight;
  }
  bool of_one_kind() const { return int(nan) + int(plus) + int(minus) == 1; }
};

// Returns whether all that the row sees in some channel is finite.
bool note_value_ends(const Unit& unit, const RowPlace& row, const RowSummary& summary, Wild& wild) {
  std::vector<WildChannel> channels(size_t(unit.params().head_dim_v));
  for (const int64_t j : seen_of(unit, row, unit.wild_values(), true)) {
    const bool weighs = unit.logit(row, j) >= summary.top + kWeightless;
    for (size_t c = 0; c < channels.size(); ++c) channels[c].add(j, unit.value(j)[c], weighs);
  }
  for (const WildChannel& channel : channels)
    if (channel.of_one_kind() && channel.weighs)
      note_ends(row, channel.first, channel.last, channel.nan ? "nan" : "inf",
                channel.nan    ? "v"
                : channel.plus ? "+v"
                               : "-v",
                wild);
  return std::ranges::any_of(channels, [](const WildChannel& c) { return c.first < 0; });
}

// Values that reach the output: with next to no weight some honest kernels leave them out.
bool note_values(const Unit& unit, const RowPlace& row, const RowSummary& summary, Wild& wild) {
  const auto width = size_t(unit.params().head_dim_v);
  bool any = false;
  for (const int64_t j : seen_of(unit, row, unit.wild_values(), true)) {
    if (unit.logit(row, j) < summary.top + kWeightless) continue;
    const std::span<const float> value(unit.value(j), width);
    note(value, "v", wild);
    wild.calm_channel |=
        std::any_of(value.begin(), value.end(), [](float x) { return std::isfinite(x); });
    any = true;
  }
  return any;
}

bool note_bias(const Unit& unit, const Tensor& bias, const RowPlace& row, Wild& wild) {
  bool any = false;
  const Geometry& geometry = unit.geometry();
  const int64_t i = geometry.token(row.i);
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    const double value = bias.at({unit.b(), row.h, i, geometry.token(j)});
    // -inf hides, and what MASK hides does not count.
    if ((!std::isnan(value) && value != std::numeric_limits<double>::infinity()) ||
        !geometry.visible(unit.b(), row.h, row.i, j))
      continue;
    const auto number = float(value);
    note({&number, 1}, "bias", wild);
    any = true;
  }
  return any;
}

bool is_wild_row(const Tensor& tensor, Cell cell, int64_t head) {
  const TensorSpec& spec = tensor.spec;
  const int64_t at =
      cell.outer * spec.stride[0] + head * spec.stride[1] + cell.row * spec.stride[2];
  for (int64_t c = 0; c < spec.dim[3]; ++c)
    if (!std::isfinite(load(tensor.data, spec.dtype, at + c * spec.stride[3]))) return true;
  return false;
}

// Whether MASK and BIAS hide a key from every row that has it in its interval; false where there
// are too many rows to say.
bool hidden_from_all(const PairTensors& pairs, const Geometry& geometry,
                     const attest_softmax_params& p, int64_t b, int64_t kv_head, int64_t j) {
  const int64_t group = p.num_heads / p.num_kv_heads, rows = geometry.length_q(b);
  if (pairs.depends_on(2) && rows > kRowsOfHiddenKey) return false;
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
    for (int64_t i = 0; i < rows; ++i) {
      const Interval keys = geometry.keys(b, i);
      if (!keys.contains(j)) continue;
      if (pairs.sees({b, h, i, keys, 0}, j)) return false;
      if (!pairs.depends_on(2)) break;
    }
  return true;
}

}  // namespace

void find_wild(const Unit& unit, const Tensor& bias, const RowSet& rows, Wild& wild) {
  bool wild_key_seen = false, free_row = false;  // free: sees no wild key
  int64_t tried = 0;                             // pairs of BIAS
  for (size_t r = 0; r < rows.places.size(); ++r) {
    const RowPlace& row = rows.places[r];
    const RowSummary& summary = rows.summaries[r];
    if (!summary.wild) {
      if (summary.visible == 0) continue;
      note_weightless_ends(unit, row, wild);
      if (note_values(unit, row, summary, wild) && !note_value_ends(unit, row, summary, wild))
        continue;
      wild.calm_row = true;
      free_row |= seen_of(unit, row, unit.wild_keys(), false).empty();
      continue;
    }
    note_spoilt_ends(row, summary, wild);
    note(unit.query(row.i), "q", wild);
    for (const int64_t j : seen_of(unit, row, unit.wild_keys(), false)) {
      note(unit.key(j), "k", wild);
      wild_key_seen = true;
    }
    if (!bias || is_wild(unit.query(row.i)) || tried >= kBiasPairs) continue;
    note_bias(unit, bias, row, wild);
    tried += row.keys.size();
  }
  if (free_row && wild_key_seen) wild.seen.insert("nan/of_others/k");
}

void find_hidden_wild(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                      Found& found) {
  const auto& p = problem.as<attest_softmax_params>();
  const TensorSpec& k = problem.tensor[ATTEST_K];
  const PairTensors pairs(problem, tensors, geometry);
  std::vector<bool> read(size_t(k.dim[0] * k.dim[2]));
  auto note_cell = [&](Cell cell, int64_t head) {
    if (!found.contains("hidden_nan/k") && is_wild_row(tensors[ATTEST_K], cell, head))
      found.insert("hidden_nan/k");
    if (!found.contains("hidden_nan/v") && is_wild_row(tensors[ATTEST_V], cell, head))
      found.insert("hidden_nan/v");
  };
  for (int64_t b = 0; b < geometry.batch(); ++b) {
    Interval all{geometry.length_kv(b), 0};
    for (int64_t i = 0; i < geometry.length_q(b); ++i)
      if (const Interval keys = geometry.keys(b, i); keys.size() > 0)
        all = {std::min(all.begin, keys.begin), std::max(all.end, keys.end)};
    size_t tried = 0;
    for (int64_t j = all.begin; j < all.end; ++j) {
      const Cell cell = geometry.key(b, j);
      read[size_t(cell.outer * k.dim[2] + cell.row)] = true;
      if (pairs.present().empty()) continue;
      for (int64_t head = 0; head < p.num_kv_heads && tried < kHiddenKeys; ++head)
        if ((is_wild_row(tensors[ATTEST_K], cell, head) ||
             is_wild_row(tensors[ATTEST_V], cell, head)) &&
            ++tried && hidden_from_all(pairs, geometry, p, b, head, j))
          note_cell(cell, head);
    }
  }
  for (int64_t at = 0; at < k.dim[0] * k.dim[2]; ++at)
    for (int64_t head = 0; head < p.num_kv_heads && !read[size_t(at)] &&
                           !(found.contains("hidden_nan/k") && found.contains("hidden_nan/v"));
         ++head)
      note_cell({at / k.dim[2], at % k.dim[2]}, head);
}

}  // namespace attest::core::events
