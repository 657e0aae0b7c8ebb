#include "core/operations/softmax/fills/wild_ends.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "core/operations/softmax/closed_form/tiles.hpp"
#include "core/operations/softmax/fills/wild_elements.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"

namespace attest::core {
namespace {

constexpr size_t kEndRows = 12;
constexpr int64_t kFirstScoreChannel = 1, kScoreChannels = 5, kFirstValueChannel = 4;

enum class End { kFirst, kLast };

// The number of tile sizes of which a row sees at least two tiles. `begin`: of the first tile.
size_t sizes_of_two_tiles(Interval keys, int64_t begin) {
  if (keys.size() == 0) return 0;
  return size_t(std::ranges::count_if(
      kTileSizes, [&](int64_t size) { return end_tiles(keys, begin, size).differ(); }));
}

// The keys of a row's interval that are in its first or last tile of the smallest size.
Interval end_tile(const attest_softmax_params& p, const Geometry& geometry, int64_t b, int64_t row,
                  End end) {
  const int64_t begin = first_tile_begin(p, row, geometry.length_q(b), geometry.length_kv(b));
  const EndTiles tiles = end_tiles(geometry.keys(b, row), begin, kLeastTile);
  return end == End::kFirst ? tiles.first : tiles.last;
}

class WildEnds {
 public:
  WildEnds(const Problem& problem, const Tensors& tensors, const Geometry& geometry, int64_t b,
           std::set<int64_t> taken)
      : p_(problem.as<attest_softmax_params>()),
        tensors_(tensors),
        geometry_(geometry),
        b_(b),
        group_(p_.num_heads / p_.num_kv_heads),
        taken_(std::move(taken)) {
    for (const int64_t row : end_rows(problem, geometry, b))
      if (sees_both_ends(row) && !is_spoilt(row)) rows_.push_back(row);
  }

  void write() {
    if (rows_.empty()) return;
    const auto row = [&](size_t n) {
      return n < rows_.size() ? std::optional(rows_[n]) : std::nullopt;
    };
    // Beyond a softcap an infinite score is one like any other.
    const bool capped = p_.softcap > 0;
    if (!capped) {
      write_score(row(0), End::kFirst, 0);
      write_score(row(2), End::kLast, 0);
    }
    // Values come now, because the other scores may take the last key of a short tile.
    write_values(End::kFirst, 0);
    write_values(End::kLast, 1);
    if (capped) return;
    write_score(row(3), End::kFirst, 1);
    write_score(row(4), End::kLast, 1);
    // All other rows that see it may have it before their last tile, as causal ones have.
    write_score(row(5), End::kLast, -1);
  }

 private:
  int64_t last_head() const { return p_.num_heads - 1; }
  // Values have a head of their own where one is left, which no NaN of K spoils.
  int64_t value_head() const {
    const bool free = p_.num_kv_heads > 2 && p_.softcap == 0 && !tensors_[ATTEST_ALIBI_SLOPES];
    return free ? 1 : p_.num_kv_heads - 1;
  }

  Interval tile_at(int64_t row, End end) const { return end_tile(p_, geometry_, b_, row, end); }

  bool sees_both_ends(int64_t row) const {
    const auto sees_some = [&](End end) {
      const Interval tile = tile_at(row, end);
      for (int64_t j = tile.begin; j < tile.end; ++j)
        if (geometry_.visible(b_, last_head(), row, j)) return true;
      return false;
    };
    return sees_some(End::kFirst) && sees_some(End::kLast);
  }

  // Whether the row is NaN already, of which BIAS or a key of its head is the cause.
  bool is_spoilt(int64_t row) const {
    const Tensor& bias = tensors_[ATTEST_BIAS];
    const Interval keys = geometry_.keys(b_, row);
    const int64_t i = geometry_.token(row);
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const double added = bias ? bias.at({b_, last_head(), i, geometry_.token(j)}) : 0;
      const WildElement key(tensors_[ATTEST_K], geometry_.key(b_, j), p_.num_kv_heads - 1, 0);
      if (std::isnan(added) || added == kInfinity || std::isnan(key.read())) return true;
    }
    return false;
  }

  // The score of a key at that end of the row's interval becomes NaN (sign 0), +inf or -inf.
  void write_score(std::optional<int64_t> row, End end, double sign) {
    if (!row) return;
    const std::optional<int64_t> key = key_of_score(*row, end);
    if (!key) return;
    const auto [at, is_new] =
        channels_.try_emplace(*key, kFirstScoreChannel + int64_t(channels_.size()));
    if (is_new) write_key(*key, at->second);
    write_query(*row, at->second, sign);
    write_query(*row, 0, -1);  // an infinite key of the middle weighs nothing
  }

