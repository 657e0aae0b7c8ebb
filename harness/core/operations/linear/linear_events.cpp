#include "core/operations/linear/linear_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

#include "core/operations/linear/feature_map.hpp"
#include "core/operations/linear/rows.hpp"
#include "core/tensor/dtype.hpp"

namespace attest::core {
namespace {

using LinearParams = attest_linear_params;
using Found = std::set<std::string>;

constexpr int64_t kTiles[] = {16, 32, 64, 128, 256}, kLeastTile = 16;
constexpr double kLargestHalf = 65504;  // the largest number of f16
constexpr double kOfLarge = 6;          // a mean product of phi in the fill "large", or less
constexpr int64_t kFewKeys = 48, kCancellingKeys = 8;
constexpr double kCancelled = 1.0 / 3, kShare = 0.05, kNearlyAll = 0.9, kAlmostAll = 0.99;
// What an output moves by shows if it is so many of its roundings (six standard deviations), and so
// much of the sums in float32.
constexpr double kSeenRoundings = 3.5, kSeenSums = 0x1p-18;
constexpr int64_t kHeads = 12, kRows = 12;  // key heads, and rows of a head, that are looked at

// `count` numbers below `all`, evenly spread, the first and the last among them.
std::vector<int64_t> spread(int64_t all, int64_t count) {
  std::vector<int64_t> numbers;
  const int64_t most = std::min(all, count);
  for (int64_t n = 0; n < most; ++n)
    numbers.push_back(most > 1 ? n * (all - 1) / (most - 1) : all - 1);
  return numbers;
}

const char* end_name(int64_t keys, int64_t tile) { return keys % tile == 0 ? "last" : "tail"; }

// The keys of one sequence and key head that count.
struct CountedKeys {
  std::vector<int64_t> at;          // positions
  std::vector<double> phi, values;  // [keys, head_dim], [keys, head_dim_v]

  CountedKeys(const LinearParams& p, const Tensors& tensors, int64_t b, int64_t kv_head) {
    for (int64_t j = 0; j < p.seq_len_kv; ++j)
      if (linear::counts(tensors[ATTEST_MASK], b, 3, j)) at.push_back(j);
    phi.resize(at.size() * size_t(p.head_dim));
    values.resize(at.size() * size_t(p.head_dim_v));
    for (size_t n = 0; n < at.size(); ++n) {
      linear::load_one(tensors[ATTEST_K], b, kv_head, at[n], &phi[n * size_t(p.head_dim)]);
      linear::load_one(tensors[ATTEST_V], b, kv_head, at[n], &values[n * size_t(p.head_dim_v)]);
    }
    for (double& x : phi) x = linear::feature(x);
  }
};

bool has_nan(const std::vector<double>& numbers) {
  return std::ranges::any_of(numbers, [](double x) { return std::isnan(x); });
}

// One row: sums over keys, all of them and by tiles of kLeastTile.
class RowSums {
 public:
  RowSums(const Problem& problem, const CountedKeys& keys, const std::vector<double>& query)
      : p_(problem.as<LinearParams>()),
        output_(problem.tensor[ATTEST_O].dtype),
        keys_(keys),
        width_(size_t(p_.head_dim_v)),
        weights_(keys.at.size()),
        sum_(width_),
        squares_(width_) {
    const auto tiles = size_t((p_.seq_len_kv + kLeastTile - 1) / kLeastTile);
    of_tile_.resize(tiles * width_);
    total_of_tile_.resize(tiles);
    for (size_t n = 0; n < weights_.size(); ++n) add(n, query);
  }

