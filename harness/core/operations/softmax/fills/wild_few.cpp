#include "core/operations/softmax/fills/wild_few.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/operations/softmax/fills/wild_elements.hpp"
#include "core/operations/softmax/softmax.hpp"

namespace attest::core {
namespace {

constexpr std::string_view kWildFill = "wild";
constexpr int64_t kFewWildQueries = 8, kTile = 16;
// Of K: the infinite keys in the first and in the last tile have one channel each, whose sign in
// the query says what the score is (wild_ends.hpp).
constexpr int64_t kFirstChannel = 1, kLastChannel = 2, kFewValueChannel = 4;

// What a head has. Its queries are `first` and `last` times their usual size in those channels.
struct Item {
  double first, last, query;
};
constexpr Item kItems[] = {{0, -1, 1}, {-1, 0, 1},     {1, -1, 1},
                           {-1, 1, 1}, {-1, -1, kNan}, {-1, -1, kInfinity}};
constexpr auto kItemCount = int64_t(std::size(kItems));

// Key head 0 has a NaN in K in the first round, if there are others.
int64_t spoilt_heads(const attest_softmax_params& p, int64_t round) {
  return round == 0 && p.num_kv_heads > 1 ? p.num_heads / p.num_kv_heads : 0;
}
// The number of items that earlier rounds have.
int64_t items_before(const attest_softmax_params& p, int64_t round) {
  int64_t count = 0;
  for (int64_t r = 0; r < round; ++r) count += p.num_heads - 1 - spoilt_heads(p, r);
  return count;
}

class FewWild {
 public:
  FewWild(const Problem& problem, const Tensors& tensors, const Geometry& geometry, int64_t b)
      : problem_(problem),
        p_(problem.as<attest_softmax_params>()),
        tensors_(tensors),
        geometry_(geometry),
        b_(b),
        group_(p_.num_heads / p_.num_kv_heads) {}

  void write(int64_t round) const {
    const int64_t spoilt = spoilt_heads(p_, round);
    if (spoilt > 0)
      if (const std::optional<int64_t> key = seen(0, keys().size() / 2))
        WildElement(tensors_[ATTEST_K], geometry_.key(b_, *key), 0, 0).write(kNan);
    for (int64_t kv_head = spoilt > 0 ? 1 : 0; kv_head < p_.num_kv_heads; ++kv_head)
      write_keys(kv_head);
    int64_t item = items_before(p_, round);
    for (int64_t h = spoilt; h < p_.num_heads; ++h)
      write_queries(h,
                    h < p_.num_heads - 1 && item < kItemCount ? kItems[item++] : Item{-1, -1, 1});
    write_values(0, 1);
    write_values(keys().size() - 1, -1);
  }

 private:
  int64_t last_row() const { return geometry_.length_q(b_) - 1; }
  Interval keys() const { return geometry_.keys(b_, last_row()); }

  // The nth key of the last row's interval, or the next one on that side which the head sees.
  std::optional<int64_t> seen(int64_t head, int64_t n) const {
    const int64_t step = 2 * n < keys().size() ? 1 : -1;
    for (int64_t j = keys().begin + n; keys().contains(j); j += step)
      if (geometry_.visible(b_, head, last_row(), j)) return j;
    return std::nullopt;
  }

  void write_keys(int64_t kv_head) const {
    const std::optional<int64_t> first = seen(kv_head * group_, 0),
                                 last = seen(kv_head * group_, keys().size() - 1);
    if (!first || !last || *last - *first < kMostSearched) return;
    write_key(kv_head, *first, kFirstChannel);
    write_key(kv_head, *last, kLastChannel);
  }
  void write_key(int64_t kv_head, int64_t j, int64_t channel) const {
    WildElement(tensors_[ATTEST_K], geometry_.key(b_, j), kv_head, channel).write(kInfinity);
  }

  void write_queries(int64_t h, const Item& item) const {
    for (int64_t i = 0; i < geometry_.length_q(b_); ++i) {
      const auto scale = [&](int64_t channel, double sign) {
        const WildElement q(tensors_[ATTEST_Q], geometry_.query(b_, i), h, channel);
        q.write((p_.softmax_scale < 0 ? -sign : sign) * std::max(std::fabs(q.read()), kLeast));
      };
      scale(kFirstChannel, item.first);
      scale(kLastChannel, item.last);
      const double wild = std::isinf(item.query)
                              ? infinity_with_largest_score(problem_, tensors_, geometry_, b_, h, i)
                              : item.query;
      if (!std::isfinite(wild))
        WildElement(tensors_[ATTEST_Q], geometry_.query(b_, i), h, 0).write(wild);
    }
  }

  // NaN and both infinities, each in a channel of its own, at the key next to the infinite one.
  void write_values(int64_t n, int64_t step) const {
    const int64_t head = p_.num_heads - 1;
    const std::optional<int64_t> end = seen(head, n),
                                 key = end ? seen(head, *end + step - keys().begin) : end;
    if (!key) return;
    // A weight of 0 times infinity is NaN.
    const bool weights_stay = p_.shift_bias == 0 && !tensors_[ATTEST_ALIBI_SLOPES];
    int64_t channel = kFewValueChannel + (step < 0 ? 1 : 0);
    for (const double value : {kNan, kInfinity, -kInfinity}) {
      if (std::isnan(value) || weights_stay)
        WildElement(tensors_[ATTEST_V], geometry_.key(b_, *key), p_.num_kv_heads - 1, channel)
            .write(value);
      channel += 2;
    }
  }

  const Problem& problem_;
  const attest_softmax_params& p_;
  const Tensors& tensors_;
  const Geometry& geometry_;
  const int64_t b_, group_;
};

}  // namespace

int64_t wild_round_of(std::string_view fill) {
  if (fill == kWildFill) return 0;
  if (!fill.starts_with(kWildFill) || fill.size() != kWildFill.size() + 2 ||
      fill[kWildFill.size()] != '_')
    return -1;
  const int64_t round = fill.back() - '1';
  return round >= 1 && round <= kItemCount ? round : -1;
}

bool has_few_wild_rows(const Problem& problem) {
  const auto& p = problem.as<attest_softmax_params>();
  return p.seq_len_q <= kFewWildQueries && p.num_heads > 1 && p.softcap == 0 &&
         !problem.has(ATTEST_BIAS) && p.head_dim > kLastChannel &&
         std::ranges::max(sequence_lengths(problem, true)) > kTile;
}

int64_t wild_rounds(const Problem& problem) {
  if (!has_few_wild_rows(problem)) return 1;
  const auto& p = problem.as<attest_softmax_params>();
  int64_t rounds = 1;
  while (items_before(p, rounds) < kItemCount) ++rounds;
  return rounds;
}

void write_wild_few(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                    int64_t b, int64_t round) {
  if (geometry.length_q(b) > 0 && geometry.keys(b, geometry.length_q(b) - 1).size() > 0)
    FewWild(problem, tensors, geometry, b).write(round);
}

}  // namespace attest::core
