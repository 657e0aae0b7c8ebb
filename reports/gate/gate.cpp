#include "reports/gate/gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "core/statistics/change.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/compare/launches.hpp"

namespace attest::reports {
namespace {

using core::Change;
using core::Changed;
using core::Record;
using core::Results;
using core::Verdict;
using Records = std::vector<const Record*>;

constexpr int kNoVerdict = 100;  // rank of limits on anything but a verdict

/// What is said of one limit of a case. Empty `what`: it is kept.
struct Answer {
  std::string what, code;
  double excess = 0;
};

Answer undecided_answer(const std::string& what, const std::string& code) {
  return {fmt::format("{} ({})", what, code), code};
}

/// A limit with the rule that sets it.
template <class T>
struct Applied {
  T value{};
  const GateRule* rule = nullptr;
};
struct CaseLimits {
  std::optional<Applied<AllowedVerdict>> verdict;
  std::map<Limit, Applied<double>> numbers;
  bool empty() const { return !verdict && numbers.empty(); }
};

std::string print_limit(Limit limit, double value) {
  return name_of(limit).is_percent ? fmt::format("{:g} %", 100 * value)
                                   : fmt::format("{:g}", value);
}

/// The record that decides the verdict of a case: the first bad one, or the first that does not
/// pass, or the first.
const Record& deciding(const Records& records) {
  for (const Record* record : records)
    if (record->outcome.is_bad()) return *record;
  for (const Record* record : records)
    if (!record->outcome.passes()) return *record;
  return *records.front();
}

/// The largest value of the records; one that is no number counts as infinite.
double largest(const Records& records, double Record::* ratio) {
  double most = 0;
  for (const Record* record : records)
    most = std::max(most, std::isnan(record->*ratio) ? INFINITY : record->*ratio);
  return most;
}

/// A quantity that `compare` judged. `word`: what it is called if it is worse.
Answer of_change(const Changed& changed, const char* word, double allowed) {
  const std::string range =
      fmt::format("x{:.3f} [{:.3f} {:.3f}]", changed.ratio, changed.low, changed.high);
  switch (changed.change) {
    case Change::kWorse:
      return {fmt::format("{} {}", word, range), "", changed.ratio / (1 + allowed)};
    case Change::kInconclusive:  // whether or not it changed, it is not worse than allowed
      if (changed.high <= 1 + allowed && changed.code != "clocks") return {};
      return undecided_answer(fmt::format("may be {} {}", word, range), changed.code);
    case Change::kInvalid:  // it did not pass before; or others are measured by it
      if (changed.code == "not-passed" || changed.code == "is-peer") return {};
      return undecided_answer("cannot be compared", changed.code);
    case Change::kSame:
    case Change::kBetter: return {};
  }
  return {};
}

Answer of_missed(const Records& records, double allowed) {
  Answer answer;
  size_t policies = 0;
  const auto add = [&](const core::PhaseRecord& phase, const char* where) {
    for (const core::PolicyRecord& policy : phase.policies) {
      if (policy.frames <= 0) continue;
      ++policies;
      const double share = double(policy.missed) / double(policy.frames),
                   excess = (1 + share) / (1 + allowed);
      if (share > allowed && excess > answer.excess)
        answer = {fmt::format(
                      "{} of {} frames missed, {:.3g} % ({}, {}{})", policy.missed, policy.frames,
                      100 * share, policy.policy, where,
                      policy.never_ran == 0 ? "" : fmt::format("; {} never ran", policy.never_ran)),
                  "", excess};
    }
  };
  for (const Record* record : records) {
    if (!record->paced) continue;
    add(record->paced->alone, "alone");
    if (record->paced->contended) add(*record->paced->contended, "beside other work");
  }
  return policies > 0 ? answer : undecided_answer("no frame was released", "no-frames");
}

/// Joules of a run by sensor, one value for each record that has them.
std::map<std::string, std::vector<core::Launch>> joules_by_sensor(const Records& records) {
  std::map<std::string, std::vector<core::Launch>> all;
  for (const Record* record : records)
    if (record->energy)
      for (const core::EnergyRecord& one : *record->energy)
        if (one.refusal.empty() && one.run_joules > 0)
          all[one.sensor].push_back(
              {.median = one.run_joules, .low = one.run_joules, .high = one.run_joules});
  return all;
}

Answer of_joules(const Records& records, double allowed) {
  const auto all = joules_by_sensor(records);
  Answer answer;
  for (const auto& [sensor, launches] : all)
    for (const core::Launch& one : launches)
      if (one.median > allowed && one.median / allowed > answer.excess)
        answer = {fmt::format("{:.3g} J a run ({})", one.median, sensor), "", one.median / allowed};
  return all.empty() ? undecided_answer("no sensor measured it", "no-energy") : answer;
}

Answer of_more_joules(const Records& was, const Records& is, double allowed) {
  const auto before = joules_by_sensor(was), after = joules_by_sensor(is);
  Answer answer;
  size_t compared = 0;
  for (const auto& [sensor, launches] : after) {
    const auto at = before.find(sensor);
    if (at == before.end()) continue;
    ++compared;
    const Answer one = of_change(
        core::compare_launches(at->second, launches, false, {.floor = allowed}), "more", allowed);
    if (!one.what.empty() && (answer.what.empty() || one.excess > answer.excess))
      answer = {fmt::format("{} ({})", one.what, sensor), one.code, one.excess};
  }
  return compared > 0 ? answer : undecided_answer("no sensor measured both sides", "no-energy");
}

class Gate {
 public:
  Gate(const std::vector<Results>& before, const std::vector<Results>& after,
       const GateRules& rules, const GateOptions& options)
      : before_files_(before),
        after_files_(after),
        rules_(rules),
        options_(options),
        before_(by_start(before)),
        after_(by_start(after)),
        waives_(rules.waivers.size(), 0),
        matches_(rules.rules.size(), 0) {}

