// The summary as Markdown, for a pull request, a job summary or a page.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "reports/compare/comparison_text.hpp"
#include "reports/findings.hpp"
#include "reports/formats/markdown.hpp"
#include "reports/formats/printers.hpp"
#include "reports/history/history_text.hpp"
#include "reports/patterns.hpp"
#include "reports/projection/projection_text.hpp"
#include "reports/scaling/scaling_tables.hpp"
#include "reports/summary.hpp"
#include "reports/words/counters.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/machine.hpp"
#include "reports/words/pacing.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using core::ReasonCode;
using core::Record;
using core::Results;
using core::Verdict;

constexpr size_t kNamedCases = 3;  // of a reason; the table has them all
constexpr size_t kListed = 20;     // runs and warnings
constexpr size_t kLongest = 1000;  // characters of a reason
// GitHub refuses a job summary of more than 1 MiB.
constexpr size_t kLargest_bytes = 900'000;

/// Values once each, in the order in which they come.
template <class Key>
std::vector<std::string> in_order(const std::vector<const Record*>& records, Key key) {
  std::vector<std::string> all;
  std::set<std::string> known;
  for (const Record* r : records)
    if (known.insert(key(*r)).second) all.push_back(key(*r));
  return all;
}

/// Text of a record, cut where it is very long.
std::string prose(const std::string& text) {
  return markdown(text.size() > kLongest ? text.substr(0, kLongest) + " ..." : text);
}

std::string row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

/// A row with texts of records.
std::string prose_row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = prose(cell);
  return row(cells);
}

std::string head(const std::vector<std::string>& cells) {
  return row(cells) + row(std::vector<std::string>(cells.size(), "---"));
}

std::string word(const Record& r) {
  std::string text(name(r.outcome.verdict()));
  if (r.outcome.is_bad()) text = "**" + text + "**";
  if (r.outcome.code == ReasonCode::kUnsupportedVector) text += ": " + prose(r.outcome.reason);
  if (const std::optional<Errors> errors = errors_of_verdict(r))
    text += fmt::format(" {:.2g}", errors->largest);
  if (r.time) text += ", " + print_time(r.time->median_ns);
  return text;
}

std::string counts(const Summary& summary) {
  std::vector<std::string> titles{"implementation", "judged"};
  std::vector<Verdict> shown;
  for (size_t i = 0; i < std::size(core::kVerdictNames); ++i)
    if (summary.all.of(Verdict(i)) > 0) {
      shown.push_back(Verdict(i));
      titles.emplace_back(core::kVerdictNames[i]);
    }
  std::string text = head(titles);
  for (const auto& [impl, tally] : summary.impls) {
    std::vector<std::string> cells{markdown(impl), fmt::format("{}", tally.judged())};
    for (const Verdict verdict : shown) cells.push_back(fmt::format("{}", tally.of(verdict)));
    text += row(cells);
  }
  return text;
}

std::string shared(const Input& input) {
  std::string text;
  for (const Results& run : input.runs)
    for (const std::string& one : patterns(run.records)) text += fmt::format("- {}\n", prose(one));
  return text.empty() ? "" : "\n" + text;
}

std::string worst(const Summary& summary) {
  const size_t bad = summary.bad.size(), shown = std::min(bad, kWorstShown);
  std::string text = bad > shown
                         ? fmt::format("\n## The worst {} of {} bad records\n\n", shown, bad)
                         : fmt::format("\n## Bad records: {}\n\n", bad);
  for (const Placed& one : std::span(summary.bad).first(shown)) {
    const Record& r = *one.record;
    text += fmt::format("- **{}** {}: {}\n", name(r.outcome.code), markdown_code(title(r)),
                        prose(r.outcome.reason));
    for (const std::string& finding : findings(r)) text += fmt::format("  - {}\n", prose(finding));
    if (!r.repro.empty()) text += fmt::format("  - {}\n", markdown_code(r.repro));
  }
  return text;
}

/// A part that opens on a click, unless it is open. Rows may be left out; where some are shown, the
/// head above them is too.
struct Part {
  std::string title, head;
  std::vector<std::string> rows;
  bool is_open = false;
};

/// One row a case and dtype, one column an implementation; a cell is empty where an implementation
/// was not asked.
Part verdicts(std::string title, const std::vector<const Record*>& records) {
  const std::vector<std::string> impls = in_order(records, [](const Record& r) { return r.impl; });
  std::vector<std::string> titles{"case", "dtype"};
  for (const std::string& impl : impls) titles.push_back(markdown(impl));
  const auto place = [](const Record& r) { return r.case_name + "\n" + r.dtype; };
  std::map<std::pair<std::string, std::string>, const Record*> at;
  for (const Record* r : records) at.try_emplace({place(*r), r->impl}, r);
  Part part{std::move(title), head(titles), {}};
  for (const std::string& where : in_order(records, place)) {
    const size_t end = where.rfind('\n');
    std::vector<std::string> cells{markdown(where.substr(0, end)), markdown(where.substr(end + 1))};
    for (const std::string& impl : impls) {
      const auto r = at.find({where, impl});
      cells.push_back(r == at.end() ? "" : word(*r->second));
    }
    part.rows.push_back(row(cells));
  }
  return part;
}

