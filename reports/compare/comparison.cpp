#include "reports/compare/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/statistics/statistics.hpp"
#include "reports/compare/launches.hpp"
#include "reports/compare/memory.hpp"

namespace attest::reports {
namespace {

using core::Change;
using core::Changed;
using core::Record;
using core::Results;
using core::Verdict;
using Records = std::vector<const Record*>;

constexpr double kErrorShare = 1e-3;  // of a gate: smaller growth of an error is none

Changed invalid(const std::string& code) {
  return Changed{.change = Change::kInvalid, .code = code};
}

Verdict worst(const Records& records) {
  for (const Record* record : records)
    if (record->outcome.is_bad()) return record->outcome.verdict();
  for (const Record* record : records)
    if (!record->outcome.passes()) return record->outcome.verdict();
  return Verdict::kPass;
}

VerdictChange verdict_change(Verdict before, Verdict after) {
  if (core::is_bad(after))
    return core::is_bad(before) ? VerdictChange::kSame : VerdictChange::kRegressed;
  if (core::is_bad(before)) return VerdictChange::kFixed;
  if (before != Verdict::kPass || after == Verdict::kPass) return VerdictChange::kSame;
  return after == Verdict::kUnsupported ? VerdictChange::kRegressed : VerdictChange::kSkipped;
}

bool has_bad_times(const Records& records) {
  return std::ranges::any_of(records,
                             [](const Record* record) { return bad_sample(*record).has_value(); });
}

double middle(const std::vector<core::Launch>& launches) {
  std::vector<double> medians;
  for (const core::Launch& one : launches) medians.push_back(one.median);
  return core::summarise(medians).median;
}

// A device's golden may judge more rows of the same inputs, of which the largest error is larger.
std::string inputs_of(const core::FillRecord& fill) {
  return fmt::format("{} {} {}", fill.fill, fill.inputs_hash, fill.judgement.exact_elements);
}

/// The fills that both judged, on inputs that are the same bit for bit, in as many elements.
std::set<std::string> common_inputs(const Record& was, const Record& is) {
  std::set<std::string> both, seen;
  for (const core::FillRecord& fill : was.fills) seen.insert(inputs_of(fill));
  for (const core::FillRecord& fill : is.fills)
    if (seen.contains(inputs_of(fill)) && fill.judgement.exact_elements > 0)
      both.insert(inputs_of(fill));
  return both;
}

Changed compare_errors(const Records& was, const Records& is, double band) {
  if (was.front()->arithmetic != is.front()->arithmetic) return invalid("other-arithmetic");
  const std::set<std::string> both = common_inputs(*was.front(), *is.front());
  if (both.empty()) return invalid("other-inputs");
  const auto errors = [&](const Records& records, double core::Judgement::* ratio) {
    std::vector<double> all;
    for (const Record* record : records) {
      all.push_back(0);
      for (const core::FillRecord& fill : record->fills)
        if (both.contains(inputs_of(fill)))
          all.back() = std::max(all.back(), fill.judgement.*ratio);
    }
    return all;
  };
  const auto changed = [&](double core::Judgement::* ratio) {
    return core::compare_exact(errors(was, ratio), errors(is, ratio), band, kErrorShare);
  };
  const Changed largest = changed(&core::Judgement::max_ratio),
                mean = changed(&core::Judgement::rms_ratio);
  return mean.change == Change::kWorse && largest.change != Change::kWorse ? mean : largest;
}

class Comparer {
 public:
  Comparer(const std::vector<Results>& before, const std::vector<Results>& after,
           const CompareOptions& options)
      : options_(options),
        before_(side(before)),
        after_(side(after)),
        took_turns_(options.in_turns || took_turns(before_, after_)) {}