  Gated judge() {
    for (const core::CaseKey& key : keys(after_)) judge(key);
    for (const core::CaseKey& key : keys(before_))
      if (all_records(after_, key).empty() && !limits_of(key).empty())
        result_.missing.push_back(key.name());
    std::ranges::stable_sort(result_.broken, [](const GateFinding& a, const GateFinding& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.excess > b.excess;
    });
    for (size_t i = 0; i < matches_.size(); ++i)
      if (matches_[i] == 0) result_.unmatched.push_back(rules_.rules[i].name);
    result_.unable = unable();
    add_provenance();
    add_waiver_notes();
    std::ranges::copy(comparison({}).notes, std::back_inserter(result_.notes));
    return std::move(result_);
  }

 private:
  /// One comparison with the cases by key.
  struct Judgement {
    Comparison comparison;
    std::map<core::CaseKey, const Compared*> cases;
  };

  static std::vector<core::CaseKey> keys(const Side& side) {
    std::vector<core::CaseKey> all;
    std::set<core::CaseKey> seen;
    for (const Run& run : side)
      for (const Record& record : run.file->records)
        if (seen.insert(question_of(record)).second) all.push_back(question_of(record));
    return all;
  }

  CaseLimits limits_of(const core::CaseKey& key) {
    CaseLimits all;
    for (size_t i = 0; i < rules_.rules.size(); ++i) {
      const GateRule& rule = rules_.rules[i];
      if (!rule.scope(key)) continue;
      ++matches_[i];
      if (rule.verdict) all.verdict = {*rule.verdict, &rule};
      for (const auto& [limit, value] : rule.limits) all.numbers[limit] = {value, &rule};
    }
    return all;
  }

  void judge(const core::CaseKey& key) {
    const CaseLimits limits = limits_of(key);
    if (limits.empty()) return;
    ++result_.cases;
    const Records was = all_records(before_, key), is = all_records(after_, key);
    if (was.empty() && !before_.empty()) result_.added.push_back(key.name());
    const Record& record = deciding(is);
    if (limits.verdict) judge_verdict(key, record, *limits.verdict);
    const bool passes = record.outcome.passes(),
               is_explained = limits.verdict || record.outcome.verdict() == Verdict::kUnsupported;
    for (const auto& [limit, applied] : limits.numbers) {
      if (!passes && is_explained) continue;
      ++result_.limits;
      add(key, name_of(limit).group, record,
          passes ? answer_of(key, was, is, limit, applied.value)
                 : undecided_answer(std::string(name(record.outcome.verdict())), "not-passed"),
          fmt::format("{} allows {}", applied.rule->name, print_limit(limit, applied.value)));
    }
  }

