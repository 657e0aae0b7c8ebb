// Which events the inputs of a problem can cause, and why not the others.
#include <fmt/format.h>

#include <algorithm>

#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/operations/softmax_backward/backward.hpp"
#include "core/operations/softmax_backward/events/events.hpp"

namespace attest::core::backward {
namespace {

std::string unless(bool can, const char* why) { return can ? "" : why; }
std::string either(const std::string& one, const std::string& other) {
  return one.empty() ? other : one;
}

/// Whether MASK or BIAS has a number for each query (key).
bool hides_along(const Problem& problem, int axis) {
  return std::ranges::any_of(
      std::initializer_list<int32_t>{ATTEST_MASK, ATTEST_BIAS}, [&](int32_t role) {
        return problem.has(role) && problem.tensor[size_t(role)].dim[axis] > 1;
      });
}

/// Whether the band alone lets some query see just one key.
bool one_key_is_seen(const Problem& problem) {
  const auto& p = problem.as<EventParams>();
  for (int64_t i = 0; i < p.seq_len_q; ++i)
    if (visible_keys(p, i, p.seq_len_q, p.seq_len_kv).size() == 1) return true;
  return false;
}

class EventList {
 public:
  explicit EventList(const Problem& problem)
      : problem_(problem),
        p_(problem.as<EventParams>()),
        forward_(forward_problem(problem)),
        shape_(forward_),
        rows_(p_.batch * p_.num_heads * p_.seq_len_q),
        capped_(unless(p_.softcap == 0, "a softcap bounds the scores")),
        alone_(either(capped_, unless(p_.head_dim > 1 && shape_.most_keys > 1,
                                      "no channel is left for it"))) {}

  std::vector<NumericEvent> made() {
    add_gradients();
    add_hidden();
    add_lse();
    add_nan();
    add_keys_and_tails();
    add_features();
    join(core::events::length_events(forward_));
    join(core::events::structure_events(forward_));
    if (p_.top_k > 0) add_top_k();
    return std::move(events_);
  }

 private:
  void add(const std::string& name, const std::string& why_not = "") {
    events_.push_back({name, why_not});
  }
  void join(std::vector<NumericEvent> more) {
    std::ranges::move(more, std::back_inserter(events_));
  }

  void add_gradients() {
    const std::string several = unless(shape_.most_keys > 1, "no row has two keys");
    add("delta/cancels", unless(shape_.most_keys >= kCancellingRow, "no row has eight keys"));
    add("ds/above_16", either(several, unless(p_.softcap == 0, "a softcap leaves small weights")));
    add("ds/below_f16", several);
    add("do/zero");
    add("row/one_weight", alone_);
    add("row/late", either(unless(shape_.most_keys >= kLateRow, "no row has 32 keys"), capped_));
  }

  void add_hidden() {
    const bool by_query = hides_along(problem_, 2), by_key = hides_along(problem_, 3);
    const std::string own = unless(notes_hidden(problem_),
                                   "lengths and block masks have events of their own"),
                      all_see = either(
                          own, unless(by_query || shape_.rows < rows_, "every query sees a key")),
                      all_seen =
                          either(own, unless(by_key || shape_.unread, "some query sees each key"));
    add("row/nothing", all_see);
    add("key/unseen", all_seen);
    add("hidden_nan/q", all_see);
    add("hidden_nan/do", all_see);
    add("hidden_nan/k", all_seen);
    add("hidden_nan/v", all_seen);
    add("row/one_key", either(own, unless(one_key_is_seen(problem_) || (by_query && by_key),
                                          "every query sees several keys")));
  }

  void add_lse() {
    const std::string lifted =
        either(capped_, unless(!problem_.has(ATTEST_SINKS), "the sink is a part of lse"));
    const bool adds = problem_.has(ATTEST_ALIBI_SLOPES) || problem_.has(ATTEST_REL_BIAS) ||
                      p_.shift_bias != 0,
               has_bias =
                   problem_.has(ATTEST_BIAS) && problem_.tensor[ATTEST_BIAS].dim[2] > 1 && !adds,
               can_be_low =
                   has_bias || (!adds && p_.softcap == 0 && p_.top_k == 0 && !has_f8(problem_));
    add("lse/+88", capped_);
    add("lse/-80", lifted);
    add("lse/-10000",
        either(lifted,
               unless(can_be_low, "coarse scores near -10,000 do not tell what decides here")));
    add("lse/-20000", either(lifted, unless(has_bias, "no bias of queries alone is added")));
  }

  void add_nan() {
    const std::string top_k = unless(p_.top_k == 0, "with top_k a NaN may be swapped into any row");
    add("nan/do", either(top_k, unless(rows_ > 1, "there is one row")));
    add("nan/q", either(top_k, unless(p_.seq_len_q > 1 && rows_ > 2, "there are few rows")));
  }

  void add_keys_and_tails() {
    add("key/one_query",
        either(alone_, unless(p_.seq_len_q > kFirstQueries, "there are at most 16 queries")));
    const bool lengths = has_lengths(problem_);
    for (const int64_t tile : kTails) {
      const auto tail = [&](int64_t length) {
        return length > tile && (lengths || length % tile != 0)
                   ? ""
                   : fmt::format("no tile of {} is short, or it is the only one", tile);
      };
      add(fmt::format("tail/queries/{}", tile), tail(p_.seq_len_q));
      add(fmt::format("tail/keys/{}", tile), tail(p_.seq_len_kv));
    }
  }

  void add_features() {
    for (const char* name : {"softcap/bends", "softcap/flat"})
      add(name, unless(p_.softcap > 0, "there is no softcap"));
    for (const char* name : {"sink/leads", "sink/trails"})
      add(name, unless(problem_.has(ATTEST_SINKS), "there are no sinks"));
    const bool repeats = !has_f8(problem_) && shape_.most_keys >= kEqualRow &&
                         has_closed_form(forward_, {"codebook"});
    const std::string alike =
        unless(repeats, "O of equal keys has no closed form here, or no row has 16 keys");
    add("equal/several", alike);
    add("equal/one_weight", either(alike, capped_));
    add("f8/bands",
        unless(has_f8(problem_) && p_.head_dim_v > 1, "V is not 8 bits of two channels"));
  }

  void add_top_k() {
    add("nan/below_edge",
        unless(p_.top_k < p_.seq_len_kv, "top_k is seq_len_kv: no key is left out"));
    join(core::events::top_k_events(forward_));
  }

  const Problem& problem_;
  const EventParams& p_;
  const Problem forward_;
  const EventShape shape_;
  const int64_t rows_;
  const std::string capped_, alone_;  // why an event of large scores cannot happen
  std::vector<NumericEvent> events_;
};

}  // namespace

std::vector<NumericEvent> events(const Problem& problem) { return EventList(problem).made(); }

}  // namespace attest::core::backward