  // A key of the tile that is infinite for another row already, else the last one that the row sees
  // and that has no NaN or infinity.
  std::optional<int64_t> key_of_score(int64_t row, End end) const {
    const Interval tile = tile_at(row, end);
    std::optional<int64_t> key;
    for (int64_t j = tile.end - 1; j >= tile.begin; --j) {
      if (taken_.contains(j) || !geometry_.visible(b_, last_head(), row, j)) continue;
      if (channels_.contains(j)) return j;
      if (!key && others_stay_finite(geometry_, b_, {p_.num_heads - group_, p_.num_heads}, j,
                                     infinite_keys()))
        key = j;
    }
    const int64_t most = std::min(kScoreChannels, p_.head_dim - kFirstScoreChannel);
    return int64_t(channels_.size()) < most ? key : std::nullopt;
  }

  std::set<int64_t> infinite_keys() const {
    std::set<int64_t> keys = taken_;
    for (const auto& [key, channel] : channels_) keys.insert(key);
    return keys;
  }

  void write_key(int64_t j, int64_t channel) const {
    const double negative = p_.softmax_scale < 0 ? 1 : -1;
    for (int64_t h = p_.num_heads - group_; h < p_.num_heads; ++h)
      for (int64_t i = 0; i < geometry_.length_q(b_); ++i) {
        const WildElement q(tensors_[ATTEST_Q], geometry_.query(b_, i), h, channel);
        q.write(negative * std::max(std::fabs(q.read()), kLeast));
      }
    WildElement(tensors_[ATTEST_K], geometry_.key(b_, j), p_.num_kv_heads - 1, channel)
        .write(kInfinity);
  }
  void write_query(int64_t row, int64_t channel, double sign) const {
    WildElement(tensors_[ATTEST_Q], geometry_.query(b_, row), last_head(), channel)
        .write(p_.softmax_scale < 0 ? -sign : sign);
  }

  // A row that sees a key of V in that tile which nothing else is written to, and that key. Rows
  // whose scores are NaN or +inf come last: there nothing of V shows.
  std::optional<std::pair<int64_t, int64_t>> row_and_key_of_values(End end) const {
    std::vector<int64_t> rows;
    // A late row: of causal ones, only the last see the end of the sequence.
    if (end == End::kLast && rows_.size() > 6) rows.push_back(rows_[6]);
    for (size_t n = 0; n < rows_.size(); ++n)
      if (n == 1 || n > 4) rows.push_back(rows_[n]);
    rows.insert(rows.end(), rows_.begin(), rows_.end());
    const int64_t head = value_head();
    const bool own_head = head != p_.num_kv_heads - 1;
    for (const int64_t row : rows) {
      const Interval tile = tile_at(row, end);
      for (int64_t j = tile.begin; j < tile.end; ++j)
        if ((own_head || !(taken_.contains(j) || channels_.contains(j))) &&
            geometry_.visible(b_, head * group_, row, j))
          return std::pair(row, j);
    }
    return std::nullopt;
  }

  // NaN and both infinities, each in every other channel.
  void write_values(End end, int64_t parity) {
    const auto at = row_and_key_of_values(end);
    if (!at) return;
    if (value_head() == p_.num_kv_heads - 1) taken_.insert(at->second);
    write_query(at->first, 0, -1);
    // A weight of 0 times infinity is NaN.
    const bool weights_stay = p_.shift_bias == 0 && !tensors_[ATTEST_ALIBI_SLOPES];
    int64_t channel = kFirstValueChannel + parity;
    for (const double value : {kNan, kInfinity, -kInfinity}) {
      if (std::isnan(value) || weights_stay)
        WildElement(tensors_[ATTEST_V], geometry_.key(b_, at->second), value_head(), channel)
            .write(value);
      channel += 2;
    }
  }

  const attest_softmax_params& p_;
  const Tensors& tensors_;
  const Geometry& geometry_;
  const int64_t b_, group_;
  std::set<int64_t> taken_;  // positions of keys with a NaN or an infinity
  std::vector<int64_t> rows_;
  std::map<int64_t, int64_t> channels_;  // of the keys that have an infinity
};

class NanKeys {
 public:
  NanKeys(const Problem& problem, const Tensors& tensors, const Geometry& geometry, int64_t longest)
      : problem_(problem),
        p_(problem.as<attest_softmax_params>()),
        k_(tensors[ATTEST_K]),
        geometry_(geometry),
        heads_(key_heads(longest)) {}