  Comparison compare() {
    for (const Key& key : keys(before_)) {
      if (!all_records(after_, key).empty())
        result_.cases.push_back(compare(key));
      else
        result_.only_before.push_back(key.name());
    }
    for (const Key& key : keys(after_))
      if (all_records(before_, key).empty()) result_.only_after.push_back(key.name());
    for (Changed Compared::* quantity : {&Compared::time, &Compared::memory}) {
      std::vector<Changed*> family;
      for (Compared& one : result_.cases) family.push_back(&(one.*quantity));
      core::account_for_family(family, options_.rule);
    }
    for (Compared& one : result_.cases)
      if (one.memory.code == "many-cases") {  // as without pairs
        one.memory.change = Change::kSame;
        one.memory.code = "exact";
      }
    add_notes();
    return std::move(result_);
  }

 private:
  Side side(const std::vector<Results>& files) const {
    return options_.in_turns ? Side(files.begin(), files.end()) : by_start(files);
  }

  /// In the order in which they come.
  static std::vector<Key> keys(const Side& side) {
    std::vector<Key> all;
    std::set<Key> seen;
    for (const Run& run : side)
      for (const Record& record : run.file->records)
        if (seen.insert(core::question_of(record)).second) all.push_back(core::question_of(record));
    return all;
  }

  // Why times are not of the same circumstances; empty: they are.
  std::string apart(const Key& key, const Record& was, const Record& is) const {
    if (!of_one_power_mode(before_, after_, key)) return "other-power-mode";
    if (options_.across_machines) return {};
    if (was.device != is.device) return "other-machine";
    if (was.threads != is.threads && was.device == "cpu") return "other-threads";
    if (!of_one_machine(before_, after_, key)) return "other-machine";
    for (const Run& b : before_)
      for (const Run& a : after_)
        if (build(*b.file) != build(*a.file)) return "other-build";
    return {};
  }

  /// The values of one fact of all files; "" where it was not recorded.
  std::set<std::string> facts_of_all(const char* group, const char* name) const {
    std::set<std::string> values;
    for (const Side* side : {&before_, &after_})
      for (const Run& run : *side) values.insert(fact(*run.file, group, name));
    return values;
  }
  static bool is_one(const std::set<std::string>& hashes) {
    return hashes.size() == 1 && !hashes.begin()->empty();
  }

  /// Whether nothing but the machine can be the cause of another time. What was not recorded is not
  /// the same.
  bool same_everything(const Records& was, const Records& is) const {
    std::set<std::string> plugins, libraries;
    for (const Records* records : {&was, &is})
      for (const Record* record : *records) {
        plugins.insert(record->plugin_hash);
        libraries.insert(record->libraries_hash.value_or(""));
      }
    return is_one(plugins) && is_one(libraries) && is_one(facts_of_all("identity", "attest")) &&
           is_one(facts_of_all("run", "variables_hash"));
  }

  Compared compare(const Key& key) const {
    const Records was = all_records(before_, key), is = all_records(after_, key);
    Compared one{key.suite, key.case_name, key.dtype, key.impl, worst(was), worst(is)};
    one.verdict = verdict_change(one.before, one.after);
    one.same_binary =
        !was.front()->plugin_hash.empty() && was.front()->plugin_hash == is.front()->plugin_hash;
    one.same_everything = same_everything(was, is);
    one.time = one.memory = one.error = invalid("not-passed");
    if (one.before != Verdict::kPass || one.after != Verdict::kPass) return one;
    one.time = one.memory = one.error = invalid("other-problem");
    if (was.front()->spec != is.front()->spec || was.front()->inputs != is.front()->inputs)
      return one;
    one.before_ns = middle(all_launches(before_, key));
    one.after_ns = middle(all_launches(after_, key));
    one.time = has_bad_times(was) || has_bad_times(is)
                   ? invalid("bad-times")
                   : compare_times(key, one, apart(key, *was.front(), *is.front()));
    one.memory = compare_memory(before_, after_, key, took_turns_, options_.rule);
    one.error = compare_errors(was, is, options_.rule.band);
    return one;
  }

