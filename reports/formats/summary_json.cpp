// The summary as JSON, for programs: reports/summary.schema.json describes it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/tensor/walk.hpp"
#include "reports/findings.hpp"
#include "reports/formats/printers.hpp"
#include "reports/patterns.hpp"
#include "reports/scaling/scaling_json.hpp"
#include "reports/summary.hpp"
#include "reports/words/json_text.hpp"
#include "reports/words/machine.hpp"

namespace attest::reports {
namespace {

using core::Record;
using nlohmann::ordered_json;

constexpr int kSummarySchema = 1;  // of summary.schema.json

ordered_json tally_json(const Tally& tally) {
  ordered_json verdicts = ordered_json::object();
  for (size_t i = 0; i < tally.verdicts.size(); ++i)
    if (tally.verdicts[i] > 0) verdicts[std::string(core::kVerdictNames[i])] = tally.verdicts[i];
  return {{"records", tally.all()},
          {"judged", tally.judged()},
          {"bad", tally.bad()},
          {"verdicts", verdicts}};
}

ordered_json run_json(const core::Results& run) {
  return {{"file", file_name(run)},
          {"command", run.header.command},
          {"started", run.header.started},
          {"complete", run.complete},
          {"records", run.records.size()},
          {"machine", machine(run)},
          {"attest", fact(run, "build", "version")},
          {"commit", fact(run, "build", "commit")}};
}

ordered_json bad_json(const Record& record) {
  return {{"suite", record.suite},
          {"case", record.case_name},
          {"dtype", record.dtype},
          {"impl", record.impl},
          {"plugin", record.plugin},
          {"plugin_hash", record.plugin_hash},
          {"verdict", name(record.outcome.verdict())},
          {"code", name(record.outcome.code)},
          {"reason", record.outcome.reason},
          {"max_ratio", ordered_json(core::number(record.max_ratio))},
          {"findings", findings(record)},
          {"repro", record.repro}};
}

}  // namespace

std::string print_summary_json(const Input& input, const Style&) {
  const Summary summary = summary_of(input);
  ordered_json all{{"type", "attest summary"},
                   {"schema", kSummarySchema},
                   {"sentence", summary.sentence},
                   {"passes", summary.all.judged() > 0 && summary.all.bad() == 0},
                   {"warnings", input.warnings},
                   {"counts", tally_json(summary.all)},
                   {"implementations", ordered_json::array()},
                   {"patterns", ordered_json::array()},
                   {"worst", ordered_json::array()},
                   {"runs", ordered_json::array()}};
  for (const auto& [impl, tally] : summary.impls) {
    ordered_json one{{"impl", impl}};
    one.update(tally_json(tally));
    all["implementations"].push_back(one);
  }
  for (const Placed& one : std::span(summary.bad).first(std::min(kWorstShown, summary.bad.size())))
    all["worst"].push_back(bad_json(*one.record));
  for (const core::Results& run : input.runs) {
    all["runs"].push_back(run_json(run));
    for (const std::string& one : patterns(run.records)) all["patterns"].push_back(one);
    if (const Scaling scaling = scaling_of(run.records); !scaling.sweeps.empty()) {
      ordered_json one = to_json(scaling);
      one["file"] = file_name(run);
      all["scaling"].push_back(std::move(one));
    }
  }
  return json_text(all);
}

}  // namespace attest::reports
