#include "reports/reading.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/record/races.hpp"
#include "reports/shown.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;

/// A first look at the files: it keeps the records for as long as there are at most `most`.
class Survey {
 public:
  Survey(const std::vector<std::string>& paths, size_t most) : most_(most) {
    for (const std::string& path : paths) look_at(path);
    for (size_t run = 0; run < races_.size(); ++run) mark_races(run);
  }

  bool keeps_all() const { return whole_ || count_ <= most_; }
  /// The runs with all of their records, if there are few.
  std::vector<Results> take_runs() { return std::move(runs_); }
  bool has_records() const { return count_ <= most_; }
  const Cases& cases() const { return cases_; }
  const core::Races& races(size_t run) const { return races_[run]; }

 private:
  void look_at(const std::string& path) {
    const size_t run = runs_.size();
    core::Races& races = races_.emplace_back();
    auto& passed = passed_in_.emplace_back();
    std::vector<Record> kept;
    Results results = core::visit_results(path, [&](Record record) {
      races.note(record);
      whole_ |= record.sweep.has_value();
      const size_t place = cases_.add(run, record);
      if (record.outcome.passes()) passed[core::Races::build_of(record)].push_back(place);
      if (++count_ <= most_)
        kept.push_back(std::move(record));
      else
        forget(kept);
    });
    whole_ |= !headers_.insert(to_json(results.header)).second;
    results.records = std::move(kept);
    core::overrule_races(results.records);
    runs_.push_back(std::move(results));
  }

  void forget(std::vector<Record>& kept) {
    kept = {};
    for (Results& run : runs_) run.records = {};
  }

  /// A race makes the passes of its build suspect, those before it too.
  void mark_races(size_t run) {
    for (const auto& [build, places] : passed_in_[run])
      if (races_[run].why(build))
        for (const size_t place : places) cases_.mark_bad(place);
  }

  size_t most_, count_ = 0;
  bool whole_ = false;
  std::vector<Results> runs_;
  std::set<nlohmann::json> headers_;
  Cases cases_;
  std::vector<core::Races> races_;                                            // by run
  std::vector<std::map<core::Races::Build, std::vector<size_t>>> passed_in_;  // by run; the cases
};

}  // namespace

Input read_input(const std::vector<std::string>& paths, size_t most) {
  Survey survey(paths, most);
  if (survey.keeps_all() && survey.has_records()) return make_input(survey.take_runs());
  std::vector<Results> files;
  if (survey.keeps_all()) {
    for (const std::string& path : paths) files.push_back(core::read_results(path));
    return make_input(std::move(files));
  }
  const std::vector<bool> shown = survey.cases().shown(most);
  LeftOut left_out;
  for (const std::string& path : paths) {
    const size_t run = files.size();
    std::vector<Record> kept;
    Results results = core::visit_results(path, [&](Record record) {
      survey.races(run).overrule(record);
      const std::optional<size_t> place = survey.cases().place_of(run, record);
      if (place && shown[*place])  // a run that goes on may have written another case meanwhile
        kept.push_back(std::move(record));
      else
        left_out.add(run, record);
    });
    results.records = std::move(kept);
    files.push_back(std::move(results));
  }
  return make_input(std::move(files), std::move(left_out));
}

}  // namespace attest::reports