std::string origin(const Results& results) {
  return fmt::format("attest {}, commit {}, on {} with {} threads{}",
                     markdown(fact(results, "build", "version")),
                     markdown(fact(results, "build", "commit")), markdown(machine(results)),
                     markdown(fact(results, "cpu", "threads")),
                     results.header.started.empty() ? "" : ", " + markdown(results.header.started));
}

/// Every reason, bad ones first, and where it holds.
Part reasons(const Input& input) {
  std::map<std::pair<int, std::string>, std::vector<std::string>> cases;
  for (const Results& run : input.runs)
    for (const Record& r : run.records)
      if (!r.outcome.reason.empty())
        cases[{r.outcome.is_bad() ? 0 : 1,
               fmt::format("{}: {}: {}", r.impl, name(r.outcome.verdict()), r.outcome.reason)}]
            .push_back(r.suite + (r.suite.empty() ? "" : "/") + r.case_name);
  Part part{"Why", "", {}};
  for (const auto& [reason, names] : cases) {
    const size_t shown = std::min(names.size(), kNamedCases);
    part.rows.push_back(
        fmt::format("- {} ({}{})\n", prose(reason.second),
                    markdown(fmt::format(
                        "{}", fmt::join(names.begin(), names.begin() + ptrdiff_t(shown), ", "))),
                    names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : ""));
  }
  return part;
}

/// " of results.jsonl", where there is more than one run.
std::string of_run(const Input& input, const Results& run) {
  return input.runs.size() > 1 ? " of " + file_name(run) : "";
}

Part scaling_part(const ScalingTable& table, const std::string& of_run) {
  std::vector<std::string> columns = table.columns;
  for (std::string& column : columns) column = prose(column);
  Part part{table.title + of_run, head(columns), {}, true};
  for (const auto& texts : table.rows) part.rows.push_back(prose_row(texts));
  return part;
}

/// What the processor counted, where it could.
Part counters_part(const Input& input, const Results& run) {
  Part part{"Counters of the processor" + of_run(input, run), "", {}};
  for (const Record& r : run.records)
    if (const std::string line = counter_line(r); !line.empty())
      part.rows.push_back(fmt::format("- {}: {}\n", markdown_code(title(r)), line));
  return part;
}

/// What became of frames that a clock released, and energy.
Part pacing_part(const Input& input, const Results& run) {
  Part part{"Frames and energy" + of_run(input, run), "", {}};
  for (const Record& r : run.records)
    for (const std::string& line : pacing_lines(r))
      part.rows.push_back(fmt::format("- {}: {}\n", markdown_code(title(r)), prose(line)));
  return part;
}

/// What changed since an earlier build. A case that did not change is counted.
Part comparison_part(const Comparison& comparison) {
  Part part{comparison_title(comparison), head(comparison_columns()), {}, true};
  for (const Compared& one : comparison.cases)
    if (!unchanged(one)) part.rows.push_back(prose_row(comparison_cells(one)));
  if (part.rows.empty()) part.head.clear();
  part.rows.emplace_back("\n");
  for (const std::string& sentence : comparison_remarks(comparison))
    part.rows.push_back(fmt::format("- {}\n", prose(sentence)));
  return part;
}

/// The steps of the histories; a series without any is counted.
Part history_part(const std::vector<CaseHistory>& all) {
  const auto with_steps = std::ranges::count_if(all, &CaseHistory::has_steps);
  std::vector<std::string> columns = history_columns();
  columns.insert(columns.begin(), "case");
  Part part{fmt::format("History: {} of {} series have a step", with_steps, all.size()),
            head(columns),
            {},
            true};
  for (const CaseHistory& history : all)
    for (const HistoryRow& one : history_rows(history)) {
      if (!one.is_step) continue;
      std::vector<std::string> cells = cells_of(one);
      cells.insert(cells.begin(), history.series.key.name());
      part.rows.push_back(prose_row(std::move(cells)));
    }
  if (part.rows.empty()) part = {part.title, "", {""}, false};
  return part;
}

/// Times of one run, projected to a board that was not measured, below the sentences that say so.
Part projection_part(const Projected& projected, const ProjectedFile& one,
                     const std::string& of_run) {
  Part part{fmt::format("{} from {}{}", projected_title(projected), machine(*one.file), of_run),
            "",
            {},
            true};
  for (const std::string& remark : projected_remarks(projected))
    part.head += fmt::format("{}\n\n", markdown(remark));
  part.head += head(projected_columns());
  for (const Projection& each : one.projections)
    part.rows.push_back(prose_row(projected_cells(each)));
  return part;
}

