#include "cli/comparison/ab.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/record/case_key.hpp"
#include "core/tensor/random.hpp"
#include "reports/compare/launches.hpp"

namespace attest::cli {
namespace {

using core::Change;
using reports::Compared;
using reports::Comparison;

// Of a look before the last round.
constexpr double kCertainCoverage = 0.999;
constexpr double kCertainErrorShare = 0.1;

std::string name_of(const Compared& one) {
  return core::CaseKey{one.suite, one.case_name, one.dtype, one.impl, "", 0}.name();
}

// The same line with the implementation `impl`.
std::string with_impl(const std::string& line, const std::string& impl) {
  return line.substr(0, line.rfind(' ') + 1) + impl;
}

bool is_slower(const Compared& one) {
  return one.time.change == Change::kWorse && !one.same_everything;
}

/// Fisher-Yates, with numbers that depend on seed and round alone.
void shuffle(std::vector<std::string>& lines, uint64_t seed, size_t round) {
  const uint64_t stream = core::random_bits(seed, round);
  for (size_t i = lines.size(); i > 1; --i)
    std::swap(lines[i - 1], lines[core::random_below(stream, i, i)]);
}

/// Runs rounds until the verdict of each case is certain.
class Rounds {
 public:
  Rounds(const AbOptions& options, const AbLauncher& launch, const AbObserver& observe,
         AbOutcome& outcome)
      : options_(options), launch_(launch), observe_(observe), outcome_(outcome) {
    options_.compare.in_turns = true;
    most_rounds_ = options.rounds > 0 ? options.rounds
                                      : default_rounds(options.cases.size(), options.compare.rule);
  }

  void run(std::vector<std::string> lines, bool confirms) {
    lines_ = std::move(lines);
    add_peers(lines_);
    for (size_t round = 1; round <= most_rounds_ && !lines_.empty(); ++round) {
      if (!run_round(round, confirms)) break;
      if (round == 1) count_compared();
      if (round < most_rounds_) leave_out_certain_cases(round);
      observe_(last_, {lines_.size(), compared_, most_rounds_});
    }
  }

  Comparison compare() const { return reports::compare(before_, after_, options_.compare); }
  std::vector<core::Results> before_, after_;
  size_t stopped_early() const { return stopped_early_; }
  size_t most_rounds() const { return most_rounds_; }

 private:
  /// A plan names cases. How many implementations can be compared on each, the first round tells.
  void count_compared() {
    for (const Compared& one : compare().cases) compared_ += one.time.change != Change::kInvalid;
    if (options_.rounds == 0)
      most_rounds_ = std::max(most_rounds_, default_rounds(compared_, options_.compare.rule));
  }

  /// Returns false if the round was interrupted. Its launches then do not count.
  bool run_round(size_t round, bool confirms) {
    last_ = {.round = round, .most_rounds = most_rounds_, .confirms = confirms};
    last_.records = lines_;
    shuffle(last_.records, options_.seed, outcome_.launches);
    const bool before_first = round % 2 == 1;
    std::optional<core::Results> both[2];
    for (const AbSide side : {before_first ? AbSide::kBefore : AbSide::kAfter,
                              before_first ? AbSide::kAfter : AbSide::kBefore}) {
      last_.side = side;
      last_.number = ++outcome_.launches;
      both[int(side)] = launch_(last_);
      if (!both[int(side)]) {
        outcome_.interrupted = true;
        return false;
      }
    }
    before_.push_back(std::move(*both[0]));
    after_.push_back(std::move(*both[1]));
    return true;
  }

  /// Does nothing in a round after which no verdict can be certain, except in the first one.
  void leave_out_certain_cases(size_t round) {
    core::ChangeRule rule = options_.compare.rule;
    rule.coverage = kCertainCoverage;
    rule.family_error *= kCertainErrorShare;
    if (round > 1 && (options_.self_check || round < rounds_for(compared_, rule, core::kFastShare)))
      return;
    const Comparison now = compare();
    const std::set<std::string> certain = certain_cases(rule);
    std::vector<std::string> left;
    for (const Compared& one : now.cases) {
      const std::string name = name_of(one);
      if (one.time.change == Change::kInvalid || done_.contains(name)) continue;
      if (certain.contains(name)) {
        done_.insert(name);
        ++stopped_early_;
        continue;
      }
      left.push_back(name);
    }
    add_peers(left);
    lines_ = std::move(left);
  }