  void note(Found& found) const {
    if (!std::isfinite(total_) || total_ <= 0) return;
    if (double(p_.eps) >= kSeenRoundings * unit_roundoff(output_) * total_)
      found.insert("normaliser/eps");
    if (total_ >= kLargestHalf) found.insert("normaliser/65504");
    const bool bent = bent_ >= kShare * total_, straight = straight_ >= kShare * total_;
    if (bent) found.insert("phi/exp");
    if (straight) found.insert("phi/linear");
    if (bent && straight) found.insert("phi/both");
    if (faint_ >= kNearlyAll * total_) found.insert("phi/faint");
    if (have_few()) found.insert("keys/few");
    if (cancel()) found.insert("cancels");
    for (const int64_t tile : kTiles) note_tiles(tile, found);
  }

 private:
  void add(size_t n, const std::vector<double>& query) {
    const double* phi = &keys_.phi[n * query.size()];
    double weight = 0;
    for (size_t c = 0; c < query.size(); ++c) {
      const double product = query[c] * phi[c];
      weight += product;
      bent_ += phi[c] < kBentBelow ? product : 0;
      straight_ += phi[c] > kStraightAbove ? product : 0;
      faint_ += phi[c] < kFaintBelow ? product : 0;
    }
    weights_[n] = weight;
    total_ += weight;
    const auto tile = size_t(keys_.at[n] / kLeastTile);
    total_of_tile_[tile] += weight;
    for (size_t e = 0; e < width_; ++e) {
      const double term = weight * keys_.values[n * width_ + e];
      sum_[e] += term;
      squares_[e] += term * term;
      of_tile_[tile * width_ + e] += term;
    }
  }

  double normaliser() const { return total_ + double(p_.eps); }

  bool have_few() const {
    if (int64_t(weights_.size()) < kFewKeys) return false;
    std::vector<double> sorted = weights_;
    std::ranges::sort(sorted, std::greater());
    const auto half = sorted.begin() + std::ptrdiff_t(sorted.size() / 2);
    return std::accumulate(sorted.begin(), half, 0.0) >= kAlmostAll * total_;
  }

  bool cancel() const {
    double output = 0, squares = 0;
    for (size_t e = 0; e < width_; ++e) {
      output += sum_[e] * sum_[e];
      squares += squares_[e];
    }
    return int64_t(weights_.size()) >= kCancellingKeys &&
           output < kCancelled * kCancelled * squares;
  }

  // Whether some channel moves without the tiles of kLeastTile keys first .. last - 1.
  bool shows(size_t first, size_t last) const {
    double total = normaliser();
    for (size_t t = first; t < last; ++t) total -= total_of_tile_[t];
    for (size_t e = 0; e < width_; ++e) {
      double sum = sum_[e];
      for (size_t t = first; t < last; ++t) sum -= of_tile_[t * width_ + e];
      const double o = sum_[e] / normaliser(), moved = std::fabs(sum / total - o),
                   hidden = kSeenRoundings *
                                (unit_roundoff(output_) * std::fabs(o) + half_subnormal(output_)) +
                            kSeenSums * std::sqrt(squares_[e]) / normaliser();
      if (moved >= hidden) return true;
    }
    return false;
  }

  void note_tiles(int64_t tile, Found& found) const {
    const auto least = size_t(tile / kLeastTile), all = total_of_tile_.size(),
               count = size_t((p_.seq_len_kv + tile - 1) / tile);
    if (count < 2) return;
    const auto look = [&](size_t t, const char* name) {
      if (shows(t * least, std::min((t + 1) * least, all)))
        found.insert(fmt::format("tile/{}/{}", tile, name));
    };
    look(0, "first");
    look(1, "second");
    look(count - 1, end_name(p_.seq_len_kv, tile));
    if (count > 3) look(count / 2, "middle");
  }

  static inline const double kBentBelow = std::exp(-0.5), kStraightAbove = 1.5,
                             kFaintBelow = std::exp(-4.0);
  const LinearParams& p_;
  const DType output_;
  const CountedKeys& keys_;
  const size_t width_;
  std::vector<double> weights_, sum_, squares_, of_tile_, total_of_tile_;
  double total_ = 0, bent_ = 0, straight_ = 0, faint_ = 0;
};

class LinearCounter {
 public:
  LinearCounter(const Problem& problem, const Tensors& tensors, const std::vector<bool>& judged)
      : problem_(problem), p_(problem.as<LinearParams>()), tensors_(tensors), judged_(judged) {}

