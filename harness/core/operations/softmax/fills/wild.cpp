// The fill "wild": random inputs among which a few that rows see are NaN or infinite, and have to
// come out as such.
//
// One NaN of K makes every row NaN that sees it, so it stands where others do not: in a key head or
// a sequence of its own, or where a band hides it from some rows. NaN and infinities of V spoil
// single channels, those of Q and BIAS single rows.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/operations/softmax/fills/wild_elements.hpp"
#include "core/operations/softmax/fills/wild_ends.hpp"
#include "core/operations/softmax/fills/wild_few.hpp"
#include "core/operations/softmax/golden/known_inputs.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/constants.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kTrailingSink = 128;  // below the least score
constexpr uint64_t kWildStream = 70;   // so that no number is that of "random"

class WildValues {
 public:
  WildValues(const Problem& problem, const Tensors& tensors)
      : problem_(problem),
        p_(problem.as<attest_softmax_params>()),
        tensors_(tensors),
        geometry_(problem, tensors) {
    for (int64_t b = 1; b < geometry_.batch(); ++b)
      if (pairs(b) > pairs(longest_)) longest_ = b;
  }

  void write(int64_t round) {
    if (has_few_wild_rows(problem_))
      return write_wild_few(problem_, tensors_, geometry_, longest_, round);
    if (geometry_.length_kv(longest_) == 0) return;
    const Interval seen = keys_of_rows(longest_);
    const int64_t third = seen.begin + seen.size() / 3, half = seen.begin + seen.size() / 2,
                  fifth = seen.begin + seen.size() / 5, last = p_.num_kv_heads - 1;
    keep_from_zero();
    write_key(ATTEST_V, longest_, last, third, 0, kNan);
    if (weights_stay()) {
      write_key(ATTEST_V, longest_, last, half, 1, kInfinity);
      write_key(ATTEST_V, longest_, last, half, 2, -kInfinity);
      write_key(ATTEST_V, longest_, last, seen.begin + seen.size() * 2 / 3, 3, kInfinity);
      write_key(ATTEST_V, longest_, last, third, 3, -kInfinity);
    }
    const Interval heads{p_.num_heads - p_.num_heads / p_.num_kv_heads, p_.num_heads};
    const int64_t infinite = place_of_key(longest_, last, fifth, /*alone=*/true);
    if (p_.softcap == 0 && infinite >= 0 &&
        others_stay_finite(geometry_, longest_, heads, infinite, {})) {
      write_key(ATTEST_K, longest_, last, fifth, 0, kInfinity);
      hide_from_first_row(fifth);
    }
    if (const std::optional<Key> key = spoilt_key()) {
      if (p_.softcap > 0 && !end_rows(problem_, geometry_, key->b).empty())
        write_nan_keys_at_ends(problem_, tensors_, geometry_, longest_);
      else
        write_key(ATTEST_K, key->b, 0, key->place, 0, kNan);
    }
    const auto [nan_query, nan_bias, infinite_bias, infinite_query] =
        marked_places(geometry_.length_q(longest_));
    write_query(nan_query, kNan);
    // Beyond a softcap an infinite score is the cap, unless a kernel takes -inf for hidden before
    // that.
    if (p_.softcap == 0) write_query(infinite_query, infinity_with_largest_score(infinite_query));
    write_bias(nan_bias, kNan);
    write_bias(infinite_bias, kInfinity);
    write_bias_of_keys();
    write_wild_ends(problem_, tensors_, geometry_, longest_, taken_);
  }

 private:
  int64_t pairs(int64_t b) const { return geometry_.length_q(b) * geometry_.length_kv(b); }

  // An infinite key or query is multiplied by these: infinity times 0 would be NaN.
  void keep_from_zero() const {
    const int64_t group = p_.num_heads / p_.num_kv_heads;
    for (int64_t h = p_.num_heads - group; h < p_.num_heads; ++h)
      for (int64_t i = 0; i < geometry_.length_q(longest_); ++i)
        keep_from_zero({tensors_[ATTEST_Q], geometry_.query(longest_, i), h, 0});
    for (int64_t j = 0; j < geometry_.length_kv(longest_); ++j)
      keep_from_zero({tensors_[ATTEST_K], geometry_.key(longest_, j), p_.num_kv_heads - 1, 0});
  }
  static void keep_from_zero(const WildElement& element) {
    const double value = element.read();
    if (std::fabs(value) < kLeast) element.write(std::copysign(kLeast, value));
  }

  // Whether every key has a weight that float32 holds. One of 1e-44 is 0 to an honest kernel, and 0
  // times infinity is NaN.
  bool weights_stay() const { return p_.shift_bias == 0 && !tensors_[ATTEST_ALIBI_SLOPES]; }

