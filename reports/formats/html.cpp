// One self-contained page. It opens from disk, loads nothing, and runs under a policy that allows
// only its own style and script, by their hashes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "reports/choice/why.hpp"
#include "reports/formats/printers.hpp"
#include "reports/html/assets.hpp"
#include "reports/html/comparison_section.hpp"
#include "reports/html/history_section.hpp"
#include "reports/html/page_data.hpp"
#include "reports/html/projection_section.hpp"
#include "reports/input/shown.hpp"
#include "reports/summary.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/machine.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;
using nlohmann::json;

/// A hash of a content security policy: base64 of the digest.
std::string base64_of_hex(std::string_view hex) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes, text;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += char(std::strtol(std::string(hex.substr(i, 2)).c_str(), nullptr, 16));
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j) word = word << 8 | (j < left ? uint8_t(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) text += j <= left ? kDigits[word >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

/// JSON for a script element: nothing in it ends the element or a line of JavaScript.
std::string script_json(const json& data) {
  const std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) safe += c == '<' ? "\\u003c" : std::string(1, c);
  return safe;
}

/// A page whose data are larger than this says so: a browser may be slow with it.
constexpr size_t kLargeBytes = size_t{10} << 20;

/// The warnings of the runs, and what a reader has to know of a large page: which records it lacks,
/// and that a browser may be slow.
std::vector<std::string> page_warnings(const Input& input, size_t all, size_t left_out,
                                       size_t data_bytes) {
  std::vector<std::string> warnings = input.warnings;
  if (left_out > 0)
    warnings.push_back(fmt::format(
        "this page holds {} of {} records: whole cases, those with bad records first; the verdict "
        "above counts all. attest choose and attest report -f csv read all, and a report of fewer "
        "results files leaves out less",
        all - left_out, all));
  if (data_bytes > kLargeBytes)
    warnings.push_back(fmt::format(
        "this page holds {} of data, and a browser may be slow with it; a report of fewer results "
        "files is smaller",
        print_bytes(double(data_bytes))));
  return warnings;
}

/// "3 of the records that pass were judged in part: ..."; empty if all were judged in full. The
/// records that were left out are not kept, so they are not counted.
std::string in_part_words(const Input& input) {
  size_t count = 0;
  for (const Results& run : input.runs)
    count += size_t(std::ranges::count_if(run.records, [](const Record& record) {
      return record.outcome.passes() && judging_of(record).is_partial();
    }));
  if (count == 0) return "";
  return fmt::format(
      "{}{} of those that pass {} judged in part: with one kind of inputs, without relations "
      "between runs, or on a sample of the rows. An open record says what was judged.",
      input.left_out.records() > 0 ? "At least " : "", count, count == 1 ? "was" : "were");
}

/// What a reader has to know first. It is there without the script.
std::string page_head(const Input& input, size_t left_out, size_t data_bytes) {
  const Summary summary = summary_of(input);
  const bool good = summary.all.judged() > 0 && summary.all.bad() == 0;
  std::string text = fmt::format("<h1 class=\"{}\">{} {}</h1>\n", good ? "good" : "bad",
                                 good ? "&#10003;" : "&#10007;", xml(summary.sentence));
  if (const std::string words = in_part_words(input); !words.empty())
    text += fmt::format("<p id=\"in-part\" class=\"warn\">{}</p>\n", xml(words));
  const std::vector<std::string> warnings =
      page_warnings(input, summary.all.all(), left_out, data_bytes);
  if (!warnings.empty()) text += "<ul class=\"warnings\">\n";
  for (const std::string& warning : warnings)
    text += fmt::format("<li><span class=\"warn\">Warning:</span> {}</li>\n", xml(warning));
  if (!warnings.empty()) text += "</ul>\n";
  for (size_t i = 0; i < input.runs.size(); ++i) {
    const Results& run = input.runs[i];
    const LeftOut::OfRun& left_out_of_run = input.left_out.of_run(i);
    std::set<std::string> plugins = left_out_of_run.plugins;
    for (const Record& record : run.records) plugins.insert(plugin_of(record));
    plugins.erase("");
    text += fmt::format(
        "<p>{}: {}, {} threads; {}; attest {}, commit {}</p>\n<details><summary>Plugins and "
        "their hashes</summary><p class=\"soft\">{}</p></details>\n",
        xml(file_name(run)), xml(machine(run, devices_of({&run, 1}, left_out_of_run.devices))),
        xml(fact(run, "cpu", "threads")), xml(run.header.started),
        xml(fact(run, "build", "version")), xml(fact(run, "build", "commit")),
        xml(fmt::format("{}", fmt::join(plugins, ", "))));
  }
  return text;
}

/// The parts of the page; those that not every page has stand where body.html has a place for them.
std::string body_of(const Input& input) {
  constexpr std::string_view kPlace = "<!-- comparison, history and projection -->\n";
  std::string body(html::kBody), made;
  if (input.comparison) made = html::comparison_section(*input.comparison);
  made += html::history_section(input.histories);
  if (input.projection)
    made += html::projection_section(project_all(input.runs, *input.projection));
  return body.replace(body.find(kPlace), kPlace.size(), made);
}

}  // namespace

std::string print_html(const Input& input, const Style& style) {
  const html::Bundle vega = style.charts ? html::kVega : html::Bundle{};
  std::string policy =
      fmt::format("default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'",
                  base64_of_hex(html::kStyleSha256), base64_of_hex(html::kScriptSha256));
  std::string licences, vega_script;
  if (!vega.script.empty()) {
    policy += fmt::format(" 'sha256-{}'", base64_of_hex(vega.sha256));
    vega_script = fmt::format("<script id=\"vega\">{}</script>\n", vega.script);
    licences = fmt::format(
        "<details id=\"licences\"><summary>Licences of what draws the charts</summary>\n"
        "<pre>{}</pre></details>\n",
        xml(vega.licences));
  }
  const json all = html::page_data(input);
  const size_t left_out = all["left_out"];
  const std::string data = script_json(all);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>attest report</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{}{}{}</main>\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n{}<script>{}</script>\n"
      "</body>\n</html>\n",
      policy, html::kStyle, page_head(input, left_out, data.size()), body_of(input), licences, data,
      vega_script, html::kScript);
}

}  // namespace attest::reports