  void judge_verdict(const core::CaseKey& key, const Record& record,
                     const Applied<AllowedVerdict>& allowed) {
    ++result_.limits;
    const core::Outcome& outcome = record.outcome;
    const Compared* compared = compared_of(key, {});
    bool broken = outcome.is_bad();
    if (allowed.value == AllowedVerdict::kPass) broken = !outcome.passes();
    if (allowed.value == AllowedVerdict::kNotWorse && compared)
      broken = compared->verdict == VerdictChange::kRegressed ||
               compared->verdict == VerdictChange::kSkipped;
    if (!broken) return;
    const std::string was =
        compared ? fmt::format(", was {}", name(compared->before)) : std::string();
    add(key, "verdict", record,
        {fmt::format("{}{}: {}", name(outcome.verdict()), was, outcome.reason), "",
         std::isnan(record.max_ratio) ? INFINITY : record.max_ratio},
        fmt::format("{} allows {}", allowed.rule->name, kAllowedVerdicts[int(allowed.value)]),
        int(outcome.verdict()));
  }

  Answer answer_of(const core::CaseKey& key, const Records& was, const Records& is, Limit limit,
                   double value) {
    switch (limit) {
      case Limit::kMaxRatio:
      case Limit::kRmsRatio: return of_ratio(limit, is, value);
      case Limit::kMissed: return of_missed(is, value);
      case Limit::kRunJoules: return of_joules(is, value);
      case Limit::kSlowerThan:
      case Limit::kBiggerThan:
      case Limit::kLargerThan:
      case Limit::kMoreThan: break;
    }
    if (was.empty()) return {};  // the case is new
    if (limit == Limit::kSlowerThan) return of_time(*compared_of(key, {.floor = value}), value);
    const Compared& compared = *compared_of(key, {.band = value});
    if (limit == Limit::kBiggerThan) return of_change(compared.memory, "bigger", value);
    if (limit == Limit::kLargerThan) return of_change(compared.error, "larger", value);
    return of_energy(compared, was, is, value);
  }

  static Answer of_ratio(Limit limit, const Records& is, double allowed) {
    const bool rms = limit == Limit::kRmsRatio;
    const double ratio = largest(is, rms ? &Record::rms_ratio : &Record::max_ratio);
    if (ratio <= allowed) return {};
    return {fmt::format("{} {:.3g} of its gate", rms ? "rms" : "largest", ratio), "",
            ratio / allowed};
  }

  Answer of_time(const Compared& compared, double allowed) {
    if (!nothing_to_tell(compared.time)) ++(is_apart(compared.time) ? times_apart_ : times_judged_);
    if (compared.time.change == Change::kWorse && compared.same_everything) return {};
    return of_change(compared.time, "slower", allowed);
  }

  Answer of_energy(const Compared& compared, const Records& was, const Records& is,
                   double allowed) const {
    if (compared.error.code == "not-passed") return {};
    if (compared.error.code == "other-problem") return of_change(compared.error, "more", allowed);
    const Key key = core::question_of(*is.front());
    if (!of_one_power_mode(before_, after_, key))
      return undecided_answer("cannot be compared", "other-power-mode");
    if (!options_.across_machines && !of_one_machine(before_, after_, key))
      return undecided_answer("cannot be compared", "other-machine");
    return of_more_joules(was, is, allowed);
  }

  /// Null: the baseline has no such case.
  const Compared* compared_of(const core::CaseKey& key, const core::ChangeRule& rule) {
    comparison(rule);
    const auto& cases = judgements_.at({rule.band, rule.floor}).cases;
    const auto at = cases.find(key);
    return at == cases.end() ? nullptr : at->second;
  }

  const Comparison& comparison(const core::ChangeRule& rule) {
    const auto [at, is_new] = judgements_.try_emplace({rule.band, rule.floor});
    Judgement& one = at->second;
    if (!is_new) return one.comparison;
    one.comparison = compare(before_files_, after_files_,
                             {.rule = rule,
                              .relative_to = options_.relative_to,
                              .across_machines = options_.across_machines,
                              .floors = options_.floors});
    for (const Compared& compared : one.comparison.cases)
      one.cases[{.suite = compared.suite,
                 .case_name = compared.case_name,
                 .dtype = compared.dtype,
                 .impl = compared.impl}] = &compared;
    return one.comparison;
  }