  // From the first to the last key that rows have in their intervals, which leave no gap: behind a
  // long cache, the left end of a band may hide most keys from all rows. All keys if rows have
  // none.
  Interval keys_of_rows(int64_t b) const {
    Interval all{geometry_.length_kv(b), 0};
    for (int64_t i = 0; i < geometry_.length_q(b); ++i)
      if (const Interval keys = geometry_.keys(b, i); keys.size() > 0)
        all = {std::min(all.begin, keys.begin), std::max(all.end, keys.end)};
    return all.size() > 0 ? all : Interval{0, geometry_.length_kv(b)};
  }

  struct Key {
    int64_t b, place;
  };
  // Three quarters on the way through what the rows of sequence b see.
  Key key_of_most(int64_t b) const {
    const Interval all = keys_of_rows(b);
    return {b, all.begin + all.size() * 3 / 4};
  }

  // A key that may be NaN in key head 0, because others are left to see what is not: other heads,
  // other rows, other sequences. If there are none, it lies behind the keys of the first row, so
  // that the last quarter of the rows sees it.
  std::optional<Key> spoilt_key() const {
    const Key key = key_of_most(longest_);
    const int64_t rows = geometry_.length_q(longest_);
    const bool some_do_not = rows > 0 && !(geometry_.keys(longest_, 0).contains(key.place) &&
                                           geometry_.keys(longest_, rows - 1).contains(key.place));
    const bool hides = tensors_[ATTEST_BLOCK_MASK].spec.dim[2] > 1 || p_.global_tokens > 0;
    if (p_.num_kv_heads > 1 || some_do_not || hides) return key;
    for (int64_t b = 0; b < geometry_.batch(); ++b)
      if (b != longest_ && geometry_.length_kv(b) > 0 && geometry_.length_q(b) > 0)
        return key_of_most(b);
    if (rows == 0) return std::nullopt;
    const Interval behind{geometry_.keys(longest_, 0).end, keys_of_rows(longest_).end};
    if (behind.size() == 0) return std::nullopt;
    return Key{longest_, behind.begin + behind.size() * 3 / 4};
  }

  // A row that has the key in its interval: the middle one, the last one, or the first of all. The
  // last one if none has it.
  int64_t row_with(int64_t b, int64_t place) const {
    const int64_t rows = geometry_.length_q(b), last = std::max<int64_t>(rows - 1, 0);
    for (const int64_t row : {rows / 2, last})
      if (geometry_.keys(b, row).contains(place)) return row;
    for (int64_t row = 0; row < last; ++row)
      if (geometry_.keys(b, row).contains(place)) return row;
    return last;
  }

  // That place, or the next one that masks leave visible; -1 if there is none that it may be. An
  // infinite key weighs nothing in some rows, and to an honest kernel 0 times infinity is NaN: it
  // shares no place with another element.
  int64_t place_of_key(int64_t b, int64_t head, int64_t place, bool alone) const {
    const int64_t row = row_with(b, place);
    const int64_t query_head = head * (p_.num_heads / p_.num_kv_heads);
    const Interval seen = geometry_.keys(b, row);
    int64_t j = place;
    while (seen.contains(j) &&
           ((alone && taken_.contains(j)) || !geometry_.visible(b, query_head, row, j)))
      ++j;
    if (!seen.contains(j)) j = place;
    return alone && taken_.contains(j) ? -1 : j;
  }
  void write_key(int32_t role, int64_t b, int64_t head, int64_t place, int64_t channel,
                 double value) {
    const int64_t j = place_of_key(b, head, place, role == ATTEST_K && std::isinf(value));
    if (j < 0) return;
    WildElement(tensors_[size_t(role)], geometry_.key(b, j), head, channel).write(value);
    taken_.insert(j);
  }
  void write_query(int64_t place, double value) const {
    if (place < geometry_.length_q(longest_))
      WildElement(tensors_[ATTEST_Q], geometry_.query(longest_, place), p_.num_heads - 1, 0)
          .write(value);
  }
  // The infinite query of which some key has the score +inf.
  double infinity_with_largest_score(int64_t place) const {
    return core::infinity_with_largest_score(problem_, tensors_, geometry_, longest_,
                                             p_.num_heads - 1, place);
  }
  // So that some row of the head that is judged is left out, BIAS hides from it what is near the
  // infinite key. Masks hide enough.
  void hide_from_first_row(int64_t place) const {
    const Tensor& bias = tensors_[ATTEST_BIAS];
    const Interval seen = geometry_.keys(longest_, 0);
    if (!bias || bias.spec.dim[2] == 1 || bias.spec.dim[3] == 1) return;
    for (int64_t j = place; j < place + kMostSearched && seen.contains(j); ++j)
      store_bias(0, j, kHidden);
  }

