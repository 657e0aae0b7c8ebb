#include "reports/markdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "reports/launches.hpp"
#include "reports/table.hpp"

namespace attest::reports {
namespace {

using core::ReasonCode;
using core::Record;
using core::Verdict;

constexpr size_t kNamedCases = 3;  // of a reason; the table has them all

/// Text of a record in a cell: one line, and no bar ends the cell.
std::string cell(const std::string& text) {
  std::string safe;
  for (const char c : text)
    safe += c == '|' ? "\\|" : c == '\n' || c == '\r' ? " " : c == '<' ? "&lt;" : std::string(1, c);
  return safe;
}

/// Values once each, in the order in which they come.
template <class Key>
std::vector<std::string> in_order(const std::vector<const Record*>& records, Key key) {
  std::vector<std::string> all;
  for (const Record* r : records)
    if (std::ranges::find(all, key(*r)) == all.end()) all.push_back(key(*r));
  return all;
}

std::string row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string head(const std::vector<std::string>& cells) {
  return row(cells) + row(std::vector<std::string>(cells.size(), "---"));
}

std::string word(const Record& r) {
  std::string text(name(r.outcome.verdict()));
  if (r.outcome.is_bad()) text = "**" + text + "**";
  if (r.outcome.code == ReasonCode::kUnsupportedVector) text += ": " + cell(r.outcome.reason);
  const bool judged = std::ranges::any_of(
      r.fills, [](const auto& fill) { return fill.judgement.exact_elements > 0; });
  if (judged) text += fmt::format(" {:.2g}", r.max_ratio);
  if (r.time) text += ", " + print_time(r.time->median_ns);
  return text;
}

std::string counts(const std::vector<const Record*>& records,
                   const std::vector<std::string>& impls) {
  std::vector<std::string> titles{"implementation"};
  for (const std::string_view verdict : core::kVerdictNames)
    if (std::ranges::any_of(records,
                            [&](const Record* r) { return name(r->outcome.verdict()) == verdict; }))
      titles.emplace_back(verdict);
  std::string text = head(titles);
  for (const std::string& impl : impls) {
    std::vector<std::string> cells{cell(impl)};
    for (size_t i = 1; i < titles.size(); ++i)
      cells.push_back(fmt::format("{}", std::ranges::count_if(records, [&](const Record* r) {
                                    return r->impl == impl &&
                                           name(r->outcome.verdict()) == titles[i];
                                  })));
    text += row(cells);
  }
  return text;
}

/// One row a case and dtype, one column an implementation; a cell is empty where an implementation
/// was not asked.
std::string verdicts(const std::vector<const Record*>& records,
                     const std::vector<std::string>& impls) {
  std::vector<std::string> titles{"case", "dtype"};
  for (const std::string& impl : impls) titles.push_back(cell(impl));
  std::string text = head(titles);
  auto place = [](const Record& r) { return r.case_name + "\n" + r.dtype; };
  for (const std::string& at : in_order(records, place)) {
    std::vector<std::string> cells{cell(at.substr(0, at.find('\n'))), at.substr(at.find('\n') + 1)};
    for (const std::string& impl : impls) {
      const auto r = std::ranges::find_if(
          records, [&](const Record* one) { return one->impl == impl && place(*one) == at; });
      cells.push_back(r == records.end() ? "" : word(**r));
    }
    text += row(cells);
  }
  return text;
}

std::string origin(const core::Results& results) {
  return fmt::format("attest {}, commit {}, on {} with {} threads",
                     fact(results, "build", "version"), fact(results, "build", "commit"),
                     fact(results, "cpu", "model"), fact(results, "cpu", "threads"));
}

/// Every reason, worst verdict first, and where it holds.
std::string reasons(const std::vector<const Record*>& records) {
  struct Reason {
    int rank;  // bad ones first
    std::string text;
    bool operator<(const Reason& other) const {
      return std::tie(rank, text) < std::tie(other.rank, other.text);
    }
  };
  std::map<Reason, std::vector<std::string>> cases;
  for (const Record* r : records)
    if (!r->outcome.reason.empty())
      cases[{r->outcome.is_bad() ? 0 : 1,
             fmt::format("{}: {}: {}", r->impl, name(r->outcome.verdict()), r->outcome.reason)}]
          .push_back(r->suite + (r->suite.empty() ? "" : "/") + r->case_name);
  std::string text;
  for (const auto& [reason, names] : cases) {
    const size_t shown = std::min(names.size(), kNamedCases);
    text += fmt::format(
        "- {} ({}{})\n", cell(reason.text),
        cell(fmt::format("{}", fmt::join(names.begin(), names.begin() + ptrdiff_t(shown), ", "))),
        names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
  }
  return text;
}

}  // namespace

std::string print_markdown(const core::Results& results) {
  std::vector<const Record*> all;
  for (const Record& r : results.records) all.push_back(&r);
  auto impl_of = [](const Record& r) { return r.impl; };
  std::string text = fmt::format("# {}\n\n{}\n\n", results.header.command, origin(results));
  if (const std::string cut = cut_short(results); !cut.empty()) text += cut + "\n";
  text += counts(all, in_order(all, impl_of));
  for (const std::string& suite : in_order(all, [](const Record& r) { return r.suite; })) {
    std::vector<const Record*> own;
    std::ranges::copy_if(all, std::back_inserter(own),
                         [&](const Record* r) { return r->suite == suite; });
    text += fmt::format("\n## {}\n\n{}", suite.empty() ? "without a suite" : cell(suite),
                        verdicts(own, in_order(own, impl_of)));
  }
  if (const std::string why = reasons(all); !why.empty()) text += "\n## Why\n\n" + why;
  return text +
         "\nNumbers: the largest error as a share of its gate, <= 1 passes; the median time where "
         "a case was timed.\n";
}

}  // namespace attest::reports
