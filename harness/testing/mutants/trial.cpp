#include "testing/mutants/trial.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"

namespace attest::testing {
namespace {

using core::FillRecord, core::Judgement, core::ReasonCode, core::Record, core::Verdict;

core::RunOptions options(Checks checks) {
  core::RunOptions made;
  made.limits.threads = 2;
  made.timed = false;
  made.all_checks = checks != Checks::kFirst;
  made.diagnosed = false;
  made.limits.case_limit_s = 1e6;  // slow machines too
  made.relations =
      checks == Checks::kAll ? core::RelationChoice::kAuto : core::RelationChoice::kNone;
  return made;
}

// Whether a bad outcome accuses the implementation. The others tell of the harness or the machine:
// they catch nothing.
bool accuses(const core::Outcome& outcome) {
  switch (outcome.code) {
    case ReasonCode::kErrorMemory:
    case ReasonCode::kErrorToleranceModel:
    case ReasonCode::kErrorGolden:
    case ReasonCode::kErrorReference:
    case ReasonCode::kErrorInputs:
    case ReasonCode::kErrorVector:
    case ReasonCode::kCrashOom: return false;
    default: return outcome.is_bad();
  }
}

std::string caught_by(const Judgement& judgement) {
  if (judgement.outcome.code == ReasonCode::kFailRange) return "sweep";
  if (judgement.outcome.code != ReasonCode::kFailTolerance &&
      judgement.outcome.code != ReasonCode::kFailNan)
    return std::string(name(judgement.outcome.code));
  return judgement.worst ? judgement.worst->tensor : std::string(name(judgement.outcome.code));
}

// Of records that have relations between runs.
template <class AnyRecord>
std::vector<Catch> broken_relations(const AnyRecord& record) {
  std::vector<Catch> found;
  if constexpr (requires { record.relations; })
    for (const auto& relation : record.relations)
      if (accuses(relation.judgement.outcome))
        found.push_back({"relation " + relation.relation, caught_by(relation.judgement)});
  return found;
}

bool same_bytes(const Record& a, const Record& b) {
  return std::equal(a.fills.begin(), a.fills.end(), b.fills.begin(), b.fills.end(),
                    [](const FillRecord& x, const FillRecord& y) {
                      return x.fill == y.fill && x.outputs_hash == y.outputs_hash;
                    });
}

}  // namespace

bool is_healthy(const std::string& implementation) {
  return implementation.ends_with("_none") || implementation.find("_none_t") != std::string::npos;
}

std::string twin_of(const std::string& mutant) {
  constexpr std::string_view kDigits = "0123456789";
  for (size_t at = mutant.find("_t"); at != std::string::npos; at = mutant.find("_t", at + 1)) {
    const size_t past = std::min(mutant.find_first_not_of(kDigits, at + 2), mutant.size());
    const bool whole = past > at + 2 && (past == mutant.size() || mutant[past] == '_');
    if (whole) return mutant.substr(0, mutant.find('_')) + "_none" + mutant.substr(at, past - at);
  }
  return "";
}

std::vector<Catch> catches(const Record& record) {
  std::vector<Catch> found = broken_relations(record);
  for (const FillRecord& fill : record.fills)
    if (accuses(fill.judgement.outcome)) found.push_back({fill.fill, caught_by(fill.judgement)});
  if (found.empty() && accuses(record.outcome)) {
    const std::string code(name(record.outcome.code));
    found.push_back({code, code});
  }
  return found;
}

Trials::Trials(core::Plugin& plugin, const MutantCase& wanted, Checks checks)
    : plugin_(plugin),
      case_(wanted),
      problem_(core::parse_problem(wanted.spec)),
      options_(options(checks)),
      runner_(problem_, core::print_problem(problem_),
              {"mutants", wanted.family->name, "random", ""}, nullptr, options_, rates_) {
  const auto takes = [&](const core::Implementation& one) {
    return core::refuses(one, problem_).empty();
  };
  const auto& all = plugin.implementations();
  const auto first = std::find_if(all.begin(), all.end(), takes);
  if (first == all.end())
    throw core::Error(fmt::format("{}: no implementation for {}", plugin.file_name(), wanted.spec));
  first_ = &*first;
  healthy(*first_);
}

const Record& Trials::healthy(const core::Implementation& twin) {
  const auto known = healthy_.find(twin.name);
  if (known != healthy_.end()) return known->second;
  const Record made = runner_.run(plugin_, twin);
  if (made.outcome.passes()) return healthy_[twin.name] = made;
  throw core::Error(fmt::format("{}, which is right, does not pass {}: {}", twin.name, case_.spec,
                                made.outcome.reason));
}

const Record& Trials::twin_record(const core::Implementation& mutant) {
  const std::string name = twin_of(mutant.name);
  for (const core::Implementation& one : plugin_.implementations())
    if (one.name == name) return healthy(one);
  return healthy(*first_);
}

Trial Trials::run(const core::Implementation& mutant) {
  const Record record = runner_.run(plugin_, mutant);
  Trial trial{.mutant = mutant.name,
              .family = case_.family->name,
              .dtype = case_.dtype,
              .tokens = case_.tokens,
              .catches = catches(record),
              .worst = std::max(record.max_ratio, record.rms_ratio),
              .reason = record.outcome.reason};
  if (!trial.catches.empty())
    trial.outcome = Trial::Outcome::kCaught;
  else if (record.outcome.code == core::ReasonCode::kUnsupportedQuery ||
           (record.outcome.passes() && same_bytes(record, twin_record(mutant))))
    trial.outcome = Trial::Outcome::kEquivalent;
  return trial;
}

}  // namespace attest::testing