  // In a bias of keys, those that only the last rows see: other rows are left as they are.
  void write_bias_of_keys() const {
    const Tensor& bias = tensors_[ATTEST_BIAS];
    if (!bias || bias.spec.dim[2] > 1 || bias.spec.dim[3] == 1) return;
    const int64_t rows = geometry_.length_q(longest_);
    if (rows == 0) return;
    const Interval first = geometry_.keys(longest_, 0), end = geometry_.keys(longest_, rows - 1);
    if (end.size() < 2 || first.contains(end.end - 1)) return;
    store_bias(0, end.end - 1, kNan);
    // Of a row that does not see the NaN
    const int64_t before = end.begin > 0 ? end.begin - 1 : end.end - 2;
    if (!first.contains(before)) store_bias(0, before, kInfinity);
  }
  void store_bias(int64_t i, int64_t j, double value) const {
    const Tensor& bias = tensors_[ATTEST_BIAS];
    store(bias.data, bias.spec.dtype,
          longest_ * bias.spec.stride[0] + (p_.num_heads - 1) * bias.spec.stride[1] +
              geometry_.token(i) * bias.spec.stride[2] + geometry_.token(j) * bias.spec.stride[3],
          value);
  }

  // Of pairs alone: in a bias of keys it would be every row's.
  void write_bias(int64_t place, double value) const {
    const Tensor& bias = tensors_[ATTEST_BIAS];
    if (!bias || bias.spec.dim[2] == 1 || place >= geometry_.length_q(longest_)) return;
    const Interval seen = geometry_.keys(longest_, place);
    if (seen.size() == 0) return;
    store_bias(place, seen.begin + seen.size() / 2, value);
    // An infinite key weighs nothing there: with it the row would be NaN whatever its bias.
    write_query(place, p_.softmax_scale < 0 ? 1 : -1);
  }

  const Problem& problem_;
  const attest_softmax_params& p_;
  const Tensors& tensors_;
  const Geometry geometry_;
  int64_t longest_ = 0;      // the sequence of most pairs
  std::set<int64_t> taken_;  // positions of keys that are written to
};

}  // namespace

double infinity_with_largest_score(const Problem& problem, const Tensors& tensors,
                                   const Geometry& geometry, int64_t b, int64_t head, int64_t row) {
  if (row >= geometry.length_q(b)) return kInfinity;
  const auto& p = problem.as<attest_softmax_params>();
  const int64_t kv_head = head * p.num_kv_heads / p.num_heads;
  const Interval keys = geometry.keys(b, row);
  int64_t seen = 0;
  double first = 1;  // what the query is multiplied by
  for (int64_t j = keys.begin; j < keys.end && seen <= kMostSearched; ++j) {
    if (!geometry.visible(b, head, row, j)) continue;
    if (seen++ > 0) continue;
    const WildElement key(tensors[ATTEST_K], geometry.key(b, j), kv_head, 0);
    first = key.read() * double(p.softmax_scale);
  }
  return seen > kMostSearched ? kInfinity : std::copysign(kInfinity, first);
}

bool others_stay_finite(const Geometry& geometry, int64_t b, Interval heads, int64_t key,
                        const std::set<int64_t>& infinite) {
  const auto sees_another = [&](int64_t h, int64_t i, Interval seen) {
    for (int64_t j = seen.begin; j < seen.end; ++j)
      if (j != key && !infinite.contains(j) && geometry.visible(b, h, i, j)) return true;
    return false;
  };
  for (int64_t i = 0; i < geometry.length_q(b); ++i) {
    const Interval seen = geometry.keys(b, i);
    if (!seen.contains(key) || seen.size() > kMostSearched) continue;
    for (int64_t h = heads.begin; h < heads.end; ++h)
      if (geometry.visible(b, h, i, key) && !sees_another(h, i, seen)) return false;
  }
  return true;
}

void fill_wild(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own) {
  fill_random(problem, {fill.name, random_bits(fill.seed, kWildStream)}, tensors, only_own);
  // Beside a softcap no other fill has sinks that are next to nothing.
  const auto softcap = double(problem.as<attest_softmax_params>().softcap);
  if (tensors[ATTEST_SINKS] && softcap > 0)
    lift_sinks(tensors[ATTEST_SINKS], -softcap - kTrailingSink, 1);
  WildValues(problem, tensors).write(wild_round_of(fill.name));
}

std::unique_ptr<Golden> wild_golden(const Problem& problem, const Tensors& tensors) {
  constexpr RowBudget kFew{.all = 5e8, .sampled = 1e9, .rows_a_head = 32};
  const WantedPlaces ends = [&problem, geometry = Geometry(problem, tensors)](int64_t b, int64_t) {
    return end_rows(problem, geometry, b);
  };
  return golden_of(problem, tensors, {.budget = kFew, .wanted = ends});
}

}  // namespace attest::core
