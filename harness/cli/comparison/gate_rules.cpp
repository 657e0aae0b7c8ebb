#include "cli/comparison/gate_rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/problem/glob.hpp"
#include "core/problem/hint.hpp"
#include "core/problem/strict_json.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/input_file.hpp"

namespace attest::cli {
namespace {

using nlohmann::json;
using reports::GateRule;
using reports::GateRules;
using reports::GateWaiver;
using reports::LimitName;

constexpr size_t kMostEntries = 1000, kMostGlobs = 100, kLongestText = 400;
const std::vector<std::string> kScopeKeys{"suite", "impl", "case", "dtype"};

/// The place in a file that is being read; every Error begins with it.
struct Place {
  std::string text;
  Place in(const std::string& key) const { return {fmt::format("{}: {}", text, key)}; }
  [[noreturn]] void fail(const std::string& what) const {
    throw core::Error(fmt::format("{}: {}", text, what));
  }
  [[noreturn]] void must_be(std::string_view right) const {
    fail(fmt::format("must be {}", right));
  }
};

void require_known_keys(const Place& place, const json& object,
                        const std::vector<std::string>& known) {
  if (!object.is_object()) place.must_be(fmt::format("an object of {}", fmt::join(known, ", ")));
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(known, key) == known.end()) {
      const std::string hint = core::did_you_mean(key, known);
      place.fail(fmt::format(
          "unknown key {}{}", core::in_quotes(key),
          hint.empty() ? fmt::format("; the keys are {}", fmt::join(known, ", ")) : hint));
    }
}

std::string text_of(const Place& place, const json& value) {
  const std::string* text = value.get_ptr<const std::string*>();
  if (!text || text->empty() || text->size() > kLongestText ||
      std::ranges::any_of(*text, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
    place.must_be(fmt::format("text of 1 to {} characters on one line", kLongestText));
  return *text;
}

std::string required_text(const Place& place, const json& object, const std::string& key,
                          const char* example) {
  if (!object.contains(key))
    place.fail(fmt::format("has no {}, e.g. \"{}\": \"{}\"", key, key, example));
  return text_of(place.in(key), object.at(key));
}

/// One text, or a list of them. Empty if there is no such key.
std::vector<std::string> texts_of(const Place& place, const json& object, const std::string& key) {
  const auto at = object.find(key);
  if (at == object.end()) return {};
  const Place here = place.in(key);
  if (!at->is_array()) return {text_of(here, *at)};
  if (at->empty() || at->size() > kMostGlobs)
    here.must_be(fmt::format("one text, or a list of 1 to {}", kMostGlobs));
  std::vector<std::string> texts;
  for (const json& text : *at) texts.push_back(text_of(here, text));
  return texts;
}

reports::Scope scope_of(const Place& place, const json& object) {
  return [suites = texts_of(place, object, "suite"), impls = texts_of(place, object, "impl"),
          cases = texts_of(place, object, "case"),
          dtypes = texts_of(place, object, "dtype")](const core::CaseKey& key) {
    return core::matches(key.suite, suites) && core::matches(key.impl, impls) &&
           (core::matches(key.case_name, cases) ||
            core::matches(key.suite + "/" + key.case_name, cases)) &&
           core::matches(key.dtype, dtypes);
  };
}

/// "3 %" or "3%" as 0.03; nothing if it is no percentage.
std::optional<double> percent_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, size_t(text.data() + text.size() - end));
  if (error != std::errc()) return std::nullopt;
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  return unit == "%" ? std::optional(value / 100) : std::nullopt;
}

double number_of(const Place& place, const LimitName& name, const json& value) {
  std::optional<double> number;
  if (name.is_percent && value.is_string()) number = percent_of(value.get<std::string>());
  if (!name.is_percent && value.is_number()) number = value.get<double>();
  if (number && *number >= name.least && *number <= name.most) return *number;
  if (name.is_percent)
    place.must_be(fmt::format("a percentage such as \"3 %\", from {:g} % to {:g} %",
                              100 * name.least, 100 * name.most));
  place.must_be(fmt::format("a number from {:g} to {:g}", name.least, name.most));
}

reports::AllowedVerdict verdict_of(const Place& place, const json& value) {
  const auto* const at = std::ranges::find_if(reports::kAllowedVerdicts,
                                              [&](const char* word) { return value == word; });
  if (at == std::end(reports::kAllowedVerdicts))
    place.must_be(fmt::format("one of {}", fmt::join(reports::kAllowedVerdicts, ", ")));
  return reports::AllowedVerdict(at - std::begin(reports::kAllowedVerdicts));
}

/// "verdict", "time", "memory" ...
std::vector<std::string> group_names() {
  std::vector<std::string> groups{"verdict"};
  for (const LimitName& name : reports::kLimits)
    if (groups.back() != name.group) groups.emplace_back(name.group);
  return groups;
}

std::vector<std::string> with(std::vector<std::string> all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// What the limits of a group are to look like: an object of larger_than, e.g. "error": {...}.
std::string form_of(const std::string& group) {
  std::string keys, example;
  for (const LimitName& name : reports::kLimits) {
    if (name.group != group) continue;
    keys += fmt::format("{}{}", keys.empty() ? "" : ", ", name.key);
    if (example.empty())
      example = fmt::format(R"({{"{}": {}}})", name.key, name.is_percent ? R"("3 %")" : "1");
  }
  return fmt::format("an object of {}, e.g. \"{}\": {}", keys, group, example);
}

void read_group(const Place& place, const std::string& group, const json& object, GateRule& rule) {
  std::vector<std::string> known;
  for (const LimitName& name : reports::kLimits)
    if (name.group == group) known.emplace_back(name.key);
  if (!object.is_object()) place.must_be(form_of(group));
  require_known_keys(place, object, known);
  if (object.empty()) place.fail(fmt::format("sets no limit; it has {}", fmt::join(known, ", ")));
  for (const LimitName& name : reports::kLimits)
    if (name.group == group && object.contains(name.key))
      rule.limits[name.limit] = number_of(place.in(name.key), name, object.at(name.key));
}

GateRule rule_of(const Place& place, const std::string& name, const json& object) {
  const std::vector<std::string> groups = group_names();
  require_known_keys(place, object, with(kScopeKeys, groups));
  GateRule rule{.name = name, .scope = scope_of(place, object)};
  for (const std::string& group : groups) {
    const auto at = object.find(group);
    if (at == object.end()) continue;
    if (group == "verdict")
      rule.verdict = verdict_of(place.in(group), *at);
    else
      read_group(place.in(group), group, *at, rule);
  }
  if (!rule.verdict && rule.limits.empty())
    place.fail(fmt::format("sets no limit; it may set {}", fmt::join(groups, ", ")));
  return rule;
}

std::string date_of(const Place& place, const std::string& text) {
  const auto digits = [&](size_t from, size_t count) {
    int value = -1;
    const char* end = text.data() + from + count;
    return std::from_chars(text.data() + from, end, value).ptr == end ? value : -1;
  };
  const bool is_shaped = text.size() == 10 && text[4] == '-' && text[7] == '-';
  if (is_shaped && digits(0, 4) >= 0 && digits(5, 2) > 0 && digits(8, 2) > 0 &&
      std::chrono::year_month_day(std::chrono::year(digits(0, 4)),
                                  std::chrono::month(unsigned(digits(5, 2))),
                                  std::chrono::day(unsigned(digits(8, 2))))
          .ok())
    return text;
  place.fail(
      fmt::format("{} is no day of the calendar; must be YYYY-MM-DD, the last day on which "
                  "the waiver holds",
                  core::in_quotes(text)));
}

GateWaiver waiver_of(const Place& place, const std::string& name, const json& object) {
  require_known_keys(place, object, with(kScopeKeys, {"limits", "reason", "expires"}));
  if (std::ranges::none_of(kScopeKeys,
                           [&](const std::string& key) { return object.contains(key); }))
    place.fail("names no case; it needs one or more of suite, impl, case, dtype");
  const std::vector<std::string> groups = group_names();
  GateWaiver waiver{.name = name,
                    .scope = scope_of(place, object),
                    .groups = texts_of(place, object, "limits"),
                    .reason = required_text(place, object, "reason", "issue 12: known, accepted")};
  for (const std::string& group : waiver.groups)
    if (std::ranges::find(groups, group) == groups.end()) {
      const std::string hint = core::did_you_mean(group, groups);
      place.in("limits").fail(fmt::format(
          "no limit {}{}", core::in_quotes(group),
          hint.empty() ? fmt::format("; there are {}", fmt::join(groups, ", ")) : hint));
    }
  waiver.expires =
      date_of(place.in("expires"), required_text(place, object, "expires", "2026-12-31"));
  return waiver;
}

/// The entries of a list; `kind`: "rule" or "waiver".
template <class Entry>
std::vector<Entry> entries_of(const Place& file, const json& object, const char* kind,
                              Entry (*read)(const Place&, const std::string&, const json&)) {
  std::vector<Entry> entries;
  const std::string key = fmt::format("{}s", kind);
  const auto at = object.find(key);
  if (at == object.end()) return entries;
  if (!at->is_array() || at->size() > kMostEntries)
    file.in(key).must_be(fmt::format("a list of at most {}", kMostEntries));
  for (const json& entry : *at) {
    const std::string name = fmt::format("{} {}", kind, entries.size() + 1);
    entries.push_back(read(file.in(name), name, entry));
  }
  return entries;
}

}  // namespace

GateRules parse_gate_rules(std::string_view text, const std::string& file) {
  const Place place{file};
  const json object = core::parse_strict_json(text, file);
  require_known_keys(place, object, {"rules", "waivers"});
  GateRules rules{.rules = entries_of(place, object, "rule", rule_of),
                  .waivers = entries_of(place, object, "waiver", waiver_of)};
  if (rules.rules.empty()) place.fail(R"(has no rules, e.g. "rules": [{"verdict": "pass"}])");
  return rules;
}

GateRules read_gate_rules(const std::string& path) {
  std::ifstream file =
      core::open_input(path, R"(; write a file such as {"rules": [{"verdict": "pass"}]})");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse_gate_rules(text, path);
}

}  // namespace attest::cli
