// Workflow commands of GitHub Actions, each an annotation of the run. GitHub shows ten errors and
// ten warnings of a step, so the tenth error says how many more there are.
#include <fmt/format.h>

#include <algorithm>

#include "reports/findings.hpp"
#include "reports/formats/printers.hpp"
#include "reports/summary.hpp"
#include "reports/words/escape.hpp"

namespace attest::reports {
namespace {

constexpr size_t kShown = 10;

/// Values of commands: `%`, line ends, and in properties also `:` and `,` are escaped.
std::string annotated(std::string_view text, bool property) {
  std::string safe;
  for (const char c : valid_utf8(text))
    if (c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ',')))
      safe += fmt::format("%{:02X}", unsigned(c));
    else
      safe += c;
  return safe;
}

std::string command(const char* kind, const std::string& title, const std::string& message) {
  return fmt::format("::{} title={}::{}\n", kind, annotated(title, true),
                     annotated(message, false));
}

std::string message(const core::Record& record) {
  std::string text = record.outcome.reason;
  for (const std::string& finding : findings(record)) text += "\n" + finding;
  return text + "\n" + record.repro;
}

}  // namespace

std::string print_github(const Input& input, const Style&) {
  const Summary summary = summary_of(input);
  const size_t bad = summary.bad.size(), shown = bad > kShown ? kShown - 1 : bad;
  std::string text;
  for (const Placed& one : std::span(summary.bad).first(shown))
    text +=
        command("error", fmt::format("{}: {}", name(one.record->outcome.code), title(*one.record)),
                message(*one.record));
  if (shown < bad)
    text += command("error", fmt::format("{} more bad records", bad - shown),
                    "the results file, and the reports in other formats, have them all");
  for (const std::string& warning :
       std::span(input.warnings).first(std::min(kShown, input.warnings.size())))
    text += command("warning", "attest", warning);
  return text + command("notice", "attest", summary.sentence);
}

}  // namespace attest::reports