  Changed compare_times(const Key& key, const Compared& one, const std::string& apart) const {
    if (one.before_ns == 0 && one.after_ns == 0) return invalid("not-timed");
    if (one.before_ns == 0 || one.after_ns == 0) return invalid("timed-once");
    if (key.impl == options_.relative_to) return invalid("is-peer");
    if (!apart.empty()) return invalid(apart);
    std::vector<core::Launch> was = all_launches(before_, key, options_.relative_to),
                              is = all_launches(after_, key, options_.relative_to);
    if (was.empty() || is.empty()) return invalid("no-peer");
    if (took_turns_) {  // pairs that both have it
      was.clear();
      is.clear();
      for (size_t i = 0; i < before_.size(); ++i) {
        const core::Launch b = before_[i].launch(key, options_.relative_to),
                           a = after_[i].launch(key, options_.relative_to);
        if (b.median > 0 && a.median > 0) {
          was.push_back(b);
          is.push_back(a);
        }
      }
    }
    return core::compare_launches(was, is, took_turns_, rule_of(key));
  }

  core::ChangeRule rule_of(const Key& key) const {
    core::ChangeRule rule = options_.rule;
    if (!options_.floors) return rule;
    const auto at = options_.floors->cases.find(key);
    if (at == options_.floors->cases.end()) return rule;
    const double least = rule.floor.value_or(0);
    rule.floor = std::max(least, at->second.spread);
    rule.paired_floor = std::max(least, at->second.paired);
    rule.fast_floor = std::max(least, at->second.fast);
    return rule;
  }

  void add_notes() {
    for (const Side* side : {&before_, &after_})
      for (const Run& run : *side) {
        const std::string& path = run.file->path;
        if (!run.file->complete)
          note(fmt::format("{} was cut short: its run did not come to its end", path));
        const size_t again = run.file->records.size() - run.records.size();
        if (again > 0)
          note(fmt::format("{} has {} records of what it has already; samples are taken together",
                           path, again));
      }
    differs("machine", [](const Results& file) {
      return of_records(
          file, [](const Results& of, const Record& record) { return machine(of, record); });
    });
    differs("driver", [](const Results& file) {
      return of_records(file, [](const Results& of, const Record& record) {
        return fact(of, record.device, "driver");
      });
    });
    differs("build", build);
    differs("compiler", [](const Results& file) { return fact(file, "build", "compiler"); });
    differs("commit", [](const Results& file) { return fact(file, "build", "commit"); });
    note_same_binaries();
    note_false_alarms();
  }
  void note_same_binaries() {
    if (result_.cases.empty() || !std::ranges::all_of(result_.cases, &Compared::same_binary))
      return;
    if (std::ranges::all_of(result_.cases, &Compared::same_everything)) {
      note("both sides ran the same binaries: what differs is this machine's doing" +
           print_floor());
      return;
    }
    std::string others;
    if (!is_one(facts_of_all("identity", "attest"))) others += ", attest";
    if (!is_one(facts_of_all("run", "variables_hash"))) others += ", environment variables";
    note(fmt::format(
        "both sides ran the same binaries of implementations{}; not known to be the same: {}",
        print_floor(), others.empty() ? "the libraries that they loaded" : others.substr(2)));
  }
  /// How often times of one and the same build are called different: the A/A rate. It is counted
  /// before such a difference is taken for the machine's.
  void note_false_alarms() {
    size_t compared = 0, slower = 0, faster = 0, inconclusive = 0;
    for (const Compared& one : result_.cases) {
      if (!one.same_everything || one.time.change == Change::kInvalid) continue;
      ++compared;
      slower += one.time.change == Change::kWorse;
      faster += one.time.change == Change::kBetter;
      inconclusive += one.time.change == Change::kInconclusive;
    }
    if (compared > 0)
      note(fmt::format("A/A: {} times of identical builds: {} slower, {} faster, {} inconclusive",
                       compared, slower, faster, inconclusive));
  }
  /// By how much times of one and the same build differ; empty: none were compared.
  std::string print_floor() const {
    std::vector<double> percents;
    for (const Compared& one : result_.cases)
      if (one.time.ratio > 0)
        percents.push_back(100 * (std::max(one.time.ratio, 1 / one.time.ratio) - 1));
    if (percents.empty()) return {};
    return fmt::format("; times differ by {:.1f} % in the median case, by up to {:.1f} %",
                       core::summarise(percents).median, *std::ranges::max_element(percents));
  }
  void note(std::string text) { result_.notes.push_back(std::move(text)); }

