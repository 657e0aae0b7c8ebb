#include "cli/commands/list/list_events.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "cli/exit_code.hpp"
#include "cli/output/progress.hpp"
#include "core/inputs/event_ledger.hpp"
#include "core/inputs/prepared.hpp"
#include "core/problem/spec.hpp"

namespace attest::cli {
namespace {

using core::EventSurvey;
using core::NumericEvent;

struct Group {
  std::string name;
  int64_t possible = 0, seen = 0;
  std::vector<int64_t> of_fill;
};

// In the order of the events; groups that the problem cannot have at all are left out.
std::vector<Group> groups_of(const EventSurvey& survey) {
  std::vector<Group> groups;
  for (const NumericEvent& event : survey.events) {
    if (!event.why_not.empty()) continue;
    const std::string name = core::event_group(event.name);
    auto group = std::ranges::find(groups, name, &Group::name);
    if (group == groups.end())
      group = groups.insert(group,
                            {.name = name, .of_fill = std::vector<int64_t>(survey.fills.size())});
    ++group->possible;
    bool seen = false;
    for (size_t f = 0; f < survey.fills.size(); ++f) {
      const bool here = survey.fills[f].events.contains(event.name);
      group->of_fill[f] += here;
      seen |= here;
    }
    group->seen += seen;
  }
  return groups;
}

std::vector<std::string> header(const EventSurvey& survey) {
  std::vector<std::string> cells{"events", "can occur"};
  for (const EventSurvey::OfFill& of : survey.fills) cells.push_back(of.fill);
  cells.emplace_back("any fill");
  return cells;
}

std::vector<std::string> cells_of(const Group& group) {
  std::vector<std::string> cells{group.name, fmt::format("{}", group.possible)};
  for (const int64_t count : group.of_fill)
    cells.push_back(count > 0 ? fmt::format("{}", count) : "-");
  cells.push_back(fmt::format("{}", group.seen));
  return cells;
}

void print_groups(const EventSurvey& survey, bool markdown) {
  std::vector<std::vector<std::string>> lines{header(survey)};
  for (const Group& group : groups_of(survey)) lines.push_back(cells_of(group));
  std::vector<size_t> width(lines.front().size());
  for (const auto& line : lines)
    for (size_t c = 0; c < line.size(); ++c) width[c] = std::max(width[c], line[c].size());
  for (size_t l = 0; l < lines.size(); ++l) {
    std::string text;
    for (size_t c = 0; c < width.size(); ++c)
      text += markdown ? fmt::format("| {} ", lines[l][c])
              : c == 0 ? fmt::format("  {:<{}}", lines[l][c], width[c])
                       : fmt::format("  {:>{}}", lines[l][c], width[c]);
    fmt::print("{}{}\n", text, markdown ? "|" : "");
    if (markdown && l == 0) {
      for (size_t c = 0; c < width.size(); ++c) fmt::print("{}", c == 0 ? "|---" : "|--:");
      fmt::print("|\n");
    }
  }
}

constexpr size_t kShownWords = 4;  // of what a suite excuses

// Names in succession that differ in their last number, by one each time, as first .. last.
std::vector<std::string> in_ranges(const std::vector<std::string>& names) {
  auto parts = [](const std::string& name) {
    const size_t at = name.rfind('/') + 1;
    const bool number =
        at < name.size() && name.find_first_not_of("0123456789", at) == std::string::npos;
    return std::pair(name.substr(0, at), number ? std::stoi(name.substr(at)) : -1);
  };
  std::vector<std::string> words;
  for (size_t begin = 0, end; begin < names.size(); begin = end) {
    const auto [stem, first] = parts(names[begin]);
    for (end = begin + 1; first >= 0 && end < names.size() &&
                          parts(names[end]) == std::pair(stem, first + int(end - begin));)
      ++end;
    words.push_back(end > begin + 2
                        ? fmt::format("{} .. {}", names[begin], first + int(end - begin) - 1)
                        : names[begin]);
    if (end <= begin + 2) end = begin + 1;
  }
  return words;
}

// One line for each reason, or group, with the names that belong to it, `most` at most.
void print_names(std::string_view what,
                 const std::map<std::string, std::vector<std::string>>& names, bool markdown,
                 size_t most) {
  for (const auto& [key, list] : names) {
    std::vector<std::string> words = in_ranges(list);
    const size_t left = words.size() - std::min(words.size(), most);
    words.resize(words.size() - left);
    fmt::print("{}{} {}: {}{}\n", markdown ? "\n" : "  ", what, key, fmt::join(words, ", "),
               left > 0 ? fmt::format(" and {} more", left) : "");
  }
}

void print_missed(const core::EventLedger::Missed& missed, bool markdown, bool verbose) {
  std::map<std::string, std::vector<std::string>> by_group, by_reason;
  for (const std::string& name : missed.unsaid) by_group[core::event_group(name)].push_back(name);
  for (const auto& [name, why] : missed.excused)
    by_reason[fmt::format("({})", why)].push_back(name);
  print_names("missed", by_group, markdown, SIZE_MAX);
  print_names("missed, and said so", by_reason, markdown,
              markdown || verbose ? SIZE_MAX : kShownWords);
}

void print_survey(const std::string& title, const EventSurvey& survey,
                  const core::EventLedger::Missed& missed, const EventOptions& options,
                  bool by_fill) {
  std::map<std::string, std::vector<std::string>> impossible;
  size_t possible = 0;
  for (const NumericEvent& event : survey.events) {
    possible += event.why_not.empty();
    if (!event.why_not.empty())
      impossible[fmt::format("({})", event.why_not)].push_back(event.name);
  }
  const bool has_table = !survey.fills.empty() && by_fill;
  fmt::print("{}{}: {} of {} events; {} cannot occur\n{}", options.markdown ? "## " : "", title,
             possible - survey.missed().size(), possible, survey.events.size() - possible,
             options.markdown ? "\n" : "");
  if (has_table) print_groups(survey, options.markdown);
  print_missed(missed, options.markdown, options.verbose);
  if (options.verbose) print_names("cannot occur", impossible, options.markdown, SIZE_MAX);
  if (has_table) fmt::print("\n");
  std::fflush(stdout);
}

uint64_t seed_of(const core::Problem& problem) {
  return core::spec_seed(core::print_problem(problem));
}

// Which events each of these fills causes, by group.
void print_caused(const std::string& title, const EventSurvey& survey, bool markdown) {
  fmt::print("{}{}\n", markdown ? "## " : "", title);
  for (const EventSurvey::OfFill& of : survey.fills) {
    std::map<std::string, std::vector<std::string>> by_group;
    for (const NumericEvent& event : survey.events)
      if (of.events.contains(event.name))
        by_group[core::event_group(event.name)].push_back(event.name);
    if (by_group.empty()) fmt::print("  {} causes no event\n", of.fill);
    print_names(fmt::format("{} causes", of.fill), by_group, markdown, SIZE_MAX);
  }
  std::fflush(stdout);
}

// Surveys the fills that are asked for, as far as the problem has them.
void list_caused(const std::string& title, const core::Problem& problem, const core::Tokens* tokens,
                 const EventOptions& options) {
  const std::vector<std::string>& asked = options.filter.fills;
  const std::vector<std::string> known = core::known_fills(problem, tokens != nullptr);
  std::vector<std::string> fills = known;
  if (std::ranges::find(asked, core::kAllFills) == asked.end())
    std::erase_if(fills, [&](const std::string& fill) {
      return std::ranges::find(asked, fill) == asked.end();
    });
  if (fills.empty())
    return fmt::print("{}: has none of these fills, but: {}\n", title, fmt::join(known, ", "));
  print_caused(title, core::survey_events(problem, seed_of(problem), fills, tokens),
               options.markdown);
}

}  // namespace

void EventOptions::add_to(CLI::App& command) {
  command
      .add_option("--case", filter.cases,
                  "with --events: only cases with these names (globs, separated by commas)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      .add_option("--dtype", filter.dtypes,
                  "with --events: only these dtypes: f32,f16,bf16 (globs)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      .add_option("--fill", filter.fills,
                  "with --events: list which events these fills cause; all: every fill")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
  command.add_flag("--quick", filter.quick,
                   "with --events: only the cases that a suite marks as quick");
  command
      .add_option_function<std::string>(
          "--format", [this](const std::string& format) { markdown = format == "markdown"; },
          "with --events: text or markdown")
      ->check(CLI::IsMember({"text", "markdown"}).description(""))
      ->type_name("text|markdown");
  command.add_flag("--verbose", verbose,
                   "with --events: also show which fill causes how many events of each case, and "
                   "the events that cannot occur, with the reason");
}

int list_events(const std::vector<std::string>& suites, const std::optional<std::string>& spec,
                const EventOptions& options) {
  core::EventLedger ledger;
  if (spec) {
    const core::Problem problem = core::parse_problem(*spec);
    if (!options.filter.fills.empty()) {
      core::require_fills("--fill", options.filter.fills, core::known_fills(problem, false));
      list_caused(core::print_problem(problem), problem, nullptr, options);
      return kOk;
    }
    const EventSurvey survey =
        core::survey_events(problem, seed_of(problem), core::default_fills(problem, false));
    const auto missed = ledger.add({}, survey);
    print_survey(core::print_problem(problem), survey, missed, options, true);
    return missed.unsaid.empty() ? kOk : kBad;
  }
  core::TokenStore tokens({});
  bool well = true;
  size_t unsaid = 0;
  const core::Plan plan = core::plan_suites(suites, options.filter);
  Progress progress(plan.jobs.size());
  for (const core::Job& job : plan.jobs) {
    const std::string title = fmt::format("{}/{} {}", job.suite, job.case_name, job.dtype);
    progress.start(title);
    const core::SuiteJob& source = std::get<core::SuiteJob>(job.source);
    const core::Case& wanted = *source.wanted;
    const core::Tokens* own =
        wanted.inputs.from_tokens ? &tokens.take(wanted.inputs.source) : nullptr;
    const core::Problem problem = wanted.problem(source.dtype, own ? own->count : 0);
    if (!options.filter.fills.empty()) {
      progress.clear();
      list_caused(title, problem, own, options);
      progress.finish();
      continue;
    }
    const EventSurvey survey =
        core::survey_events(problem, seed_of(problem), core::fills_of(wanted, problem), own);
    const auto missed = ledger.add(wanted, survey);
    progress.finish();
    progress.clear();
    print_survey(title, survey, missed, options, options.markdown || options.verbose);
    unsaid += !missed.unsaid.empty();
    well &= missed.unsaid.empty();
  }
  if (!options.filter.fills.empty()) return kOk;
  if (!options.markdown)
    fmt::print("{} of {} problem{} miss{} an event without giving a reason{}\n", unsaid,
               plan.jobs.size(), plan.jobs.size() == 1 ? "" : "s", unsaid == 1 ? "es" : "",
               options.verbose ? "" : "; --verbose shows the events of each fill");
  // What a case says is out of date only where all of its problems were looked at.
  if (!options.filter.dtypes.empty() || options.filter.quick) return well ? kOk : kBad;
  for (const std::string& glob : ledger.stale()) {
    fmt::print("{} is not missed any more: take it out of misses\n", glob);
    well = false;
  }
  return well ? kOk : kBad;
}

}  // namespace attest::cli
