#include "core/statistics/deadline.hpp"

#include <algorithm>
#include <cmath>

#include "core/statistics/statistics.hpp"

namespace attest::core {
namespace {

// The first number in [low, high) for which `holds`, which goes from false to true; high: none.
template <class Holds>
int64_t first_that(int64_t low, int64_t high, const Holds& holds) {
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (holds(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// The most late frames among n that still support the claim; -1: even none does not.
int64_t most_late(int64_t n, double share, double confidence) {
  return first_that(
             0, n + 1,
             [&](int64_t late) { return binomial_at_most(n, 1 - share, late) > 1 - confidence; }) -
         1;
}

// The number of samples that are at most the percentile is binomial. So sorted[low] is above the
// percentile with the probability of at most `low` such samples.
void add_interval(Percentile& percentile, std::span<const double> sorted, double confidence) {
  const auto n = int64_t(sorted.size());
  const double tail = (1 - confidence) / 2;
  const auto at_most = [&](int64_t k) { return binomial_at_most(n, percentile.share, k); };
  const int64_t above = first_that(0, n, [&](int64_t k) { return at_most(k) > tail; });
  const int64_t low = std::max<int64_t>(above - 1, 0);
  const int64_t high =
      std::min(first_that(0, n, [&](int64_t k) { return at_most(k) >= 1 - tail; }), n - 1);
  percentile.low = sorted[size_t(low)];
  percentile.high = sorted[size_t(high)];
  percentile.coverage = at_most(high) - at_most(low);
}

}  // namespace

double binomial_at_most(int64_t n, double p, int64_t k) {
  if (k < 0) return 0;
  if (k >= n) return 1;
  const double log_odds = std::log(p) - std::log1p(-p);
  double log_term = double(n) * std::log1p(-p), sum = std::exp(log_term);
  for (int64_t i = 1; i <= k; ++i) {
    log_term += log_odds + std::log(double(n - i + 1) / double(i));
    sum += std::exp(log_term);
  }
  return std::min(sum, 1.0);
}

int64_t frames_needed(double share, int64_t late, double confidence) {
  const auto enough = [&](int64_t n) {
    return binomial_at_most(n, 1 - share, late) <= 1 - confidence;
  };
  int64_t bound = late + 1;
  while (!enough(bound)) bound *= 2;
  return first_that(late + 1, bound, enough);
}

Percentile percentile(std::span<const double> sorted, double share, double confidence,
                      double open_from) {
  Percentile result{.share = share, .value = quantile(sorted, share)};
  add_interval(result, sorted, confidence);
  const auto n = int64_t(sorted.size());
  if (const int64_t late = most_late(n, share, confidence); late >= 0)
    if (const double claimed = sorted[size_t(n - 1 - late)]; claimed < open_from)
      result.claimed = claimed;
  result.needed = frames_needed(share, 0, confidence);
  result.value_at_least = sorted[size_t(std::ceil(share * double(n - 1)))] >= open_from;
  result.high_at_least = result.high >= open_from;
  return result;
}

int64_t PlayedFrames::missed(double deadline) const {
  return dropped + int64_t(waited.size()) +
         std::ranges::count_if(latency, [&](double one) { return one > deadline; });
}

std::vector<FrameWork> frame_works(std::span<const double> starts, std::span<const double> ends,
                                   double period) {
  std::vector<FrameWork> works;
  double free = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const double ready = std::max(double(i) * period, free);
    works.push_back({.time = ends[i] - starts[i], .delay = std::max(0.0, starts[i] - ready)});
    free = ends[i];
  }
  return works;
}

PlayedFrames queue_all(std::span<const FrameWork> works, double period) {
  PlayedFrames played;
  double free = 0, arrival = 0;
  for (const FrameWork& work : works) {
    const double start = std::max(arrival, free) + work.delay;
    free = start + work.time;
    played.age.push_back(start - arrival);
    played.latency.push_back(free - arrival);
    arrival += period;
  }
  return played;
}

PlayedFrames latest_only(std::span<const FrameWork> works, double period) {
  PlayedFrames played;
  double free = 0;
  int64_t next = 0;  // the oldest frame that was neither worked on nor dropped
  for (const FrameWork& work : works) {
    const auto newest = int64_t(std::floor(free / period));  // that has arrived
    if (newest > next) {
      played.dropped += newest - next;
      next = newest;
    }
    const double arrival = double(next) * period, start = std::max(arrival, free) + work.delay;
    free = start + work.time;
    played.age.push_back(start - arrival);
    played.latency.push_back(free - arrival);
    ++next;
  }
  return played;
}

}  // namespace attest::core