  Found count() {
    const int64_t key_heads = p_.batch * p_.num_kv_heads;
    const std::vector<int64_t> closely = spread(key_heads, kHeads);
    for (int64_t n = 0; n < key_heads; ++n)
      look_at(n / p_.num_kv_heads, n % p_.num_kv_heads, std::ranges::count(closely, n) > 0);
    if (wild_keys_ && calm_keys_) found_.insert("nan/k");
    for (int64_t b = 0; b < p_.batch; ++b) note_masks(b);
    return std::move(found_);
  }

 private:
  // `closely`: at the sums of rows too, which takes most of the time.
  void look_at(int64_t b, int64_t kv_head, bool closely) {
    const CountedKeys keys(p_, tensors_, b, kv_head);
    if (keys.at.empty()) return;
    const int64_t group = p_.num_heads / p_.num_kv_heads;
    const bool wild = has_nan(keys.phi);
    (wild ? wild_keys_ : calm_keys_) = true;
    if (!wild) note_values(keys);
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      if (!wild && closely) note_rows(keys, b, h);
      note_queries(b, h);
    }
  }

  void note_rows(const CountedKeys& keys, int64_t b, int64_t h) {
    std::vector<double> query(size_t(p_.head_dim));
    for (const int64_t i : spread(p_.seq_len_q, kRows)) {
      if (!is_judged(b, h, i)) continue;
      linear::load_one(tensors_[ATTEST_Q], b, h, i, query.data());
      for (double& x : query) x = linear::feature(x);
      RowSums(problem_, keys, query).note(found_);
    }
  }

  void note_queries(int64_t b, int64_t h) {
    std::vector<double> query(size_t(p_.head_dim));
    bool wild = false, calm = false;
    for (int64_t i = 0; i < p_.seq_len_q && !(wild && calm); ++i) {
      if (!is_judged(b, h, i)) continue;
      linear::load_one(tensors_[ATTEST_Q], b, h, i, query.data());
      (has_nan(query) ? wild : calm) = true;
    }
    if (wild && calm) found_.insert("nan/q");
  }

  void note_values(const CountedKeys& keys) {
    const auto width = size_t(p_.head_dim_v);
    Found seen;
    bool calm = false;
    for (size_t e = 0; e < width; ++e) {
      std::vector<size_t> wild;
      for (size_t n = 0; n < keys.at.size() && wild.size() < 2; ++n)
        if (std::isnan(keys.values[n * width + e])) wild.push_back(n);
      calm |= wild.empty();
      if (wild.size() != 1) continue;
      seen.insert(wild[0] == 0                    ? "nan/v/first"
                  : wild[0] + 1 == keys.at.size() ? "nan/v/last"
                                                  : "nan/v/middle");
    }
    if (calm) found_.merge(seen);
  }

  void note_masks(int64_t b) {
    std::vector<bool> counts, queries;
    for (int64_t j = 0; j < p_.seq_len_kv; ++j)
      counts.push_back(linear::counts(tensors_[ATTEST_MASK], b, 3, j));
    for (int64_t i = 0; i < p_.seq_len_q; ++i)
      queries.push_back(linear::counts(tensors_[ATTEST_QUERY_MASK], b, 2, i));
    const auto some = [](const std::vector<bool>& which, bool value) {
      return std::ranges::find(which, value) != which.end();
    };
    if (some(queries, true) && some(queries, false)) found_.insert("hidden/query");
    if (!some(counts, true) || !some(counts, false)) return;
    if (!counts.front()) found_.insert("hidden/first");
    if (!counts.back()) found_.insert("hidden/last");
    for (size_t j = 1; j + 1 < counts.size(); ++j)
      if (counts[j - 1] && !counts[j] && counts[j + 1]) found_.insert("hidden/single");
    for (const int64_t tile : kTiles)
      for (int64_t t = 0; t + tile <= p_.seq_len_kv; t += tile)
        if (std::none_of(counts.begin() + t, counts.begin() + t + tile, std::identity()))
          found_.insert(fmt::format("hidden/{}", tile));
  }