  /// The texts of all records of a file, each once.
  template <class Of>
  static std::string of_records(const Results& file, const Of& of) {
    std::set<std::string> texts;
    for (const Record& record : file.records) texts.insert(of(file, record));
    return fmt::format("{}", fmt::join(texts, "; "));
  }

  template <class Of>
  void differs(const char* what, const Of& of) {
    std::set<std::string> was, is;
    for (const Run& run : before_) was.insert(of(*run.file));
    for (const Run& run : after_) is.insert(of(*run.file));
    was.erase("");
    is.erase("");  // of a file that has no records
    if (was != is && !was.empty() && !is.empty())
      note(fmt::format("{}: {} before, {} after", what, fmt::join(was, " and "),
                       fmt::join(is, " and ")));
  }

  const CompareOptions& options_;
  const Side before_, after_;
  const bool took_turns_;
  Comparison result_;
};

}  // namespace

Comparison compare(const std::vector<Results>& before, const std::vector<Results>& after,
                   const CompareOptions& options) {
  return Comparer(before, after, options).compare();
}

bool nothing_to_tell(const Changed& changed) {
  static const std::set<std::string> kCodes{"not-timed", "not-passed", "is-peer"};
  return changed.change == Change::kInvalid && kCodes.contains(changed.code);
}

bool is_apart(const Changed& time) {
  static const std::set<std::string> kCodes{"other-machine", "other-power-mode", "other-build",
                                            "other-threads"};
  return time.change == Change::kInvalid && kCodes.contains(time.code);
}

bool worse(const Compared& one) {
  const bool slower = one.time.change == Change::kWorse && !one.same_everything;
  return one.verdict == VerdictChange::kRegressed || slower ||
         one.memory.change == Change::kWorse || one.error.change == Change::kWorse;
}

bool unchanged(const Compared& one) {
  const auto same = [](const Changed& quantity) {
    return quantity.change == Change::kSame || nothing_to_tell(quantity);
  };
  const bool same_time = same(one.time) || one.time.code == "within-floor";
  return one.before == one.after && same_time && same(one.memory) && same(one.error);
}

bool regressed(const Comparison& comparison) {
  return std::ranges::any_of(comparison.cases, [](const Compared& one) {
    return one.verdict == VerdictChange::kRegressed;
  });
}

bool worse(const Comparison& comparison) {
  return std::ranges::any_of(comparison.cases, [](const Compared& one) { return worse(one); });
}

bool all_apart(const Comparison& comparison) {
  const auto count = [&](auto is) {
    return std::ranges::count_if(comparison.cases,
                                 [&](const Compared& one) { return is(one.time); });
  };
  return count(is_apart) > 0 &&
         count(is_apart) + count(nothing_to_tell) == std::ssize(comparison.cases);
}

bool inconclusive(const Comparison& comparison) {
  const auto untold = [](const Changed& quantity) {
    return quantity.change == Change::kInconclusive ||
           (quantity.change == Change::kInvalid && !nothing_to_tell(quantity));
  };
  return !comparison.only_before.empty() ||
         std::ranges::any_of(comparison.cases, [&](const Compared& one) {
           return one.verdict == VerdictChange::kSkipped || untold(one.time) ||
                  untold(one.memory) || untold(one.error);
         });
}

}  // namespace attest::reports