/// What is known of the board.
Part figures_part(const BoardMode& board) {
  Part part{kFiguresTitle, head({"figure", "source"}), {}};
  for (const Figure& figure : figures(board))
    part.rows.push_back(row({markdown(figure.text), markdown(figure.source)}));
  return part;
}

/// The figures of the board, then the projected times of each run.
std::vector<Part> projection_parts(const Input& input) {
  const Projected projected = project_all(input.runs, *input.projection);
  std::vector<Part> parts{figures_part(*input.projection->board)};
  for (const ProjectedFile& one : projected.files)
    parts.push_back(projection_part(projected, one, of_run(input, *one.file)));
  return parts;
}

/// How implementations scale, the steps of histories, projected times, the verdicts of each suite
/// of each run, and the reasons.
std::vector<Part> parts_of(const Input& input) {
  std::vector<Part> parts;
  for (const Results& run : input.runs)
    for (const ScalingTable& table : scaling_tables(run))
      parts.push_back(scaling_part(table, of_run(input, run)));
  if (input.comparison) parts.push_back(comparison_part(*input.comparison));
  if (!input.histories.empty()) parts.push_back(history_part(input.histories));
  if (input.projection) std::ranges::move(projection_parts(input), std::back_inserter(parts));
  for (const Results& run : input.runs) {
    std::vector<const Record*> all;
    for (const Record& r : run.records) all.push_back(&r);
    for (const std::string& suite : in_order(all, [](const Record& r) { return r.suite; })) {
      std::vector<const Record*> own;
      std::ranges::copy_if(all, std::back_inserter(own),
                           [&](const Record* r) { return r->suite == suite; });
      parts.push_back(
          verdicts(fmt::format("{}{}: {} records", suite.empty() ? "without a suite" : suite,
                               of_run(input, run), own.size()),
                   own));
    }
  }
  for (const Results& run : input.runs)
    if (Part counted = counters_part(input, run); !counted.rows.empty())
      parts.push_back(std::move(counted));
  for (const Results& run : input.runs)
    if (Part paced = pacing_part(input, run); !paced.rows.empty())
      parts.push_back(std::move(paced));
  if (Part why = reasons(input); !why.rows.empty()) parts.push_back(std::move(why));
  return parts;
}

/// As many rows of a part as the room has; the count of the others is added to `left_out`.
std::string folded(const Part& part, size_t room_bytes, size_t& left_out) {
  const std::string begin = fmt::format("\n<details{}><summary>{}</summary>\n\n{}",
                                        part.is_open ? " open" : "", xml(part.title), part.head);
  const std::string end = "\n</details>\n";
  std::string rows;
  size_t shown = 0;
  for (const std::string& one : part.rows) {
    if (begin.size() + rows.size() + one.size() + end.size() > room_bytes) break;
    rows += one;
    ++shown;
  }
  left_out += part.rows.size() - shown;
  return shown == 0 ? "" : begin + rows + end;
}

/// The sentence, where the records come from, and what weakens them.
std::string opening(const Input& input, const Summary& summary) {
  std::string text = fmt::format("# {}\n\n", markdown(summary.sentence));
  const size_t runs = std::min(kListed, input.runs.size()),
               warnings = std::min(kListed, input.warnings.size());
  for (const Results& run : std::span(input.runs).first(runs))
    text += fmt::format("- {}: {}\n", markdown_code(run.header.command), origin(run));
  if (runs < input.runs.size()) text += fmt::format("- {} more runs\n", input.runs.size() - runs);
  for (const std::string& warning : std::span(input.warnings).first(warnings))
    text += fmt::format("- **Warning:** {}\n", markdown(warning));
  if (warnings < input.warnings.size())
    text += fmt::format("- {} more warnings\n", input.warnings.size() - warnings);
  return text;
}

}  // namespace

std::string print_markdown_within(const Input& input, size_t largest_bytes) {
  constexpr size_t kEnding_bytes = 300;
  const Summary summary = summary_of(input);
  std::string text = opening(input, summary);
  if (summary.all.all() > 0) text += "\n" + counts(summary);
  text += shared(input);
  if (!summary.bad.empty()) text += worst(summary);
  size_t left_out = 0;
  for (const Part& part : parts_of(input)) {
    const size_t used = text.size() + kEnding_bytes;
    text += folded(part, used < largest_bytes ? largest_bytes - used : 0, left_out);
  }
  if (left_out > 0)
    text += fmt::format("\n{} rows are left out, since this page would be larger than {} kB.\n",
                        left_out, largest_bytes / 1000);
  return text +
         "\nNumbers: the largest error as a share of its gate, <= 1 passes; the median time where "
         "a case was timed.\n";
}

std::string print_markdown(const Input& input, const Style&) {
  return print_markdown_within(input, kLargest_bytes);
}

}  // namespace attest::reports
