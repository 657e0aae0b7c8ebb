// JUnit XML. There is no standard; this keeps to the schema of Jenkins' xUnit plugin, which others
// read too. fail and suspect are failures; error, crash and timeout are errors; unsupported and
// skipped are skipped. Frames and energy are output of a test.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/findings.hpp"
#include "reports/formats/printers.hpp"
#include "reports/summary.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/machine.hpp"
#include "reports/words/pacing.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Verdict;

/// The element that says why a test did not pass.
const char* element(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass: return nullptr;
    case Verdict::kFail:
    case Verdict::kSuspect: return "failure";
    case Verdict::kUnsupported:
    case Verdict::kSkipped: return "skipped";
    default: return "error";
  }
}

std::string seconds(double ns) { return fmt::format("{:.6f}", ns / 1e9); }

/// Readers split the name of a class at dots.
std::string class_name(const Record& record) {
  std::string name = record.suite.empty() ? "attest" : record.suite;
  name += "." + record.impl;
  std::replace(name.begin() + ptrdiff_t(name.size() - record.impl.size()), name.end(), '.', '_');
  return name;
}

std::string details(const Record& record) {
  std::string text;
  for (const std::string& finding : findings(record)) text += finding + "\n";
  for (const std::string& note : record.notes) text += note + "\n";
  return text + "spec: " + record.spec + "\nrepeat: " + record.repro + "\n";
}

/// Frames that were missed, and energy: a test passes all the same.
std::string system_out(const Record& record) {
  std::string text;
  for (const std::string& line : pacing_lines(record)) text += line + "\n";
  return text.empty() ? "" : fmt::format("      <system-out>{}</system-out>\n", xml(text));
}

std::string test_case(const Record& record) {
  const char* const name = element(record.outcome.verdict());
  std::string text =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{}\"", xml(class_name(record)),
                  xml(record.case_name + (record.dtype.empty() ? "" : " " + record.dtype)),
                  seconds(spent_ns(record)));
  const std::string output = system_out(record);
  if (!name) return text + (output.empty() ? "/>\n" : ">\n" + output + "    </testcase>\n");
  text += fmt::format(">\n      <{0} type=\"{1}\" message=\"{2}\"", name,
                      core::name(record.outcome.code), xml(record.outcome.reason));
  text += record.outcome.is_bad() ? fmt::format(">{}</{}>\n", xml(details(record)), name) : "/>\n";
  return text + output + "    </testcase>\n";
}

std::string properties(const core::Results& run) {
  std::string text = "    <properties>\n";
  const std::pair<const char*, std::string> all[] = {
      {"file", file_name(run)},
      {"command", run.header.command},
      {"complete", run.complete ? "yes" : "no"},
      {"machine", machine(run)},
      {"threads", fact(run, "cpu", "threads")},
      {"attest", fact(run, "build", "version")},
      {"commit", fact(run, "build", "commit")},
  };
  for (const auto& [name, value] : all)
    text += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", name, xml(value));
  return text + "    </properties>\n";
}

struct Sums {
  size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double spent = 0;

  void add(const Record& record) {
    const std::string_view name =
        element(record.outcome.verdict()) ? element(record.outcome.verdict()) : "";
    ++tests;
    failures += name == "failure";
    errors += name == "error";
    skipped += name == "skipped";
    spent += spent_ns(record);
  }
};

std::string test_suite(const core::Results& run, const std::string& suite,
                       const std::vector<const Record*>& records) {
  Sums sums;
  std::string cases;
  for (const Record* record : records) {
    sums.add(*record);
    cases += test_case(*record);
  }
  // "2026-01-01T00:00:00Z" without its Z, as JUnit has it.
  const std::string& started = run.header.started;
  return fmt::format(
      "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" "
      "time=\"{}\" timestamp=\"{}\">\n{}{}  </testsuite>\n",
      xml(suite.empty() ? "attest" : suite), sums.tests, sums.failures, sums.errors, sums.skipped,
      seconds(sums.spent), xml(started.substr(0, started.find('Z'))), properties(run), cases);
}

}  // namespace

std::string print_junit(const Input& input, const Style&) {
  Sums sums;
  std::string suites;
  for (const core::Results& run : input.runs) {
    std::vector<std::pair<std::string, std::vector<const Record*>>> parts;
    for (const Record& record : run.records) {
      sums.add(record);
      auto at = std::ranges::find(parts, record.suite, [](const auto& part) { return part.first; });
      if (at == parts.end()) at = parts.insert(at, {record.suite, {}});
      at->second.push_back(&record);
    }
    for (const auto& [suite, records] : parts) suites += test_suite(run, suite, records);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"attest\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\" time=\"{}\">\n{}</testsuites>\n",
      sums.tests, sums.failures, sums.errors, seconds(sums.spent), suites);
}

}  // namespace attest::reports
