#include "core/statistics/steps.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/statistics/statistics.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kFence = 3;            // interquartile ranges beyond the quartiles
constexpr double kTied = 1e-9;          // relative difference of two statistics that rounding makes
constexpr double kLeastError = 1e-300;  // whose logarithm is finite
constexpr uint64_t kStream = 31;        // apart from other uses of a seed

double median_of(std::span<const double> values) { return summarise(values).median; }

/// Values that are mostly equal have no room between the fences: they stay, unless `is_level` says
/// that the others are spikes of one level.
std::vector<double> within_fences(std::span<const double> values, bool is_level = false) {
  const Summary s = summarise(values);
  const double room = kFence * (s.q3 - s.q1);
  std::vector<double> clamped(values.begin(), values.end());
  if (room > 0 || is_level)
    for (double& value : clamped) value = std::clamp(value, s.q1 - room, s.q3 + room);
  return clamped;
}

struct Split {
  size_t at = 0;
  double energy = 0;  // 0: there is none
};

/// The scaled energy distance between the values [0, at) and [at, end), from the sums of distances
/// within each and within both.
double energy(size_t at, size_t end, double first, double second, double both) {
  const double m = double(at), n = double(end - at);
  return 2 / (m + n) * (both - first - second) - 2 * n / ((m + n) * (m - 1)) * first -
         2 * m / ((m + n) * (n - 1)) * second;
}

/// Finds where the energy distance between [0, at) and [at, end) is largest. It tries every end, so
/// that a later step does not hide an earlier one.
Split best_split(std::span<const double> values, size_t least) {
  const size_t count = values.size();
  std::vector<double> to_here(count + 1);  // sum of distances within [0, i)
  std::vector<double> from(count);         // sum of distances within [i, end)
  Split best;
  for (size_t end = 1; end <= count; ++end) {
    double sum = 0;  // of the distances of the newest value
    for (size_t i = end - 1; i-- > 0;) {
      sum += std::abs(values[i] - values[end - 1]);
      from[i] += sum;
    }
    to_here[end] = from[0];
    for (size_t at = least; at + least <= end; ++at)
      if (const double now = energy(at, end, to_here[at], from[at], from[0]); now > best.energy)
        best = {at, now};
  }
  return best;
}

void shuffle(std::vector<double>& values, uint64_t seed, uint64_t& next) {
  for (size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[random_below(seed, next++, i)]);
}

/// Finds steps by dividing, then joins levels that differ too little.
class Divider {
 public:
  Divider(std::span<const double> values, const StepRule& rule) : values_(values), rule_(rule) {}

  std::vector<Step> steps() {
    divide(0, values_.size());
    std::ranges::sort(places_, {}, &Tested::at);
    while (drop_smallest()) {
    }
    return described();
  }

 private:
  struct Tested {
    size_t at = 0;
    double p = 1;
  };

  /// The values from `from` to `to` without spikes: within the fences of this part alone, since
  /// those of the whole series may hide its levels.
  std::vector<double> part(size_t from, size_t to) const {
    return within_fences(values_.subspan(from, to - from));
  }

  /// The best split of a part and its p-value. The test stops as soon as it cannot pass any more.
  Tested test(size_t from, size_t to) const {
    if (to - from < 2 * rule_.least_segment) return {};
    std::vector<double> shuffled = part(from, to);
    const Split split = best_split(shuffled, rule_.least_segment);
    if (split.energy <= 0) return {};
    const uint64_t seed = random_bits(rule_.seed + kStream, from * values_.size() + to);
    uint64_t next = 0;
    size_t as_large = 0;
    for (size_t i = 0; i < rule_.permutations; ++i) {
      shuffle(shuffled, seed, next);
      const Split chance = best_split(shuffled, rule_.least_segment);
      as_large += chance.energy >= split.energy * (1 - kTied);
      if (p_value(as_large) > rule_.significance) return {from + split.at, p_value(as_large)};
    }
    return {from + split.at, p_value(as_large)};
  }

  double p_value(size_t as_large) const {
    return double(1 + as_large) / double(1 + rule_.permutations);
  }

  void divide(size_t from, size_t to) {
    const Tested split = test(from, to);
    if (split.p > rule_.significance) return;
    places_.push_back(split);
    divide(from, split.at);
    divide(split.at, to);
  }

  size_t before(size_t place) const { return place == 0 ? 0 : places_[place - 1].at; }
  size_t after(size_t place) const {
    return place + 1 == places_.size() ? values_.size() : places_[place + 1].at;
  }

  double level_of(size_t from, size_t to) const {
    return median_of(values_.subspan(from, to - from));
  }

  double change_at(size_t place) const {
    const double was = level_of(before(place), places_[place].at),
                 is = level_of(places_[place].at, after(place));
    return was == 0 ? std::abs(is - was) : std::abs((is - was) / was);
  }