  std::set<std::string> certain_cases(const core::ChangeRule& rule) const {
    reports::CompareOptions strict = options_.compare;
    strict.rule = rule;
    std::set<std::string> certain;
    if (before_.size() < rounds_for(compared_, rule, core::kFastShare)) return certain;
    for (const Compared& one : reports::compare(before_, after_, strict).cases)
      if (one.time.paired && one.time.change != Change::kInconclusive) certain.insert(name_of(one));
    return certain;
  }

  /// Adds the implementation that relative_to names to each case.
  void add_peers(std::vector<std::string>& lines) const {
    const std::string& peer_name = options_.compare.relative_to;
    if (peer_name.empty() || peer_name == reports::kRooflinePeer) return;
    std::set<std::string> all(lines.begin(), lines.end());
    for (const std::string& line : std::vector(lines)) {
      const std::string peer = with_impl(line, peer_name);
      if (all.insert(peer).second) lines.push_back(peer);
    }
  }

  AbOptions options_;
  const AbLauncher& launch_;
  const AbObserver& observe_;
  AbOutcome& outcome_;
  AbLaunch last_;
  std::vector<std::string> lines_;  // of the next round
  std::set<std::string> done_;
  size_t most_rounds_ = 0;
  size_t compared_ = 0;  // times that both sides have
  size_t stopped_early_ = 0;
};

/// The second measurement asks about one direction of one case: an interval of 90 % has 5 % of
/// error on that side. Both measurements are wrong together less often than the first alone.
constexpr double kConfirmingCoverage = 0.9;

/// Measures slower cases a second time. A case that is not slower then becomes inconclusive.
void confirm(AbOptions options, const AbLauncher& launch, const AbObserver& observe,
             AbOutcome& outcome) {
  std::vector<std::string> lines;
  for (const Compared& one : outcome.comparison.cases)
    if (is_slower(one)) lines.push_back(name_of(one));
  outcome.slower = lines.size();
  if (lines.empty()) return;
  options.compare.rule.coverage = std::min(options.compare.rule.coverage, kConfirmingCoverage);
  options.compare.rule.family_error = 1;  // the first measurement has corrected for the number
  Rounds again(options, launch, observe, outcome);
  if (!outcome.interrupted) again.run(lines, true);
  std::set<std::string> confirmed;
  if (!outcome.interrupted)
    for (const Compared& one : again.compare().cases)
      if (is_slower(one)) confirmed.insert(name_of(one));
  for (Compared& one : outcome.comparison.cases) {
    if (!is_slower(one) || confirmed.contains(name_of(one))) continue;
    one.time.change = Change::kInconclusive;
    one.time.code = "not-confirmed";
    ++outcome.not_confirmed;
  }
}

}  // namespace

size_t rounds_for(size_t compared, const core::ChangeRule& rule, double share) {
  // A sign test of n rounds has a p-value of 2^-n at least; an interval, a coverage of 1 - 2^(1-n)
  // at most.
  const double times = double(std::max<size_t>(compared, 1)),
               by_family = std::log2(times / (share * rule.family_error)),
               by_coverage = 1 - std::log2(share * (1 - rule.coverage));
  return std::max(core::kLeastLaunches, size_t(std::ceil(std::max(by_family, by_coverage))));
}

size_t default_rounds(size_t compared, const core::ChangeRule& rule) {
  return rounds_for(compared, rule, core::kMedianShare);
}

AbOutcome run_ab(const AbOptions& options, const AbLauncher& launch, const AbObserver& observe) {
  AbOutcome outcome;
  std::vector<std::string> lines;
  for (const std::string& one : options.cases) lines.push_back(one + " *");
  Rounds rounds(options, launch, observe, outcome);
  rounds.run(std::move(lines), false);
  outcome.comparison = rounds.compare();
  outcome.stopped_early = rounds.stopped_early();
  outcome.rounds = rounds.most_rounds();
  if (!options.self_check) confirm(options, launch, observe, outcome);
  outcome.before = std::move(rounds.before_);
  outcome.after = std::move(rounds.after_);
  return outcome;
}

}  // namespace attest::cli