  void add(const core::CaseKey& key, const std::string& group, const Record& record,
           const Answer& answer, const std::string& allowed, int rank = kNoVerdict) {
    if (answer.what.empty()) return;
    GateFinding finding{.key = key,
                        .group = group,
                        .what = fmt::format("{}; {}", answer.what, allowed),
                        .code = answer.code,
                        .repro = record.repro,
                        .rank = rank,
                        .excess = answer.excess};
    if (!finding.code.empty()) {
      result_.undecided.push_back(std::move(finding));
      return;
    }
    finding.waiver = waiver_of(finding);
    (finding.waiver.empty() ? result_.broken : result_.waived).push_back(std::move(finding));
  }

  /// All waivers that excuse it count as used.
  std::string waiver_of(const GateFinding& finding) {
    std::string text;
    for (size_t i = 0; i < rules_.waivers.size(); ++i) {
      const GateWaiver& waiver = rules_.waivers[i];
      const bool is_of_group =
          waiver.groups.empty() ||
          std::ranges::find(waiver.groups, finding.group) != waiver.groups.end();
      if (!is_of_group || !waiver.scope(finding.key)) continue;
      ++waives_[i];
      if (!has_expired(waiver))
        text = fmt::format("waived until {}: {}", waiver.expires, waiver.reason);
    }
    return text;
  }

  std::string unable() const {
    if (result_.cases == 0) return "no rule matches a case of the results";
    if (!rules_.needs_baseline().empty() && result_.added.size() == result_.cases)
      return "the baseline has none of these cases";
    if (times_apart_ > 0 && times_judged_ == 0)
      return "no time could be judged: the baseline is of another machine, power mode, kind of "
             "build or number of threads; record one here, or compare with --across-machines "
             "(never "
             "power modes)";
    return {};
  }

  bool has_expired(const GateWaiver& waiver) const { return waiver.expires < options_.today; }

  void add_provenance() {
    std::set<std::string> told;  // a baseline of several launches is one file
    for (const Results& file : before_files_)
      if (const std::string updated = fact(file, "baseline", "updated");
          !updated.empty() && told.insert(file.path).second)
        result_.notes.push_back(fmt::format("{}: baseline of {} from {}", file.path, updated,
                                            fact(file, "baseline", "from")));
  }

  void add_waiver_notes() {
    for (size_t i = 0; i < waives_.size(); ++i) {
      const GateWaiver& waiver = rules_.waivers[i];
      if (has_expired(waiver))
        result_.notes.push_back(
            fmt::format("{} expired on {} and waives nothing; it would waive {} ({})", waiver.name,
                        waiver.expires, waives_[i], waiver.reason));
      else if (waives_[i] == 0)
        result_.notes.push_back(
            fmt::format("{} waives nothing: remove it ({})", waiver.name, waiver.reason));
    }
  }

  const std::vector<Results>&before_files_, &after_files_;
  const GateRules& rules_;
  const GateOptions& options_;
  const Side before_, after_;
  std::map<std::pair<double, std::optional<double>>, Judgement> judgements_;
  std::vector<size_t> waives_, matches_;  // how often each waiver and rule was used
  size_t times_judged_ = 0, times_apart_ = 0;
  Gated result_;
};

}  // namespace

const LimitName& name_of(Limit limit) {
  return *std::ranges::find(kLimits, limit, &LimitName::limit);
}

std::string GateRules::needs_baseline() const {
  for (const GateRule& rule : rules) {
    if (rule.verdict == AllowedVerdict::kNotWorse) return rule.name + ": verdict not_worse";
    for (const auto& [limit, value] : rule.limits)
      if (const LimitName& name = name_of(limit); name.needs_baseline)
        return fmt::format("{}: {}.{}", rule.name, name.group, name.key);
  }
  return {};
}

Gated gate(const std::vector<Results>& before, const std::vector<Results>& after,
           const GateRules& rules, const GateOptions& options) {
  return Gate(before, after, rules, options).judge();
}

bool verdict_broken(const Gated& gated) {
  return std::ranges::any_of(gated.broken,
                             [](const GateFinding& one) { return one.group == "verdict"; });
}

bool undecided(const Gated& gated) {
  return !gated.undecided.empty() || !gated.missing.empty() || !gated.unmatched.empty();
}

}  // namespace attest::reports
