// SARIF 2.1.0, which code scanning services show: a rule for each reason code that occurs, a result
// for each bad record. A result has to lie in a file; that is the plugin, since records know no
// source file.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reports/findings.hpp"
#include "reports/formats/printers.hpp"
#include "reports/summary.hpp"
#include "reports/words/json_text.hpp"
#include "reports/words/machine.hpp"

namespace attest::reports {
namespace {

using core::ReasonCode;
using core::Record;
using nlohmann::ordered_json;

ordered_json rules(const std::vector<ReasonCode>& codes) {
  ordered_json all = ordered_json::array();
  for (const ReasonCode code : codes) {
    const core::Reason& reason = core::reason_of(code);
    all.push_back({{"id", reason.name},
                   {"shortDescription", {{"text", reason.meaning}}},
                   {"help", {{"text", fmt::format("attest explain {}", reason.name)}}}});
  }
  return all;
}

/// A file's name as a relative reference.
std::string uri(const std::string& file) {
  std::string safe;
  for (const char c : file) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    safe += plain ? std::string(1, c) : fmt::format("%{:02X}", unsigned(uint8_t(c)));
  }
  return safe;
}

ordered_json location(const std::string& file, const std::string& name) {
  ordered_json place{
      {"physicalLocation",
       {{"artifactLocation", {{"uri", uri(file)}}}, {"region", {{"startLine", 1}}}}}};
  place["logicalLocations"] =
      ordered_json::array({ordered_json{{"fullyQualifiedName", name}, {"kind", "function"}}});
  return place;
}

ordered_json result(const Record& record, size_t rule) {
  std::string message = fmt::format("{}: {}", title(record), record.outcome.reason);
  for (const std::string& finding : findings(record)) message += "\n" + finding;
  message += "\n" + record.repro;
  const std::string file = record.plugin.empty() ? "attest" : record.plugin;
  return {{"ruleId", name(record.outcome.code)},
          {"ruleIndex", rule},
          {"level", "error"},
          {"message", {{"text", message}}},
          {"locations", ordered_json::array({location(file, title(record))})},
          {"partialFingerprints", {{"record/v1", title(record)}}},
          {"properties", {{"verdict", name(record.outcome.verdict())}, {"spec", record.spec}}}};
}

}  // namespace

std::string print_sarif(const Input& input, const Style&) {
  const Summary summary = summary_of(input);
  std::vector<ReasonCode> codes;
  ordered_json results = ordered_json::array();
  for (const Placed& one : summary.bad) {
    const ReasonCode code = one.record->outcome.code;
    const auto at = std::ranges::find(codes, code);
    const size_t rule = size_t(at - codes.begin());
    if (at == codes.end()) codes.push_back(code);
    results.push_back(result(*one.record, rule));
  }
  const std::string version =
      input.runs.empty() ? "" : fact(input.runs.front(), "build", "version");
  ordered_json driver{{"name", "attest"}};
  if (!version.empty()) driver["version"] = version;
  driver["rules"] = rules(codes);
  const ordered_json run{
      {"tool", {{"driver", driver}}}, {"columnKind", "unicodeCodePoints"}, {"results", results}};
  return json_text({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                    {"version", "2.1.0"},
                    {"runs", ordered_json::array({run})}});
}

}  // namespace attest::reports