  /// Joins the two levels that differ least, if that is within the band. Returns whether it did.
  bool drop_smallest() {
    size_t smallest = 0;
    for (size_t i = 1; i < places_.size(); ++i)
      if (change_at(i) < change_at(smallest)) smallest = i;
    if (places_.empty() || change_at(smallest) > rule_.band) return false;
    places_.erase(places_.begin() + std::ptrdiff_t(smallest));
    return true;
  }

  struct Line {
    double begin = 0, end = 0;  // at the first value and at the last
    double error = 0;           // the sum of squares
  };

  /// The line that fits the values from the step `first` to the step `last`, if it does so better
  /// than their levels, by the Bayesian information criterion: a line has two parameters, each step
  /// two more than a level.
  std::optional<Line> drift(const std::vector<Step>& steps, size_t first, size_t last) const {
    std::vector<double> values;  // of all levels, each without its spikes
    double levels = 0;
    const auto add_level = [&](size_t from, size_t to) {
      const std::vector<double> level = within_fences(values_.subspan(from, to - from), true);
      levels += level_error(level);
      values.insert(values.end(), level.begin(), level.end());
    };
    add_level(steps[first].from, steps[first].at);
    for (size_t i = first; i <= last; ++i) add_level(steps[i].at, steps[i].to);
    const auto count = double(values.size());
    const auto criterion = [&](double error, double parameters) {
      return count * std::log(std::max(error, kLeastError)) + parameters * std::log(count);
    };
    const Line line = line_of(values);
    if (criterion(line.error, 2) >= criterion(levels, 1 + 2 * double(last - first + 1))) return {};
    return line;
  }

  static double level_error(std::span<const double> values) {
    const double mean = std::reduce(values.begin(), values.end()) / double(values.size());
    double error = 0;
    for (const double value : values) error += (value - mean) * (value - mean);
    return error;
  }

  static Line line_of(std::span<const double> values) {
    const double middle = double(values.size() - 1) / 2;
    double product = 0, square = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      product += (double(i) - middle) * values[i];
      square += (double(i) - middle) * (double(i) - middle);
    }
    const double slope = product / square,
                 mean = std::reduce(values.begin(), values.end()) / double(values.size());
    return {mean - slope * middle, mean + slope * middle, level_error(values) - slope * product};
  }

  std::vector<Step> each() const {
    std::vector<Step> steps;
    for (size_t i = 0; i < places_.size(); ++i)
      steps.push_back({.from = before(i),
                       .at = places_[i].at,
                       .to = after(i),
                       .before = level_of(before(i), places_[i].at),
                       .after = level_of(places_[i].at, after(i)),
                       .p = places_[i].p,
                       .uncertain = is_uncertain(places_[i].at, before(i), after(i))});
    return steps;
  }

  bool is_uncertain(size_t at, size_t from, size_t to) const {
    return (from == 0 && at < 2 * rule_.least_segment) ||
           (to == values_.size() && to - at < 2 * rule_.least_segment);
  }

  /// The steps that were found. Those that follow each other in one direction are one drift, if
  /// that describes them better.
  std::vector<Step> described() const {
    const std::vector<Step> all = each();
    std::vector<Step> steps;
    for (size_t first = 0, last = 0; first < all.size(); first = ++last) {
      while (last + 1 < all.size() && rises(all[last + 1]) == rises(all[first])) ++last;
      if (const std::optional<Line> line = drift(all, first, last)) {
        steps.push_back(all[first]);
        steps.back().to = all[last].to;
        steps.back().before = line->begin;
        steps.back().after = line->end;
        steps.back().drift = true;
        for (size_t i = first; i <= last; ++i) steps.back().uncertain &= all[i].uncertain;
      } else {
        steps.insert(steps.end(), all.begin() + std::ptrdiff_t(first),
                     all.begin() + std::ptrdiff_t(last) + 1);
      }
    }
    return steps;
  }

  static bool rises(const Step& step) { return step.after > step.before; }

  std::span<const double> values_;
  StepRule rule_;
  std::vector<Tested> places_;
};

/// Whether some order of so many values is rare enough to be significant: of all ways to choose the
/// values of one side, only one or two divide them as well.
bool is_long_enough(size_t count, const StepRule& rule) {
  double ways = 1;
  for (size_t i = 0; i < count / 2; ++i) ways = ways * double(count - i) / double(i + 1);
  return 2 / ways <= rule.significance;
}

}  // namespace

size_t least_values(const StepRule& rule) {
  size_t count = 2 * rule.least_segment;
  while (!is_long_enough(count, rule)) ++count;
  return count;
}

Steps find_steps(std::span<const double> values, const StepRule& rule) {
  Steps found{.unseen = rule.least_segment - 1, .long_enough = values.size() >= least_values(rule)};
  if (found.long_enough) found.steps = Divider(values, rule).steps();
  return found;
}

}  // namespace attest::core