  bool is_judged(int64_t b, int64_t h, int64_t i) const {
    return judged_[size_t((b * p_.num_heads + h) * p_.seq_len_q + i)] &&
           linear::counts(tensors_[ATTEST_QUERY_MASK], b, 2, i);
  }

  const Problem& problem_;
  const LinearParams& p_;
  const Tensors& tensors_;
  const std::vector<bool>& judged_;
  Found found_;
  bool wild_keys_ = false, calm_keys_ = false;
};

}  // namespace

std::vector<NumericEvent> linear_events(const Problem& problem) {
  const LinearParams& p = problem.as<LinearParams>();
  const int64_t keys = p.seq_len_kv;
  std::vector<NumericEvent> events;
  const auto add = [&](std::string name, std::string why_not = "") {
    events.push_back({std::move(name), std::move(why_not)});
  };
  const auto fewer_than = [&](int64_t least, const char* what = "keys") {
    return keys < least ? fmt::format("there are fewer than {} {}", least, what) : "";
  };
  for (const int64_t tile : kTiles) {
    const int64_t tiles = (keys + tile - 1) / tile;
    const auto at = [&](const char* name, int64_t least) {
      add(fmt::format("tile/{}/{}", tile, name),
          tiles < least ? fmt::format("there are {} tiles of {}", tiles, tile) : "");
    };
    at("first", 2);
    at("second", 2);
    at("middle", 4);
    at(end_name(keys, tile), 2);
  }
  add("normaliser/eps");
  add("normaliser/65504",
      kOfLarge * double(keys * p.head_dim) < kLargestHalf
          ? "too few products of phi are in the sum, also in the fill with large ones"
          : "");
  for (const char* name : {"phi/exp", "phi/linear", "phi/both", "phi/faint"}) add(name);
  add("keys/few", fewer_than(kFewKeys));
  add("cancels", fewer_than(kCancellingKeys));
  const std::string masked =
      problem.has(ATTEST_QUERY_MASK) ? "0 times NaN, or a row that is left out" : "";
  add("nan/q", !masked.empty() ? masked : p.seq_len_q < 2 ? "there is one query" : "");
  add("nan/k", !masked.empty()                ? masked
               : p.batch * p.num_kv_heads < 2 ? "one key head: all outputs would be NaN"
                                              : "");
  for (const auto& [name, channels, least] :
       {std::tuple("nan/v/middle", 2, 3), {"nan/v/last", 3, 2}, {"nan/v/first", 4, 2}})
    add(name, !masked.empty()           ? masked
              : p.head_dim_v < channels ? "too few channels"
                                        : fewer_than(least));
  const std::string unmasked = problem.has(ATTEST_MASK) ? "" : "there is no mask of keys";
  const auto add_hidden = [&](const std::string& name, int64_t least) {
    add("hidden/" + name, unmasked.empty() ? fewer_than(least) : unmasked);
  };
  add_hidden("first", 2);
  add_hidden("last", 2);
  add_hidden("single", 3);
  for (const int64_t tile : kTiles) add_hidden(std::to_string(tile), 2 * tile);
  add("hidden/query", !problem.has(ATTEST_QUERY_MASK) ? "there is no mask of queries"
                      : p.seq_len_q < 2               ? "there is one query"
                                                      : "");
  return events;
}

std::set<std::string> count_linear_events(const Problem& problem, const Tensors& inputs,
                                          const std::vector<bool>& judged) {
  return LinearCounter(problem, inputs, judged).count();
}

}  // namespace attest::core