  void write() const {
    const std::optional<Place> last = place(heads_.front(), End::kLast),
                               first = place(heads_.back(), End::kFirst);
    if (last) write(*last);
    if (!first) return;
    // Two in one key head must not meet in the rows that they are for.
    const bool apart =
        heads_.size() > 1 || (last && !sees(*last, first->key) && !sees(*first, last->key));
    if (apart) write(*first);
  }

 private:
  struct KeyHead {
    int64_t b, kv_head;
  };
  struct Place {
    KeyHead head;
    int64_t row, key;
  };

  // Up to two key heads that may be NaN; one in which other rows are not, if there is no such one.
  std::vector<KeyHead> key_heads(int64_t longest) const {
    std::vector<KeyHead> heads;
    for (int64_t n = 0; n < geometry_.batch(); ++n) {
      const int64_t b = n == 0 ? longest : n <= longest ? n - 1 : n;
      if (geometry_.length_q(b) == 0 || geometry_.length_kv(b) == 0) continue;
      for (int64_t h = 0; h < p_.num_kv_heads && heads.size() < 2; ++h)
        if (b != longest || h < p_.num_kv_heads - 1) heads.push_back({b, h});
    }
    if (heads.empty()) heads.push_back({longest, p_.num_kv_heads - 1});
    return heads;
  }

  // The last key of the last row of all that see both ends, or the first key of the first row.
  std::optional<Place> place(KeyHead head, End end) const {
    const std::vector<int64_t> rows = end_rows(problem_, geometry_, head.b);
    if (rows.empty()) return std::nullopt;
    const bool first = end == End::kFirst;
    const int64_t row = first ? std::ranges::min(rows) : std::ranges::max(rows);
    const Interval tile = end_tile(p_, geometry_, head.b, row, end);
    for (int64_t n = 0; n < tile.size(); ++n) {
      const int64_t key = first ? tile.begin + n : tile.end - 1 - n;
      if (geometry_.visible(head.b, query_head(head), row, key)) return Place{head, row, key};
    }
    return std::nullopt;
  }

  int64_t query_head(KeyHead head) const { return head.kv_head * (p_.num_heads / p_.num_kv_heads); }
  bool sees(const Place& place, int64_t key) const {
    return geometry_.keys(place.head.b, place.row).contains(key) &&
           geometry_.visible(place.head.b, query_head(place.head), place.row, key);
  }
  void write(const Place& at) const {
    WildElement(k_, geometry_.key(at.head.b, at.key), at.head.kv_head, 0).write(kNan);
  }

  const Problem& problem_;
  const attest_softmax_params& p_;
  const Tensor& k_;
  const Geometry& geometry_;
  const std::vector<KeyHead> heads_;
};

}  // namespace

std::vector<int64_t> end_rows(const Problem& problem, const Geometry& geometry, int64_t b) {
  const auto& p = problem.as<attest_softmax_params>();
  const int64_t length_q = geometry.length_q(b), length_kv = geometry.length_kv(b);
  const std::array<int64_t, 4> marked = marked_places(length_q);
  std::array<std::vector<int64_t>, std::size(kTileSizes) + 1> rows;  // by sizes_of_two_tiles
  for (int64_t i = 0; i < length_q; ++i)
    if (std::ranges::find(marked, i) == marked.end())
      rows[sizes_of_two_tiles(geometry.keys(b, i), first_tile_begin(p, i, length_q, length_kv))]
          .push_back(i);
  std::vector<int64_t> chosen;
  for (size_t sizes = std::size(kTileSizes); sizes > 0; --sizes)
    for (size_t n = 0; n < rows[sizes].size() && chosen.size() < kEndRows; ++n)
      // From both sides in turn
      chosen.push_back(n % 2 == 0 ? rows[sizes][rows[sizes].size() - 1 - n / 2]
                                  : rows[sizes][n / 2]);
  return chosen;
}

void write_wild_ends(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                     int64_t b, std::set<int64_t> taken) {
  WildEnds(problem, tensors, geometry, b, std::move(taken)).write();
}

void write_nan_keys_at_ends(const Problem& problem, const Tensors& tensors,
                            const Geometry& geometry, int64_t b) {
  NanKeys(problem, tensors, geometry, b).write();
}

}  // namespace attest::core
